package backfill

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

var (
	// errAgain: what was read may be stale; note a newer tick and read again.
	errAgain = errors.New("the chunk must be read again")
	// errVoid: the chunk's plan is no longer valid.
	errVoid = errors.New("the chunk's plan was replaced")
	// errConflict: a unique index other than the key forbids a row beside one that
	// catch-up has not brought up to date yet.
	errConflict = errors.New("a row stands in the way of one that was copied")
)

// rewritten says that a relation no longer has the file that was planned.
type rewritten struct{ relation string }

func (e rewritten) Error() string { return e.relation + " was rewritten" }

func ownedFailure(database, owner string) error {
	return migrate.Refuse("backfill.owned", database, "it is owned by "+owner+", not by the source", "nothing may be copied into a database that is in use; roll it back first")
}

func columnsFailure(table string) error {
	return migrate.Refuse("backfill.columns", table, "its columns have changed since the backfill began",
		"undo the change and run the command again; or apply it on all sides, then run shardctl doctor --acknowledge-ddl")
}

// lostFailure is about databases that had lost something at the end of each try.
func lostFailure(databases []string) error {
	return migrate.Broken("backfill.lost", strings.Join(databases, ", "),
		fmt.Sprintf("what was copied was gone again at the end, %d times: it has failed over to a standby that was behind, or was started anew", concludeTries),
		"see that no standby that is behind takes its place, then run `shardctl backfill` again: it copies what is missing", nil)
}

func noKeyFailure(c Chunk) error {
	policy := "null_keys"
	if c.Table.Derived() {
		policy = "orphans or null_keys"
	}
	return migrate.Refuse("backfill.no_key", c.Table.Name(), fmt.Sprintf("a row has no usable key (%s)", c),
		"give it one, delete it, or set "+policy+" in the spec; `shardctl plan` lists such rows")
}
