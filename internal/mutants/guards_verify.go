package main

// verifyGuards are those of verification and of what is shown.
var verifyGuards = []guard{
	{
		name: "verification locks its tables before its snapshot",
		why:  "a table that is rewritten after an older snapshot reads as empty in it: all its rows would be differences",
		file: "verify/walk.go",
		old:  `"; LOCK TABLE " + strings.Join(tables, ", ") + " IN ACCESS SHARE MODE"`, new: `""`,
		pkg: "verify", test: "TestARewriteUnderWayIsNoDifference",
	},
	{
		name: "types that hash alike go through text",
		why:  "numeric 1.0 and 1.00 have one hash and are two values",
		file: "verify/digest.go",
		old:  "\t\"boolean\", \"smallint\", \"integer\",", new: "\t\"numeric\", \"boolean\", \"smallint\", \"integer\",",
		pkg: "verify", test: "TestValuesThatOnlyLookEqualAreFound",
	},
	{
		name: "digests are summed, never XORed",
		why:  "a pair of rows cancels itself",
		file: "verify/sketch.go",
		old:  "c.key+e.key, c.digest+e.digest, c.check+check, c.count+1", new: "c.key^e.key, c.digest^e.digest, c.check^check, c.count+1",
		also: []edit{
			{"c.key-e.key, c.digest-e.digest, c.check-check, c.count-1", "c.key^e.key, c.digest^e.digest, c.check^check, c.count-1"},
			{"c = cell{key: -c.key, digest: -c.digest, check: -c.check, count: -c.count}", "c = cell{key: c.key, digest: c.digest, check: c.check, count: -c.count}"},
		},
		pkg: "verify", test: "TestSketchSeesARowThatIsLeftOverSeveralTimes",
	},
	{
		name: "a row's places in the sketch depend on key and digest together",
		why:  "two rows that swap a column's values would cancel each other",
		file: "verify/sketch.go",
		old:  "h := mix(mix(e.key+0x9e3779b97f4a7c15) ^ e.digest)", new: "h := mix(e.key + 0x9e3779b97f4a7c15)",
		pkg: "verify", test: "TestSketchSeesASwap",
	},
	{
		name: "a difference counts only without an entry beyond the position",
		why:  "a row that changes all the time differs at every look and is never wrong",
		file: "verify/confirm.go",
		old:  "decided: p.clean() || !hit[i]}", new: "decided: true}",
		pkg: "verify", test: "TestWritesThatAreNotAppliedYetAreNoDifferences",
	},
	{
		name: "what was running at the position lies beyond it",
		why:  "its entries have lower xids than the position's end",
		file: "verify/entries.go",
		old:  `return !strings.HasSuffix(position, ":")`, new: `return false && !strings.HasSuffix(position, ":")`,
		pkg: "verify", test: "TestATransactionThatWasRunningAtThePositionExplains",
	},
	{
		name: "a parent's entry explains its children",
		why:  "a child has no entry of its own when its parent takes it along",
		file: "verify/lookup.go",
		old:  "out[i] = out[i] || hit[j]", new: "out[i] = out[i] || false && hit[j]",
		pkg: "verify", test: "TestAParentThatMovesExplainsItsChildren",
	},
	{
		name: "repaired rows need a new pass",
		why:  "a repair is not a verification: what else was wrong is not known",
		file: "verify/judgement.sql",
		old:  "AND d.at >= done.since)", new: "AND d.at >= done.since AND d.repaired_at IS NULL)",
		pkg: "verify", test: "TestRepairHandsKeysAndTheirParentsToTheLog",
	},
	{
		name: "a pass belongs to an epoch",
		why:  "what was true of the shards under another owner is not true of them now",
		file: "verify/judgement.sql",
		old:  "AND d.epoch = o.epoch AND d.owner = o.owner", new: "",
		pkg: "verify", test: "TestGateWantsAFreshCleanPassOfTheSameEpoch",
	},
	{
		name: "a secret shows nothing with any verb",
		why:  "a DSN with its password would stand in errors, logs and the journal",
		file: "migrate/secret.go",
		old:  "func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }", new: "func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s)) }",
		pkg: "migrate", test: "TestSecretFormatsAsNothing",
	},
}
