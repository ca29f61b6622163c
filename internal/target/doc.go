// Package target makes the migrated tables on the databases: what prepare makes
// before the copy, what follows the copy, and the change between the side that an
// applier writes and the side that the application writes. It copies no rows and
// decides no ownership.
//
// Before the copy (Prepare): schemas, types, functions, collations, sequences,
// tombstones, tables with defaults, checks and primary keys, partitions, owners,
// comments, and a closed fence on each. No trigger that fires BEFORE ROW: COPY
// would fall back to single inserts. After it (Finish): other keys, indexes, foreign
// keys, guards, stored keys, the user's triggers, grants, row security, statistics;
// all triggers dormant. Open and Close then turn a database by a script that Finish
// left on it, so that they need nothing but the database.
//
// Choices:
//   - A sequence of the source is one object per database, shared by all of the
//     database's schemas (SequenceName), so that its lane is one. An identity column
//     becomes DEFAULT nextval of it everywhere: an identity owns a sequence per table.
//     A table that has one place in a database still owns its serial's sequence.
//   - A foreign key is made only where both ends are in one location by construction:
//     the table is derived through it, or both ends hold the shard key, or it refers
//     to an everywhere table (the local copy). Others may join rows of different
//     shards, and plan names them.
//   - A side that an applier writes fires no trigger of the user's and no action of a
//     foreign key: the applier has replica role. Where it may not, foreign keys are NO
//     ACTION DEFERRABLE INITIALLY DEFERRED until the database is opened, and are
//     exchanged then, NOT VALID; Settle validates them.
//   - Names of indexes, constraints' indexes and partitions are the source's, unless
//     another table's at the same location has it: then the table's number follows.
//   - Roles are never made: owners and grants of roles that are absent are left out,
//     but a policy for an absent role is refused.
//   - A definition that the user has on a database already is used if it is equal, and
//     refused if it differs. A table or sequence that is there and not registered is
//     refused: it is not ours.
//
// Killed at any point: every object is registered before it is made, a table and
// all that belongs to it is made in one transaction, and what is there is skipped
// the next time.
package target
