package journey

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/catalog.sql
var catalogSQL string

// catalogs is what every server's catalog had, by server.
type catalogs map[string][]string

// catalogs lists all objects of the source and of every database.
func (w *world) catalogs() catalogs {
	w.t.Helper()
	all := catalogs{"source": w.texts(w.sourceDSN(), catalogSQL)}
	for i := range w.databases() {
		all[w.database(i)] = w.texts(w.databaseDSN(i), catalogSQL)
	}
	return all
}

// difference lists what was added (+) and what is gone (-), each with its server.
func (before catalogs) difference(after catalogs) (lines []string) {
	for server, was := range before {
		for _, l := range after[server] {
			if !slices.Contains(was, l) {
				lines = append(lines, "+ "+server+": "+l)
			}
		}
		for _, l := range was {
			if !slices.Contains(after[server], l) {
				lines = append(lines, "- "+server+": "+l)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// unchanged fails the test if any catalog is not as it was.
func (w *world) unchanged(t testing.TB, before catalogs, after string) {
	t.Helper()
	if diff := before.difference(w.catalogs()); len(diff) > 0 {
		t.Errorf("%s changed the catalog:\n%s", after, strings.Join(diff, "\n"))
	}
}
