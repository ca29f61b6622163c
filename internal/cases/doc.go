// Package cases takes failures that other tools of this kind were reported for
// (testdata/cases, one file each) through the whole journey with the program: set up,
// plan, prepare, install, catch-up and backfill while the case's statements run, verify,
// cutover, rollback, abort.
//
// What comes out is compared by the package's own reading of both sides, never by
// shardctl verify; verify is judged against it. A case ends exact, or refused before
// anything changed, as its file allows.
//
// The files of testdata/types are of the same form: every type that the server has built
// in, with its extremes, types of the user's and of extensions, keys, names, partitions,
// and what is refused. Their setup may use matrix.sql. Tables that have an id are written
// by the test itself, so that each value is copied, caught up with, taken back after the
// cutover and taken forward again; a difference is planted in each column for verify to
// find. A head "refused" has the findings of a file that plan must refuse; "long" says
// why a file is left to the long form, in which all go through both modes of backfill:
//
//	SHARDCTL_JOURNEY=full go test ./internal/cases -run TestTypes -timeout 60m
//
// SHARDCTL_CASES_DIR names another folder of such files. SHARDCTL_CASES_DOC=write
// writes docs/cases.md anew.
package cases
