package logschema

import "strconv"

// Schema holds all that is ours on the source and on databases, except triggers.
const Schema = "shardctl"

// ApplierSetting is the session setting that names the migration whose applier
// the session is; every trigger of ours skips that session's writes.
const ApplierSetting = "shardctl.applier"

// Segments is how many segments a log rotates through.
const Segments = 2

// MaxMigration is the longest name of a migration, in bytes.
const MaxMigration = 32

// Log is a segment (0 or 1) of a table's log.
func Log(migration string, table, segment int) string {
	return migration + "_log_" + strconv.Itoa(table) + "_" + strconv.Itoa(segment)
}

// Tombstones is the table of deletes that were issued on a database.
func Tombstones(migration string, table int) string {
	return migration + "_tomb_" + strconv.Itoa(table)
}

// FenceHits is the sequence that counts refused writes.
func FenceHits(migration string) string { return migration + "_fence_hits" }

// Capture is the function that records a row's keys.
func Capture(migration string, table int) string {
	return migration + "_capture_" + strconv.Itoa(table)
}

// CaptureTruncate is the function that records a TRUNCATE.
func CaptureTruncate(migration string, table int) string {
	return migration + "_capture_truncate_" + strconv.Itoa(table)
}

// Fence is the source function that refuses a row of one database.
func Fence(migration string, table, database int) string {
	return migration + "_fence_" + strconv.Itoa(table) + "_" + strconv.Itoa(database)
}

// FenceTruncate is the source function that refuses TRUNCATE once a database
// owns shards.
func FenceTruncate(migration string, database int) string {
	return migration + "_fence_truncate_" + strconv.Itoa(database)
}

// Closed is the function by which a database refuses all writes.
func Closed(migration string) string { return migration + "_closed" }

// Guard is the function by which a table on a database refuses rows that map
// to another location. Shard tells the locations of a database apart where each
// shard has a schema of its own, else it is NoShard.
func Guard(migration string, table, shard int) string {
	return perLocation(migration+"_guard_"+strconv.Itoa(table), shard)
}

// Store is the function that fills a derived table's stored key.
func Store(migration string, table, shard int) string {
	return perLocation(migration+"_store_"+strconv.Itoa(table), shard)
}

// HandDown is the function by which a parent hands a changed key down to the
// stored keys of the tables derived from it.
func HandDown(migration string, table, shard int) string {
	return perLocation(migration+"_hand_down_"+strconv.Itoa(table), shard)
}

// NoShard stands for the one location of a database whose shards share a schema.
const NoShard = -1

func perLocation(name string, shard int) string {
	if shard == NoShard {
		return name
	}
	return name + "_" + strconv.Itoa(shard)
}

// Switch is the table, on a database, of the statements that open and close it.
func Switch(migration string) string { return migration + "_switch" }
