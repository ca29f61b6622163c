package main

import "github.com/spf13/cobra"

// commands lists every command, in the order of a migration.
func commands(a *app) []*cobra.Command {
	return []*cobra.Command{
		newInit(a), newPlan(a), newPrepare(a), newInstall(a), newCatchup(a), newBackfill(a), newVerify(a), newCutover(a), newRollback(a),
		newComplete(a), newAbort(a), newStatus(a), newDoctor(a), newReport(a), newRun(a), newTopology(a), newRoute(a), newWatchdog(a), newDemo(a), newRehearse(a),
	}
}
