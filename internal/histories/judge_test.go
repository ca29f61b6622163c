package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/verify"
)

// judge compares every place of every database with what the source places there,
// and asks for verification's opinion and for what is in quarantine.
func (w *world) judge(ctx context.Context) {
	var wrong []string
	for _, t := range w.layout.Tables {
		wrong = append(wrong, w.compare(ctx, t)...)
	}
	for i, conn := range w.conns {
		for _, row := range lines(ctx, conn, "SELECT database || ' ' || direction || ' ' || table_no || ' ' || key || ': ' || last_error FROM shardctl.quarantine") {
			wrong = append(wrong, w.targets[i].Name+" has in quarantine "+row)
		}
	}
	if len(wrong) > 0 {
		check(errors.New(strings.Join(wrong, "\n")))
	}
	r, err := w.verifier.Full(ctx)
	if err == nil && r.State == verify.Stale { // a TRUNCATE or a turned log broke the chain of rounds
		r, err = w.verifier.Full(ctx)
	}
	check(err)
	if r.State != verify.Clean || len(r.Differences) > 0 || r.Unsettled > 0 {
		check(fmt.Errorf("verification says %s of databases that are right: %+v", r.State, *r))
	}
}

// compare says what is wrong with a table.
func (w *world) compare(ctx context.Context, t *layout.Table) (wrong []string) {
	want, got := w.wanted(ctx, t), w.found(ctx, t)
	for _, row := range want {
		if at, ok := slices.BinarySearch(got, row); ok {
			got = slices.Delete(got, at, at+1)
		} else {
			wrong = append(wrong, t.Name()+" lacks "+row)
		}
	}
	for _, row := range got {
		wrong = append(wrong, t.Name()+" has "+row)
	}
	return wrong
}

// wanted are the rows of the source, each behind the places that the server computes.
func (w *world) wanted(ctx context.Context, t *layout.Table) []string {
	joins, key := t.KeyFrom("x")
	row, shard := "ROW("+postgres.Idents("x", layout.Names(t.Copied()))+")::text", "0"
	if t.StoreAs != "" {
		row += " || ' ' || coalesce(" + key + "::text, '')"
	}
	if !t.Everywhere() {
		shard = w.layout.ShardSQL(t, key)
	}
	places := map[string][]string{}
	for _, d := range w.spec.Databases {
		for _, loc := range w.layout.Locations(t, d.Name) {
			if t.Everywhere() {
				places["0"] = append(places["0"], loc.String())
			}
		}
	}
	for n := range w.spec.Shards.Placement {
		if !t.Everywhere() {
			places[fmt.Sprint(n)] = []string{w.layout.LocationOf(t, n).String()}
		}
	}
	var out []string
	for _, line := range lines(ctx, w.conns[0], fmt.Sprintf("SELECT coalesce(%s, -1) || '|' || %s FROM %s x%s", shard, short(row), t.QualifiedSource(), joins)) {
		n, text, _ := strings.Cut(line, "|")
		for _, p := range places[n] {
			out = append(out, p+" "+text)
		}
	}
	slices.Sort(out)
	return out
}

// found are the rows of all places.
func (w *world) found(ctx context.Context, t *layout.Table) []string {
	var out []string
	row := "ROW(" + postgres.Idents("x", layout.Names(t.Copied())) + ")::text"
	if t.StoreAs != "" {
		row += " || ' ' || coalesce(x." + postgres.Ident(t.StoreAs) + "::text, '')"
	}
	for i, d := range w.spec.Databases {
		var parts []string
		for _, loc := range w.layout.Locations(t, d.Name) {
			parts = append(parts, fmt.Sprintf("SELECT '%s ' || %s FROM %s x", loc, short(row), w.layout.QualifiedTarget(t, loc)))
		}
		out = append(out, lines(ctx, w.conns[i+1], strings.Join(parts, " UNION ALL "))...)
	}
	slices.Sort(out)
	return out
}

// short takes the padding out of a row's text.
func short(row string) string { return "replace(" + row + ", repeat('.', 300), '~')" }

func lines(ctx context.Context, conn *pgx.Conn, sql string) []string {
	rows, err := conn.Query(ctx, sql)
	check(err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(err)
	return out
}
