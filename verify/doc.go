// Package verify judges whether the databases hold what the source holds, row by
// row and place by place, with SQL of its own: it shares no code with what copies
// rows, applies entries or computes shards in Go, so that their mistakes cannot hide
// themselves. It changes no user data.
//
// A full pass reads each table once on every side, all sides at once, in short
// chunks of its physical order. The servers compute hash of the key and digest of the
// row; only these travel. They meet in a sketch (sketch.go), which keeps what one side
// has and the other has not, in bounded memory whatever the order. What is left over
// is narrowed to keys by the names in the log, else by another reading (narrow.go). A
// row that stands where its key does not belong gets another digest from the server
// itself, so that one comparison finds all kinds of damage.
//
// Under live writes a key that differs only may be wrong. It is confirmed
// (confirm.go) in two snapshots, of which the first has both the rows and the
// position that they were brought to: no lock is held and no tick waits. What goes
// on changing stays unsettled.
//
// A pass is true for the moment of its reading. Rounds (round.go, delta.go) keep it
// true: each compares what was written and applied since the last. If the log loses
// an entry before it was compared, the chain of rounds breaks and the pass is stale;
// that is asked behind each reading of the log, in the same round trip. A round that
// leaves more undecided than can be kept does not end: the next begins where it began,
// and the pass is partial until one ends.
//
// Invariants:
//   - a difference is reported only if no entry that is still to be applied, of the row
//     or a parent of it, can explain it;
//   - a pass is clean only if every row was read on both sides, all that differed was
//     decided but for a bounded number of keys, owner and epoch are those of its
//     beginning, and the chain of rounds has held since;
//   - nothing that differed is forgotten: it is judged, or on record as unsettled, or lies
//     beyond the end of its chain's last round, or the pass is partial;
//   - digests are never combined by XOR, and never summed as hash_record_extended
//     gives them;
//   - snapshots and memory are bounded, whatever the size of a table or the load.
//
// It owns the tables shardctl.verify_* on the source (state.sql) and no other
// object. Killed: nothing is to be undone; a full pass goes on behind the last table
// that it was through with, a round is run again.
package verify
