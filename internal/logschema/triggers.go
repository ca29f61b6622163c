package logschema

import "strconv"

// The triggers on user tables. Those on databases carry the same names at every
// location.

// CaptureTrigger records rows; AFTER ROW, on the table and every leaf.
func CaptureTrigger(migration string) string { return "shardctl_" + migration + "_capture" }

// CaptureTruncateTrigger records TRUNCATE; AFTER STATEMENT.
func CaptureTruncateTrigger(migration string) string { return "shardctl_" + migration + "_truncate" }

// FenceTrigger refuses, on the source, rows of the database at that place.
func FenceTrigger(migration string, database int) string {
	return "shardctl_" + migration + "_fence_" + strconv.Itoa(database)
}

// FenceTruncateTrigger refuses TRUNCATE on the source for the database at that
// place.
func FenceTruncateTrigger(migration string, database int) string {
	return "shardctl_" + migration + "_fence_truncate_" + strconv.Itoa(database)
}

// ClosedTrigger refuses INSERT, UPDATE, DELETE and TRUNCATE on a database; BEFORE
// STATEMENT, on the table and every partition.
func ClosedTrigger(migration string) string { return "shardctl_" + migration + "_closed" }

// GuardTrigger refuses, on an open database, rows that map to another location.
func GuardTrigger(migration string) string { return "shardctl_" + migration + "_guard" }

// StoreTrigger fills a derived table's stored key; BEFORE ROW.
func StoreTrigger(migration string) string { return "shardctl_" + migration + "_store" }

// HandDownTrigger hands a parent's changed key down to its children's
// stored keys; AFTER ROW.
func HandDownTrigger(migration string) string { return "shardctl_" + migration + "_hand_down" }

// Prefix begins the name of every trigger of a migration.
func Prefix(migration string) string { return "shardctl_" + migration + "_" }
