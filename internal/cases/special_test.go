package cases

import (
	"fmt"
)

// special is what a case's head says in words: another role, steps of the operator,
// faults.
type special struct {
	setup    string   // runs before the file's own
	spec     []string // more lines of the spec
	role     string   // whom shardctl is
	grants   string   // what plan asks for that role, run on the source
	keys     string   // what stands beside each key in the spec
	says     string   // what a command logs that goes on trying
	backfill []string // arguments
	memory   int64    // the most that a command may have, in bytes; 0: it is not looked at
	after    []statement
	built    func(*run)       // before plan
	prepared func(*run)       // before install
	live     func(*run) error // in the place of running the live statements once
	during   func(*run)       // while they run
	stuck    func(*run)       // what an operator does when a command stopped or a key is quarantined
	copied   func(*run)       // before both sides have to be level
	verified func(*run)       // after the first clean pass
	cut      func(*run)       // in the place of one cutover
	cutOver  func(*run)       // after the cutover was compared
	returned func(*run)       // after the rollback was compared
}

var specials = map[string]special{
	"H012": {stuck: acknowledged(everyDatabase(`ALTER TYPE ticket_state ADD VALUE 'on hold' BEFORE 'it''s "done"'`))},
	"H062": {stuck: acknowledged(everyShard("ALTER TABLE gadget ADD COLUMN d int NOT NULL DEFAULT 4; ALTER TABLE gadget DROP COLUMN a"))},
	"H038": {stuck: acknowledged(everyShard(newPartitions)), copied: repaired},
	"H041": {role: "case_owner"},
	"H023": {memory: 256 << 20}, // a few copies of its largest row
	"T12":  {memory: 256 << 20},
	"H030": {after: []statement{{sql: "INSERT INTO doc_a (tenant) VALUES (1)"}, {sql: "INSERT INTO never_used (tenant) VALUES (1)"}},
		cutOver: func(r *run) {
			// No table draws from app_only: it stays the source's, with its entry.
			got, err := r.source.value(r.ctx, "SELECT nextval('app_only')::text")
			if must(r.t, err); got != "11" {
				r.t.Errorf("app_only gives %s after 4 values from 7", got)
			}
		}},
	"H058": {spec: []string{"throttle: {max_rate: 4000}"}, backfill: []string{"--workers", "1"}},
	"H064": {live: sixTimes, during: tenKills},
	"H065": {stuck: everyShard("ALTER TABLE gauge DROP CONSTRAINT gauge_small")},
	"H067": {built: throughPooler},
	"H068": {role: "case_owner"},
	"H069": {role: "case_app"},
	"H070": {role: oddRole, built: everyFormOfDSN},
	"H071": {role: "case_limited", grants: "GRANT CREATE ON DATABASE src_h071 TO case_limited; ALTER ROLE case_limited CONNECTION LIMIT 20", backfill: []string{"--workers", "16"}},
	"H072": {live: nothing, cut: besideAnOpenWriter},
	"H073": {live: nothing, cut: besideABacklog},
	"H074": {after: []statement{
		{sql: "INSERT INTO cust_order (id, customer, total, note) VALUES (10001, 1, 5, 'on shard')"},
		{sql: "INSERT INTO cust_order (id, customer, total, note) VALUES (10002, 2, 6, 'on shard')"},
		{sql: "UPDATE cust_order SET note = 'edited on shard' WHERE customer = 3"},
		{sql: "DELETE FROM cust_order WHERE customer = 4 AND id < 50"},
		{sql: "UPDATE cust_order SET total = NULL WHERE id = 10001"},
		{sql: "DELETE FROM cust_order WHERE id = 10002"},
	}},
	"H075": {prepared: tooEarly, cutOver: again},
	"H076": {during: twoOrchestrators},
	"H079": {keys: ", null_keys: {shard: 0}"},
	"H082": {verified: plantedDifferences},
	"H083": {says: "No space left on device", stuck: everyShard("DROP TRIGGER full_disk ON archive; DROP FUNCTION full_disk()")},
	"T08":  {stuck: acknowledged(everyShard(otherPartitions)), copied: repaired},
	"H084": {cutOver: func(r *run) {
		must(r.t, r.source.exec(r.ctx, "ALTER DATABASE "+r.source.dbname+" SET default_transaction_read_only = on"))
	}},
}

// newPartitions are those that the case makes. Rows of theirs that were applied already
// stand in the default partition, and have to step out of the way.
const newPartitions = `SET shardctl.applier = 'h038';
	CREATE TEMP TABLE moved AS SELECT * FROM reading WHERE at >= '2027-01-01'; DELETE FROM reading WHERE at >= '2027-01-01';
	CREATE TABLE reading_2027 PARTITION OF reading FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
	CREATE TABLE reading_2028 PARTITION OF reading FOR VALUES FROM ('2028-01-01') TO ('2029-01-01');
	INSERT INTO reading SELECT * FROM moved`

// otherPartitions are those that the file of detached leaves ends with.
const otherPartitions = `ALTER TABLE reading DETACH PARTITION reading_23; DROP TABLE reading_23, reading_22;
	CREATE TABLE reading_25 PARTITION OF reading FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')`

// acknowledged is DDL that was applied on all sides, and then said so.
func acknowledged(apply func(*run)) func(*run) {
	return func(r *run) {
		apply(r)
		r.catchup.Interrupt(r.t) // it may not have come to the change yet
		r.do("doctor", "--acknowledge-ddl", "--yes")
	}
}

func everyDatabase(sql string) func(*run) {
	return func(r *run) {
		for _, db := range r.databases {
			must(r.t, db.exec(r.ctx, sql))
		}
	}
}

func everyShard(sql string) func(*run) {
	return func(r *run) {
		for shard := range shards {
			must(r.t, r.databases[shard*databases/shards].exec(r.ctx, fmt.Sprintf("SET search_path = s_%d, public; %s", shard, sql)))
		}
	}
}
