package main

// captureGuards are those of sessions, state, capture and rotation.
var captureGuards = []guard{
	{
		name: "commits wait for the disk",
		why:  "a marker that a crash takes back is no position: the xids after it are handed out again",
		file: "internal/postgres/connect.go",
		old:  "SET synchronous_commit = on;", new: "",
		pkg: "internal/postgres", test: "TestSessionsDoNotTakeTheDefaultsOfTheirRole",
	},
	{
		name: "row_security is off",
		why:  "a policy that applies to our role hides rows, and hidden rows read as deleted",
		file: "internal/postgres/connect.go",
		old:  "SET row_security = off;", new: "",
		pkg: "internal/postgres", test: "TestSessionsDoNotTakeTheDefaultsOfTheirRole",
	},
	{
		name: "a lower term is refused",
		why:  "a stale process would take over from the one that took over from it",
		file: "internal/store/term.go",
		old:  "if c.Term > term {", new: "if false {",
		pkg: "internal/store", test: "TestLowerTermIsRefused",
	},
	{
		name: "who changes the control row queues with an advisory lock",
		why:  "row locks let later sharers overtake: a switch would wait behind ticks and chunks for ever",
		file: "internal/store/control.go",
		old:  `if err := advisory(ctx, tx, "pg_advisory_xact_lock", "control", migration, ""); err != nil {`, new: "if err := ctx.Err(); err != nil {",
		pkg: "internal/store", test: "TestChangeIsNotStarvedBySharers",
	},
	{
		name: "capture's row trigger is ENABLE ALWAYS",
		why:  "sessions with session_replication_role = replica slip by",
		file: "auditlog/sql.go",
		old:  `quoted(root), "AFTER INSERT OR UPDATE OR DELETE", what, "ENABLE ALWAYS")`, new: `quoted(root), "AFTER INSERT OR UPDATE OR DELETE", what, "ENABLE")`,
		pkg: "auditlog", test: "TestEachOperationLeavesItsKeys",
	},
	{
		name: "a leaf has a TRUNCATE trigger of its own",
		why:  "the server clones none, and a TRUNCATE that names the leaf fires only the leaf's",
		file: "auditlog/install_trigger.go",
		old:  `return r.isRoot() || r.kind == "r"`, new: "return r.isRoot()",
		pkg: "auditlog", test: "TestALeafIsCapturedExactlyOnce",
	},
	{
		name: "a trigger that was off for a while is noticed",
		why:  "DISABLE, write, ENABLE leaves tgenabled as it was; only xmin tells",
		file: "auditlog/watch.go",
		old:  "case f.Triggers != accepted.Triggers:", new: "case false:",
		pkg: "auditlog", test: "TestWatchStopsAtDDL",
	},
	{
		name: "a trigger that does not fire always is named",
		why:  "writes are being lost at this moment",
		file: "auditlog/watch.go",
		old:  "case f.Off > 0:", new: "case false:",
		pkg: "auditlog", test: "TestWatchStopsAtDDL",
	},
	{
		name: "a segment is looked at after its lock",
		why:  "an entry that commits between a look and the lock would be truncated unread",
		file: "auditlog/rotate.go",
		old:  "if uncovered {\n", new: "if false && uncovered {\n",
		pkg: "auditlog", test: "TestRotationLooksAfterTheLock",
	},
	{
		name: "a segment waits for every position",
		why:  "an entry that one database has not applied would be gone",
		file: "auditlog/rotate.go",
		old:  "if i == 0 || p.xmax < out.xmax {", new: "if i == 0 || p.xmax > out.xmax {",
		pkg: "auditlog", test: "TestRotationMovesWritersAndEmptiesWhatIsCovered",
	},
}
