package migrate

import (
	"strings"
	"testing"
)

// TestWhatIsRefused bends base in one place and names all that is then reported.
func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           string // "code at object", one a line
	}{
		{"unknown key", "source:\n", "sourse:\n", "spec.missing_key at line 1: source\nspec.unknown_key at line 3: sourse"},
		{"unknown key below", "  dsn: ${SOURCE}", "  dsn: ${SOURCE}\n  dns: x", "spec.unknown_key at line 5: source.dns"},
		{"duplicate key", "migration: blocks", "migration: blocks\nmigration: b", "spec.duplicate_key at line 3: migration"},
		{"duplicate key in flow", `db0: {dsn: "${DB0}"}`, `db0: {dsn: "${DB0}", dsn: x}`, "spec.duplicate_key at line 6: databases.db0.dsn"},
		{"duplicate database", `  db1: {dsn: "${DB1}"}`, "  db1: {dsn: \"${DB1}\"}\n  db1: {dsn: \"${DB2}\"}", "spec.duplicate_key at line 8: databases.db1"},
		{"no value", "source:\n  dsn: ${SOURCE}", "source:", "spec.no_value at line 3: source"},
		{"empty text", "dsn: ${SOURCE}", `dsn: ""`, "spec.no_value at line 4: source.dsn"},
		{"wrong type", "source:\n  dsn: ${SOURCE}", "source: ${SOURCE}", "spec.wrong_type at line 3: source"},
		{"number for a text", "migration: blocks", "migration: 2026", "spec.wrong_type at line 2: migration"},
		{"list for a mapping", "source:\n  dsn: ${SOURCE}", "source: [a]", "spec.wrong_type at line 3: source"},
		{"anchor", "migration: blocks", "migration: &m blocks", "spec.unsupported_yaml at line 2: migration"},
		{"tag", "migration: blocks", "migration: !!str blocks", "spec.unsupported_yaml at line 2: migration"},
		{"merge key", "migration: blocks", "migration: blocks\n<<: {a: b}", "spec.unsupported_yaml at line 3"},
		{"version", "version: 1", "version: 2", "spec.out_of_range at line 1: version"},
		{"migration", "migration: blocks", "migration: Blocks", "spec.bad_migration at line 2: migration"},
		{"long migration", "migration: blocks", "migration: " + strings.Repeat("a", 33), "spec.bad_migration at line 2: migration"},
		{"unset variable", "${SOURCE}", "${UNSET}", "spec.unset_variable at line 4: source.dsn"},
		{"two unset variables", "${SOURCE}", "${UNSET_A}${UNSET_B}", "spec.unset_variable at line 4: source.dsn\nspec.unset_variable at line 4: source.dsn"},
		{"a default in a variable", "${SOURCE}", "${SOURCE:-x}", "spec.bad_variable at line 4: source.dsn"},
		{"blank in a variable", "${SOURCE}", "${ SOURCE }", "spec.bad_variable at line 4: source.dsn"},
		{"variable in a key", "migration: blocks", "migration: blocks\n${SOURCE}: x", "spec.bad_variable at line 3"},
		{"no DSN", "${SOURCE}", "localhost", "spec.bad_dsn at line 4: source.dsn"},
		{"DSN of another system", "${SOURCE}", "mysql://a/b", "spec.bad_dsn at line 4: source.dsn"},
		{"same DSN as the source", `"${DB1}"`, "${SOURCE}", "spec.same_dsn at line 7: databases.db1.dsn"},
		{"same DSN twice", `"${DB1}"`, "${DB0}", "spec.same_dsn at line 7: databases.db1.dsn"},
		{"database as replica", "dsn: ${SOURCE}", "dsn: ${SOURCE}\n  read_dsn: ${DB0}", "spec.same_dsn at line 7: databases.db0.dsn"},
		{"database named source", "db0: 0-1", "db0: 0, source: 1", "spec.unknown_database at line 11: shards.placement.source"},
		{"port", `{dsn: "${DB0}"}`, `{dsn: "${DB0}", router: {port: 65536}}`, "spec.out_of_range at line 6: databases.db0.router.port"},
		{"host", `{dsn: "${DB0}"}`, `{dsn: "${DB0}", reader: {host: "a b"}}`, "spec.bad_address at line 6: databases.db0.reader.host"},

		{"count zero", "count: 4", "count: 0", "spec.out_of_range at line 9: shards.count"},
		{"count as text", "count: 4", `count: "4"`, "spec.wrong_type at line 9: shards.count"},
		{"count in hex", "count: 4", "count: 0x4", "spec.out_of_range at line 9: shards.count"},
		{"schema verb", `"shard_%03d"`, `"shard_%s"`, "spec.bad_schema at line 10: shards.schema"},
		{"schema padded with blanks", `"shard_%03d"`, `"shard_%3d"`, "spec.bad_schema at line 10: shards.schema"},
		{"schema with two verbs", `"shard_%03d"`, `"s%d_%d"`, "spec.bad_schema at line 10: shards.schema"},
		{"schema with a percent sign", `"shard_%03d"`, `"s%d%"`, "spec.bad_schema at line 10: shards.schema"},
		{"long schema", `"shard_%03d"`, strings.Repeat("s", 61) + "%03d", "spec.bad_schema at line 10: shards.schema"},
		{"schema of ours", `"shard_%03d"`, "shardctl", "spec.bad_schema at line 10: shards.schema"},
		{"schema of PostgreSQL", `"shard_%03d"`, "pg_%d", "spec.bad_schema at line 10: shards.schema"},
		{"hash", "count: 4", "count: 4\n  hash: md5", "spec.bad_value at line 10: shards.hash"},
		{"placed twice", "db0: 0-1", "db0: 0-2", "spec.placed_twice at line 11: shards.placement.db1"},
		{"placed twice on one", "db0: 0-1", "db0: '0-1,1'", "spec.bad_range at line 11: shards.placement.db0"},
		{"placed nowhere", "db0: 0-1", "db0: 0", "spec.placed_nowhere at line 11: shards.placement"},
		{"beyond the count", `"2,3"`, "2-4", "spec.bad_range at line 11: shards.placement.db1"},
		{"backward range", `"2,3"`, "3-2", "spec.bad_range at line 11: shards.placement.db1"},
		{"no range", `"2,3"`, "some", "spec.bad_range at line 11: shards.placement.db1"},
		{"huge range", `"2,3"`, "2-99999999999999999999", "spec.bad_range at line 11: shards.placement.db1"},
		{"negative shard", `"2,3"`, "-1", "spec.bad_range at line 11: shards.placement.db1"},
		{"empty list of shards", `"2,3"`, "[]", "spec.bad_range at line 11: shards.placement.db1"},
		{"unknown database", `db1: "2,3"`, `dbl: "2,3"`, "spec.unknown_database at line 11: shards.placement.dbl"},
		{"database without shards", `{db0: 0-1, db1: "2,3"}`, `{db0: 0-3}`, "spec.unused_database at line 11: shards.placement"},

		{"key missing", "    key: workspace_id\n", "", "spec.missing_key at line 13: tables[0].key"},
		{"key misspelt", "    key: workspace_id", "    kye: workspace_id", "spec.missing_key at line 13: tables[0].key\nspec.unknown_key at line 14: tables[0].kye"},
		{"key everywhere", "    everywhere: true", "    everywhere: true\n    key: id", "spec.everywhere_key at line 19: tables[2].key"},
		{"not everywhere and no key", "everywhere: true", "everywhere: false", "spec.missing_key at line 17: tables[2].key"},
		{"everywhere as text", "everywhere: true", "everywhere: yes", "spec.wrong_type at line 18: tables[2].everywhere"},
		{"via missing", "{from: public.block, via: block_id}", "{from: public.block}", "spec.missing_key at line 16: tables[1].key.via"},
		{"parent not listed", "{from: public.block,", "{from: public.blok,", "spec.unknown_parent at line 16: tables[1].key.from"},
		{"parent everywhere", "{from: public.block,", "{from: public.plan,", "spec.everywhere_parent at line 16: tables[1].key.from"},
		{"own parent", "{from: public.block,", "{from: public.comment,", "spec.key_cycle at line 16: tables[1].key.from"},
		{"listed twice", "name: public.plan", "name: public.block", "spec.duplicate_table at line 17: tables[2].name"},
		{"one name on the databases", "name: public.plan", "name: app.block", "spec.same_target at line 17: tables[2].name"},
		{"one name through as", "name: public.plan", "name: public.plan\n    as: comment", "spec.same_target at line 18: tables[2].as"},
		{"name of three parts", "name: public.plan", "name: a.b.c", "spec.bad_name at line 17: tables[2].name"},
		{"state as a table", "name: public.plan", "name: shardctl.journal", "spec.bad_table at line 17: tables[2].name"},
		{"long name", "name: public.plan", "name: " + strings.Repeat("x", 64), "spec.bad_name at line 17: tables[2].name"},
		{"rollback", "    everywhere: true", "    everywhere: true\n    rollback: no", "spec.bad_value at line 19: tables[2].rollback"},
		{"stray word", "via: block_id}", "via: block_id}\n    orphans: drop", "spec.bad_value at line 17: tables[1].orphans"},
		{"stray shard", "via: block_id}", "via: block_id}\n    null_keys: {shard: 4}", "spec.out_of_range at line 17: tables[1].null_keys.shard"},
		{"stray without a shard", "via: block_id}", "via: block_id}\n    orphans: {}", "spec.missing_key at line 17: tables[1].orphans.shard"},
		{"orphans of a table with a key", "key: workspace_id", "key: workspace_id\n    orphans: skip", "spec.no_effect at line 15: tables[0].orphans"},
		{"null keys without a key", "    everywhere: true", "    everywhere: true\n    null_keys: skip", "spec.no_effect at line 19: tables[2].null_keys"},

		{"driver", "driver: file", "driver: fil", "spec.unknown_driver at line 25: topology[1].driver"},
		{"path of a hook", "driver: file", "driver: exec", "spec.missing_key at line 25: topology[1].command\nspec.unknown_key at line 26: topology[1].path"},
		{"hook without a command", "driver: file\n    path: topology.json", "driver: exec\n    command: []", "spec.no_value at line 26: topology[1].command"},
		{"hook in one text", "driver: file\n    path: topology.json", "driver: exec\n    command: /etc/hook --now", "spec.wrong_type at line 26: topology[1].command"},
		{"hook's timeout", "driver: file\n    path: topology.json", "driver: exec\n    command: /etc/hook\n    timeout: 10m", "spec.out_of_range at line 27: topology[1].timeout"},
		{"hook twice", "driver: file\n    path: topology.json", "driver: exec\n    command: /etc/hook\n  - driver: exec\n    command: [/etc/hook]", "spec.same_command at line 28: topology[2].command"},
		{"table router without a DSN", "driver: file\n    path: topology.json", "driver: postgres", "spec.missing_key at line 25: topology[1].dsn"},
		{"table router with a bad DSN", "driver: file\n    path: topology.json", "driver: postgres\n    dsn: mysql://h/d", "spec.bad_dsn at line 26: topology[1].dsn"},
		{"table among the state", "driver: file\n    path: topology.json", "driver: postgres\n    dsn: '${DB0}'\n    table: shardctl.topology", "spec.bad_table at line 27: topology[1].table"},
		{"table of three parts", "driver: file\n    path: topology.json", "driver: postgres\n    dsn: '${DB0}'\n    table: a.b.c", "spec.bad_name at line 27: topology[1].table"},
		{"long channel", "driver: file\n    path: topology.json", "driver: postgres\n    dsn: '${DB0}'\n    channel: " + strings.Repeat("x", 64), "spec.bad_name at line 27: topology[1].channel"},
		{"table twice", "driver: file\n    path: topology.json", "driver: postgres\n    dsn: '${DB0}'\n  - driver: postgres\n    dsn: '${DB0}'", "spec.same_table at line 28: topology[2].dsn"},
		{"key of another driver", "path: topology.json", "path: topology.json\n    entries: []", "spec.unknown_key at line 27: topology[1].entries"},
		{"one entry for several databases", `"app_%03d"`, "app", "spec.bad_entry at line 24: topology[0].entries[0].database"},
		{"entry of the console", `"app_%03d"`, "pgbouncer", "spec.bad_entry at line 24: topology[0].entries[0].database"},
		{"entry with blanks", `"app_%03d"`, `"app %d"`, "spec.bad_entry at line 24: topology[0].entries[0].database"},
		{"entries that collide", `      - {database: "app_%03d"}`, "      - {database: 'app_%03d'}\n      - {database: 'app_%03d', to: reader}", "spec.entry_collision at line 25: topology[0].entries[1].database"},
		{"entries that collide later", `      - {database: "app_%03d"}`, "      - {database: 'app_%d'}\n      - {database: 'app_%01d'}", "spec.entry_collision at line 25: topology[0].entries[1].database"},
		{"entry to nowhere", `{database: "app_%03d"}`, `{database: "app_%03d", to: replica}`, "spec.bad_value at line 24: topology[0].entries[0].to"},
		{"no instance", `      - {admin_dsn: "${ADMIN}", databases_file: /etc/pgbouncer/databases.ini}`, "      []", "spec.no_instances at line 21: topology[0].instances"},
		{"databases_file missing", ", databases_file: /etc/pgbouncer/databases.ini", "", "spec.missing_key at line 22: topology[0].instances[0].databases_file"},
		{"shell command", "databases_file: /etc", "file_via: {exec: ssh pgb1}, databases_file: /etc", "spec.wrong_type at line 22: topology[0].instances[0].file_via.exec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, failures := decode(t, bend(t, c.old, c.new))
			var got []string
			for _, f := range failures {
				got = append(got, f.Code+" at "+f.Object)
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got\n%v\nwant\n%s", failures, c.want)
				for _, f := range failures {
					t.Log(f.Code)
				}
			}
		})
	}
}

func TestWhatSettingsRefuse(t *testing.T) {
	for setting, code := range map[string]string{
		"capture: {engine: wal}":                                "spec.not_supported",
		"capture: {engine: triger}":                             "spec.bad_value",
		"capture: {log_soft_limit: 10 GiB}":                     "spec.bad_size",
		"capture: {log_soft_limit: -1}":                         "spec.bad_size",
		"capture: {log_soft_limit: 9999999999999TB}":            "spec.bad_size",
		"capture: {log_soft_limit: 0}":                          "spec.out_of_range",
		"capture: {log_soft_limit: 60GB}":                       "spec.bad_limits",
		"capture: {log_soft_limit: 2GB, log_hard_limit: 1GB}":   "spec.bad_limits",
		"throttle: {max_replica_lag: 1}":                        "spec.bad_duration",
		"throttle: {max_replica_lag: soon}":                     "spec.bad_duration",
		"throttle: {max_replica_lag: -1s}":                      "spec.out_of_range",
		"throttle: {max_catchup_lag: 1d}":                       "spec.bad_duration",
		"throttle: {max_catchup_lag: 9999999h}":                 "spec.bad_duration",
		"throttle: {max_source_active: -1}":                     "spec.out_of_range",
		"throttle: {max_rate: 1.5}":                             "spec.wrong_type",
		"throttle: {max_rate: 99999999999999999999}":            "spec.wrong_type",
		"throttle: {schedule: night}":                           "spec.bad_schedule",
		"throttle: {schedule: 22:00-22:00}":                     "spec.bad_schedule",
		"throttle: {schedule: 24:00-06:00}":                     "spec.bad_schedule",
		"throttle: {max_lag: 1s}":                               "spec.unknown_key",
		"sequences: strides":                                    "spec.bad_value",
		"cutover: {max_pause: 0}":                               "spec.out_of_range",
		"cutover: {max_pause: 2h}":                              "spec.out_of_range",
		"cutover: {verify_max_age: 0s}":                         "spec.out_of_range",
		"cutover: [2s]":                                         "spec.wrong_type",
		"complete: {everywhere_owner: databases}":               "spec.bad_value",
		"complete: everywhere":                                  "spec.wrong_type",
		"capture: {log_hard_limit: ${BIG}}":                     "spec.bad_size",
		"throttle: {schedule: '${NIGHT}', max_rate: '${RATE}'}": "spec.out_of_range spec.bad_schedule",
	} {
		_, failures := decode(t, base+setting+"\n")
		var codes []string
		for _, f := range failures {
			codes = append(codes, f.Code)
			if !strings.HasPrefix(f.Object, "line 27: ") {
				t.Errorf("%s: reported at %s", setting, f.Object)
			}
		}
		if strings.Join(codes, " ") != code {
			t.Errorf("%s: got %v, want %s", setting, failures, code)
		}
	}
}

func TestHints(t *testing.T) {
	for old, want := range map[string][2]string{
		"source:\n":            {"sourse:\n", "did you mean source?"},
		"migration: ":          {"mirgation: ", "did you mean migration?"},
		`db1: "2,3"`:           {`bd1: "2,3"`, "did you mean db1?"},
		"driver: file":         {"driver: flie", "did you mean file?"},
		"{from: public.block,": {"{from: block2.block,", "did you mean public.block?"},
		"    path: ":           {"    zzz: 1\n    path: ", "known here: driver, path"},
	} {
		_, failures := decode(t, bend(t, old, want[0]))
		if !strings.Contains(failures.Error(), want[1]) {
			t.Errorf("%s: %v lacks %q", old, failures, want[1])
		}
	}
}

func TestAllAtOnceInTheOrderOfLines(t *testing.T) {
	text := strings.NewReplacer("version: 1", "version: 9", "${SOURCE}", "${UNSET}", "count: 4", "count: x", "driver: file", "driver: nil",
		"name: public.plan", "name: ''", "block_id}", "block_id, more: 1}").Replace(base)
	_, failures := decode(t, text)
	var lines []string
	for _, f := range failures {
		lines = append(lines, strings.TrimPrefix(strings.SplitN(f.Object, ":", 2)[0], "line "))
	}
	equal(t, lines, []string{"1", "4", "9", "16", "17", "25"})
	if ExitCode(failures) != ExitUsage {
		t.Errorf("the exit code is %d", ExitCode(failures))
	}
}
