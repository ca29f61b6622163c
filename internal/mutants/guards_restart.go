package main

// restartGuards are those of a copy that starts over after a gap.
var restartGuards = []guard{
	{
		name: "writers of the time before are waited for",
		why:  "what they wrote while capture was stopped and commit later is in no snapshot and in no log",
		file: "internal/restart/run.go",
		old:  "if err := side.AwaitWriters(ctx, c.Source, cmp.Or(c.writersWait, defaultWritersWait)); err != nil {", new: "if err := error(nil); cmp.Or(c.writersWait, defaultWritersWait) == 0 {",
		pkg: "internal/restart", test: "TestAWriterOfTheTimeBeforeIsWaitedFor",
		slow: true,
	},
	{
		name: "a gap ends only while capture records",
		why:  "capture that was stopped again meanwhile has lost entries that nobody would miss",
		file: "auditlog/anew.go",
		old:  "if len(stopped) > 0 {", new: "if len(stopped) < 0 {",
		pkg: "internal/restart", test: "TestAGapThatOpensAgainStays",
		slow: true,
	},
	{
		name: "a gap stands for all whose log is emptied",
		why:  "a tick would go on over what was not recorded",
		file: "internal/restart/run.go",
		old:  "if err := auditlog.SourceSide(cfg.Layout).EndGap(ctx, cfg.Source, s.Name); err != nil {", new: "if err := auditlog.SourceSide(cfg.Layout).EndGap(ctx, cfg.Source, subjects[len(subjects)-1].Name); err != nil {",
		pkg: "internal/restart", test: "TestKilledAtEachStep",
		slow: true,
	},
	{
		name: "a database is emptied under the newest term only",
		why:  "a process that was stopped for long would empty what another one has copied since",
		file: "internal/restart/empty.go",
		old:  "case control.Term > term:", new: "case false:",
		pkg: "internal/restart", test: "TestWhoComesLateDoesNothing",
		slow: true,
	},
	{
		name: "a database that owns its shards is not emptied",
		why:  "its rows are the application's",
		file: "internal/restart/empty.go",
		old:  "case control.Owner != store.OwnerSource:", new: "case false:",
		pkg: "internal/restart", test: "TestWhoComesLateDoesNothing",
		slow: true,
	},
	{
		name: "fast mode does not drop what foreign keys need",
		why:  "the copy anew would fail, or hold its ticks while a unique index waits for one",
		file: "backfill/mode.go",
		old:  "case s.Indexed:", new: "case false:",
		pkg: "internal/restart", test: "TestOneOfTwo",
		slow: true,
	},
	{
		name: "a chunk from before the start is read again, in fast mode too",
		why:  "what changed between a replica's state and the start is in no row and beyond no position",
		file: "backfill/write.go",
		old:  "if c.Note < through {", new: "if false {",
		pkg: "backfill", test: "TestFast/AChunkFromBeforeTheStartIsReadAgain",
	},
	{
		name: "a round does not revive a chain that was ended",
		why:  "a pass of before would open the gate for a database that was emptied since",
		file: "verify/round.go",
		old:  "if !l.first {", new: "if false {",
		pkg: "verify", test: "TestARoundUnderWayDoesNotReviveAChainThatWasEnded",
	},
}
