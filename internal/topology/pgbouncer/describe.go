package pgbouncer

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// Describe asks every instance for its entries and settings, and judges them.
func (r *Router) Describe(ctx context.Context) (topology.Description, error) {
	d := topology.Description{Instances: make([]topology.Instance, len(r.instances)), Findings: []migrate.Finding{}}
	seen := make([]*look, len(r.instances))
	var wg sync.WaitGroup
	for n, i := range r.instances {
		wg.Go(func() { seen[n] = i.look(ctx) })
	}
	wg.Wait()
	for n, l := range seen {
		d.Instances[n] = r.instanceOf(l)
		d.Findings = append(d.Findings, r.judge(l)...)
	}
	return d, ctx.Err()
}

// look is what one instance shows.
type look struct {
	in        *instance
	err       error // it cannot be asked; nothing below is known then
	version   string
	config    map[string]string
	databases map[string]database
	sessions  []string // users whose pools are in session mode by their own setting
	users     []string // who have a pool of an entry
	clients   int
	content   []byte
	fileErr   error
}

func (i *instance) look(ctx context.Context) *look {
	l := &look{in: i, config: map[string]string{}}
	l.content, l.fileErr = i.file.Read(ctx)
	for _, part := range []struct {
		show string
		take func(answer)
	}{
		{"SHOW VERSION", func(a answer) { l.version = a.first("version") }},
		{"SHOW CONFIG", func(a answer) { l.config = a.pairs("key", "value") }},
		{"SHOW DATABASES", func(a answer) { l.databases = databasesOf(a) }},
		{"SHOW LISTS", func(a answer) { l.clients, _ = strconv.Atoi(a.pairs("list", "items")["used_clients"]) }},
		{"SHOW USERS", func(a answer) { l.sessions = keysOf(a.pairs("name", "pool_mode"), "session") }},
		{"SHOW POOLS", func(a answer) { l.users = poolUsers(a) }},
	} {
		a, _, err := i.ask(ctx, part.show)
		if err != nil {
			l.err = err
			return l
		}
		part.take(a)
	}
	return l
}

// first is the first row's value of a column.
func (a answer) first(column string) string {
	if len(a.rows) == 0 {
		return ""
	}
	return a.column(a.rows[0], column)
}

// pairs reads two columns as keys and values.
func (a answer) pairs(key, value string) map[string]string {
	m := make(map[string]string, len(a.rows))
	for _, row := range a.rows {
		m[a.column(row, key)] = a.column(row, value)
	}
	return m
}

func keysOf(m map[string]string, value string) []string {
	var keys []string
	for k, v := range m {
		if v == value {
			keys = append(keys, k)
		}
	}
	return keys
}

// poolUsers lists the users that have a pool, but for the console's.
func poolUsers(a answer) []string {
	seen := map[string]bool{"": true}
	var users []string
	for _, row := range a.rows {
		user := a.column(row, "user")
		if a.column(row, "database") == "pgbouncer" || seen[user] {
			continue
		}
		seen[user] = true
		users = append(users, user)
	}
	return users
}

// seconds reads a setting of SHOW CONFIG that is a time; 0 switches it off.
func (l *look) seconds(key string) time.Duration {
	s, _ := strconv.ParseFloat(l.config[key], 64)
	return time.Duration(s * float64(time.Second))
}

func (l *look) number(key string) int {
	n, _ := strconv.Atoi(l.config[key])
	return n
}

// instanceOf is what a caller sees of a look.
func (r *Router) instanceOf(l *look) topology.Instance {
	out := topology.Instance{
		Name: l.in.name, Version: l.version, PoolMode: l.config["pool_mode"],
		QueryWait: l.seconds("query_wait_timeout"), Files: l.openFiles(),
	}
	if f, err := parseINI(l.content); err == nil {
		out.Epoch = f.epoch(r.migration)
	}
	for _, e := range r.entries {
		if d, ok := l.databases[e.name]; ok {
			out.Entries = append(out.Entries, topology.Entry{
				Name: e.name, Shard: e.shard, To: e.to, Address: d.Address, PoolMode: d.mode(l), Paused: d.paused,
			})
		}
	}
	return out
}

// mode is the pool mode of an entry, its own or the pooler's.
func (d database) mode(l *look) string {
	if d.poolMode != "" {
		return d.poolMode
	}
	return l.config["pool_mode"]
}
