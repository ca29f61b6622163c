package pgbouncer_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	pauseIfAsked()
	pgtest.Main(m)
}

// TestPgBouncer runs all that needs poolers. They share three databases, which tests
// only connect to: making databases would take longer than the tests.
func TestPgBouncer(t *testing.T) {
	dbs := pgtest.NewDatabases(t, 3)
	for name, test := range map[string]func(*testing.T, []*pgtest.Database){
		"Conformance":                     testConformance,
		"HostileFile":                     testHostileFileStaysByteForByte,
		"SearchPath":                      testSearchPath,
		"UnfitFiles":                      testUnfitFilesAreRefusedAndLeftAlone,
		"ReadBackFindsABrokenFile":        testReadBackFindsABrokenFile,
		"OneNameForAll":                   testOneNameForAll,
		"Readers":                         testReaders,
		"FileVia":                         testFileVia,
		"PauseGivesUp":                    testPauseGivesUp,
		"PauseLetsServersLogIn":           testPauseLetsServersLogIn,
		"PauseWaitsForTheTransaction":     testPauseWaitsForTheTransaction,
		"ResumeStrandsNoPause":            testResumeStrandsNoPause,
		"OthersAreNotHeld":                testOthersAreNotHeld,
		"PoolerThatStopsAnswering":        testPoolerThatStopsAnswering,
		"PoolerRestarted":                 testPoolerRestarted,
		"HolderKilled":                    testAnotherProcessReleasesWhatAKilledOneHeld,
		"HolderKilledWhileItWaits":        testAProcessKilledWhileItWaitsForADrain,
		"ProbeRefuses":                    testProbeRefusesWhatCannotBeReached,
		"ProbeLeavesTheFileAsItWas":       testProbeLeavesTheFileAsItWas,
		"ProbeAsksItsScopeAlone":          testProbeAsksItsScopeAlone,
		"ProbeLogin":                      testProbeLogin,
		"ProbeOfAFileThatCannotBeWritten": testProbeOfAFileThatCannotBeWritten,
		"Describe":                        testDescribe,
		"Findings":                        testFindings,
		"UnreachablePooler":               testUnreachablePoolerIsAFindingWithoutSecrets,
		"OpenFiles":                       testOpenFiles,
		"ManyEntries":                     testManyEntries,
		"PauseThatArrivesLate":            testPauseThatArrivesLate,
		"Busy":                            testBusyNamesTheServersOfOpenTransactions,
		"FlipsUnderLoad":                  testFlipsUnderLoad,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dbs)
		})
	}
}
