package logschema

import (
	"hash/fnv"
	"strconv"
)

// Advisory lock keys. They are per PostgreSQL database, so a key need not name
// the server; it names the purpose and the migration, hashed into the 64-bit
// space, where two of ours meet by chance with a probability of 2^-64 a pair.

// ControlLock guards a migration's control row on a database.
func ControlLock(migration string) int64 { return lockKey("control", migration) }

// OwnershipLock guards a database's ownership row on the source.
func OwnershipLock(migration, database string) int64 {
	return lockKey("ownership", migration, database)
}

// TableLock orders chunks, ticks and holds of one table.
func TableLock(migration string, table int) int64 {
	return lockKey("table", migration, strconv.Itoa(table))
}

// LeaseLock is held by the one process that has a role.
func LeaseLock(migration, role string) int64 { return lockKey("lease", migration, role) }

// PrepareLock keeps two processes from creating objects of one migration at once.
func PrepareLock(migration string) int64 { return lockKey("prepare", migration) }

func lockKey(parts ...string) int64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return int64(h.Sum64())
}
