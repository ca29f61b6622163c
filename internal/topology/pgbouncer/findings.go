package pgbouncer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

// judge lists what makes an instance unfit or doubtful.
func (r *Router) judge(l *look) []migrate.Finding {
	j := &judgement{place: "pgbouncer " + l.in.name}
	if l.err != nil {
		j.add(migrate.SeverityError, "router.unreachable", j.place, l.err.Error(), "")
	}
	r.judgeFile(j, l)
	if l.err == nil {
		r.judgeEntries(j, l)
		r.judgeTimes(j, l)
		r.judgeFiles(j, l, l.openFiles())
		if l.config["so_reuseport"] == "1" {
			j.add(migrate.SeverityWarning, "router.reuseport", j.place,
				"so_reuseport is on: if several poolers share the port, only the one that answers is driven", "give each pooler a port of its own for the console")
		}
	}
	return j.findings
}

// judgement collects findings about one instance.
type judgement struct {
	place    string
	findings []migrate.Finding
}

func (j *judgement) add(severity migrate.Severity, id, object, message, fix string) {
	f := migrate.Finding{ID: id, Severity: severity, Object: object, Message: message}
	if fix != "" {
		f.Fix = &fix
	}
	j.findings = append(j.findings, f)
}

// addNamed adds one finding for all names that have it, if there are any.
func (j *judgement) addNamed(severity migrate.Severity, id string, names []string, message, fix string) {
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	const shown = 5
	list := strings.Join(names[:min(len(names), shown)], ", ")
	if len(names) > shown {
		list += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	j.add(severity, id, j.place+": "+list, message, fix)
}

// judgeFile looks whether the file can be read and has each entry once.
func (r *Router) judgeFile(j *judgement, l *look) {
	place := l.in.file.String()
	if l.fileErr != nil {
		j.add(migrate.SeverityError, "router.file", place, "it cannot be read: "+l.fileErr.Error(), "")
		return
	}
	f, err := parseINI(l.content)
	if err != nil {
		j.add(migrate.SeverityError, "router.file", place, err.Error(), "")
		return
	}
	var missing []string
	for _, e := range r.entries {
		switch _, err := f.find(e.name); {
		case err == nil:
		case len(f.named[e.name]) > 0:
			j.add(migrate.SeverityError, "router.entry", place, err.Error(), "")
		default:
			missing = append(missing, e.name)
		}
	}
	if len(missing) > 0 {
		j.addNamed(migrate.SeverityError, "router.entry_missing", missing,
			place+" has no such entry in section [databases]", strings.Join(missing, " = host=… port=… dbname=…\n")+" = host=… port=… dbname=…")
	}
}

// judgeEntries compares what the pooler shows with the file and with what a switch needs.
func (r *Router) judgeEntries(j *judgement, l *look) {
	file, _ := parseINI(l.content) // a broken one is a finding already
	var session, notLoaded, disabled, paused, long []string
	for _, e := range r.entries {
		d, shown := l.databases[e.name]
		if file != nil && !asInFile(file, e.name, d, shown) {
			notLoaded = append(notLoaded, e.name)
		}
		if len(word(e.name)) >= consoleWord {
			long = append(long, e.name)
		}
		if !shown {
			continue
		}
		if d.mode(l) == "session" {
			session = append(session, e.name)
		}
		if d.disabled {
			disabled = append(disabled, e.name)
		}
		if d.paused {
			paused = append(paused, e.name)
		}
	}
	j.addNamed(migrate.SeverityError, "router.not_loaded", notLoaded, "the pooler shows another address than "+l.in.file.String()+" has", "RELOAD; or name the file that the pooler includes")
	j.addNamed(migrate.SeverityError, "router.session_mode", session, "in session mode PAUSE waits until every client has gone", "pool_mode = transaction")
	j.addNamed(migrate.SeverityError, "router.disabled", disabled, "the entry is disabled", "ENABLE it")
	j.addNamed(migrate.SeverityWarning, "router.paused", paused, "the entry is paused already", "RESUME it, if no switch is under way")
	j.addNamed(migrate.SeverityError, "router.entry_name", long, "the console takes no name as long as this", "give the entry a shorter name")
	j.addNamed(migrate.SeverityWarning, "router.user_session_mode", l.sessions, "these users' pools are in session mode: PAUSE waits until they have gone", "take pool_mode=session off them")
}

// consoleWord is the size of the console's buffer for a name, with its end.
const consoleWord = 64

// asInFile reports whether the pooler shows an entry as the file has it. An entry that
// the file lacks is judged there.
func asInFile(f *ini, name string, d database, shown bool) bool {
	e, err := f.find(name)
	if err != nil {
		return true
	}
	port, dbname := e.value("port"), e.value("dbname")
	if port == "" {
		port = "5432"
	}
	if dbname == "" {
		dbname = name
	}
	return shown && d.Host == e.value("host") && fmt.Sprint(d.Port) == port && d.DBName == dbname
}

// judgeTimes looks for what ends a client that is held.
func (r *Router) judgeTimes(j *judgement, l *look) {
	for _, key := range []string{"query_wait_timeout", "client_login_timeout"} {
		if t := l.seconds(key); t > 0 && t <= r.budget {
			j.add(migrate.SeverityError, "router."+key, j.place,
				fmt.Sprintf("%s is %s: clients would be ended before the pause may be over (%s)", key, t, r.budget), fmt.Sprintf("%s = %d", key, int(2*r.budget.Seconds())+1))
		}
	}
}

// judgeFiles compares the limit of open files with what the pooler needs when all
// clients come back at once. Beyond it a release looks like a pause of seconds.
func (r *Router) judgeFiles(j *judgement, l *look, limit int) {
	const own = 50 // listeners, logs, consoles
	users := max(len(l.users), 1)
	need, most := own+l.clients+users*len(r.entries), own+l.number("max_client_conn")
	for name, d := range l.databases {
		if name != "pgbouncer" {
			most += d.poolSize * users
		}
	}
	switch {
	case limit == 0 && need > 900:
		j.add(migrate.SeverityWarning, "router.open_files", j.place,
			fmt.Sprintf("it needs %d open files and more when busy; its limit cannot be read from here", need), fmt.Sprintf("ulimit -n %d", most))
	case limit == 0:
	case limit < need:
		j.add(migrate.SeverityError, "router.open_files", j.place,
			fmt.Sprintf("it may open %d files and needs %d for the clients it has now", limit, need), fmt.Sprintf("ulimit -n %d", most))
	case limit < most:
		j.add(migrate.SeverityWarning, "router.open_files", j.place,
			fmt.Sprintf("it may open %d files; with all clients and pools full it needs %d", limit, most), fmt.Sprintf("ulimit -n %d", most))
	}
}
