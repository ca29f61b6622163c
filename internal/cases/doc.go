// Package cases takes failures that other tools of this kind were reported for
// (testdata/cases, one file each) through the whole journey with the program: set up,
// plan, prepare, install, catch-up and backfill while the case's statements run, verify,
// cutover, rollback, abort.
//
// What comes out is compared by the package's own reading of both sides, never by
// shardctl verify; verify is judged against it. A case ends exact, or refused before
// anything changed, as its file allows.
//
// SHARDCTL_CASES_DIR names another folder of such files. SHARDCTL_CASES_DOC=write
// writes docs/cases.md anew.
package cases
