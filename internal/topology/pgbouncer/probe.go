package pgbouncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// probeWait bounds a query through an entry; the pooler itself would wait for a dead
// server much longer.
const probeWait = 5 * time.Second

// probeName begins the names of the entries that a probe adds.
func (r *Router) probeName() string { return "shardctl_probe_" + r.migration + "_" }

// Probe adds an entry for each address that the document leads the scope to, made like one that
// clients use, asks every one through the pooler which database it is in, and takes
// them out again. That also proves that the file can be written.
func (r *Router) Probe(ctx context.Context, doc topology.Topology, scope topology.Scope) ([]migrate.Finding, error) {
	if err := doc.Check(); err != nil {
		return nil, err
	}
	var all []migrate.Finding
	var errs []error
	for _, i := range r.instances { // one after the other: they may share a file
		findings, err := r.probe(ctx, i, doc, r.within(scope))
		all, errs = append(all, findings...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (r *Router) probe(ctx context.Context, i *instance, doc topology.Topology, entries []entry) (findings []migrate.Finding, err error) {
	aliases, err := r.aliases(ctx, i, doc, entries)
	if err != nil {
		return nil, err
	}
	replaced := false
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		cleanErr := i.change(clean, func(old []byte) ([]byte, error) { return r.withoutProbes(old), nil })
		if replaced { // otherwise it says once more what was said
			err = errors.Join(err, cleanErr)
		}
	}()
	if err := i.file.Replace(ctx, func(old []byte) ([]byte, error) { return r.withProbes(i.file.String(), old, aliases) }); err != nil {
		return nil, i.notWritable(err)
	}
	replaced = true
	if err := i.reload(ctx); err != nil {
		return nil, err
	}
	results := make([]error, len(aliases))
	var wg sync.WaitGroup
	for n, a := range aliases {
		wg.Go(func() { results[n] = i.through(ctx, a) })
	}
	wg.Wait()
	var errs []error
	for n, a := range aliases {
		switch err := results[n]; {
		case err == nil:
		case a.guessed && loginRefused(err):
			findings = append(findings, migrate.Finding{ID: "router.probe_login", Severity: migrate.SeverityWarning, Object: "pgbouncer " + i.name,
				Message: fmt.Sprintf("%s answers, but refuses the pooler's admin user %s, so that a client's login is not proven: %v", a.to, i.admin.User, err)})
		default:
			errs = append(errs, migrate.Refuse("router.probe", "pgbouncer "+i.name, fmt.Sprintf("no query through it reaches %s: %v", a.to, err),
				"let the pooler's host reach that server and log in, or correct router: in the spec"))
		}
	}
	return findings, errors.Join(errs...)
}

// notWritable refuses a file that could not be replaced at the switch either.
func (i *instance) notWritable(err error) error {
	var unfit *migrate.Failure
	if errors.As(err, &unfit) {
		return err
	}
	return &migrate.Failure{Code: "router.file", Object: i.file.String(), Message: "it cannot be replaced", Exit: migrate.ExitRefused,
		Hint: "let this user write the file and its folder, then run the command again", Err: err}
}

// alias is an entry that a probe adds.
type alias struct {
	name    string
	to      topology.Address
	like    string // the entry that it is made like
	user    string // to log in as, if that entry does not say
	guessed bool   // no client of that user was seen
}

// aliases gives one for each address that the document leads entries to.
func (r *Router) aliases(ctx context.Context, i *instance, doc topology.Topology, entries []entry) ([]alias, error) {
	pools, _, err := i.ask(ctx, "SHOW POOLS")
	if err != nil {
		return nil, err
	}
	user, guessed := i.admin.User, true
	for _, row := range pools.rows {
		if name := pools.column(row, "database"); name != "pgbouncer" && r.ours(name) {
			user, guessed = pools.column(row, "user"), false
		}
	}
	var aliases []alias
	known := map[topology.Address]bool{}
	for _, e := range entries {
		to, err := e.address(doc)
		if err != nil {
			return nil, err
		}
		if !known[to] {
			known[to] = true
			aliases = append(aliases, alias{name: fmt.Sprint(r.probeName(), len(aliases)), to: to, like: e.name, user: user, guessed: guessed})
		}
	}
	return aliases, nil
}

// withProbes adds the aliases behind the lines of the entries that they are made like.
func (r *Router) withProbes(place string, old []byte, aliases []alias) ([]byte, error) {
	f, err := parseINI(r.withoutProbes(old))
	if err != nil {
		return nil, unfit(place, err)
	}
	var edits []edit
	for n := range aliases {
		a := &aliases[n]
		e, err := f.find(a.like)
		if err != nil {
			return nil, unfit(place, err)
		}
		line, err := a.line(e)
		if err != nil {
			return nil, unfit(place, err)
		}
		// It begins with a line break instead of ending with one: taken out again, the
		// file is what it was, also if its last line has no end.
		at := lineEnd(f.content, e.end)
		if at > 0 && f.content[at-1] == '\r' {
			at--
		}
		edits = append(edits, edit{at, at, f.eol() + line})
	}
	return f.apply(edits), nil
}

// line writes the alias: the other entry's parameters, to another address, with a pool
// of one connection.
func (a *alias) line(like *iniEntry) (string, error) {
	settings := []setting{{"host", a.to.Host}, {"port", fmt.Sprint(a.to.Port)}, {"dbname", a.to.DBName}, {"pool_size", "1"}}
	for _, p := range like.params {
		switch p.key {
		case "host", "port", "dbname", "pool_size", "min_pool_size", "reserve_pool", "max_db_connections":
		default:
			settings = append(settings, setting{p.key, p.value})
		}
	}
	if like.value("user") != "" {
		a.guessed = false
	} else if !a.guessed {
		settings = append(settings, setting{"user", a.user})
	}
	line := a.name + " ="
	for _, s := range settings {
		text, err := quote(s.value)
		if err != nil {
			return "", err
		}
		line += " " + s.key + "=" + text
	}
	return line, nil
}

// withoutProbes takes the lines of probes out, also those that a killed one left.
func (r *Router) withoutProbes(content []byte) []byte {
	mark := []byte("\n" + r.probeName())
	var out []byte
	for {
		n := bytes.Index(content, mark)
		if n < 0 {
			if out == nil {
				return content
			}
			return append(out, content...)
		}
		end := lineEnd(content, n+1)
		if end > 0 && content[end-1] == '\r' && end < len(content) {
			end-- // the next line's break stays whole
		}
		out = append(out, bytes.TrimSuffix(content[:n], []byte{'\r'})...)
		content = content[end:]
	}
}

// through asks by way of an alias which database it leads to.
func (i *instance) through(ctx context.Context, a alias) error {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	cfg := i.admin.Copy()
	cfg.Database = a.name
	cfg.RuntimeParams = map[string]string{"application_name": "shardctl probe"}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return i.plain(err)
	}
	defer func() { _ = conn.Close(ctx) }() // the entry goes away with its clients
	results, err := conn.Exec(ctx, "SELECT current_database()").ReadAll()
	if err != nil {
		return i.plain(err)
	}
	if got := string(results[0].Rows[0][0]); got != a.to.DBName {
		return fmt.Errorf("it leads to database %s", got)
	}
	return nil
}

// loginRefused reports whether the server answered and refused the login.
func loginRefused(err error) bool {
	text := err.Error()
	for _, sign := range []string{"server login failed", "password authentication failed", "no pg_hba.conf entry", "wrong password type"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return strings.Contains(text, `role "`) && strings.Contains(text, "does not exist")
}
