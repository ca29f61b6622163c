package main

import (
	"context"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/preflight"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

// steps lists what every phase will do, with SQL and undo.
func steps(ctx context.Context, s *preflight.Survey) ([]migrate.Step, error) {
	b, err := blueprint.Read(ctx, s.Source, s.Layout)
	if err != nil {
		return nil, err
	}
	var out []migrate.Step
	add := func(phase, summary string, statements []ddl.Statement) {
		out = append(out, migrate.Step{Phase: phase, Summary: summary, SQL: ddl.Script(statements), Undo: ddl.Undo(statements)})
	}
	for _, d := range s.Spec.Databases {
		statements, err := target.Statements(b, d.Name)
		if err != nil {
			return nil, err
		}
		add("prepare", "make schemas, tables, primary keys and closed fences on "+d.Name, statements)
	}
	add("install", "record every write on the source's tables; dormant fences", auditlog.Statements(auditlog.SourceSide(s.Layout)))
	for _, d := range s.Spec.Databases {
		add("install", "record every write on "+d.Name+" for the way back", auditlog.Statements(auditlog.DatabaseSide(s.Layout, d.Name)))
	}
	for _, d := range s.Spec.Databases {
		statements, err := target.FinishStatements(b, d.Name)
		if err != nil {
			return nil, err
		}
		add("backfill", "copy the rows, then make indexes, constraints, triggers and grants on "+d.Name, statements)
	}
	for _, p := range []struct{ phase, summary, undo string }{
		{"verify", "compare every row and its place with the source", ""},
		{"cutover", "hold the routers, fence the source, drain, commit ownership, open the databases, flip, release", "shardctl rollback"},
		{"complete", "remove the reverse log; fences and placement guards stay", ""},
	} {
		out = append(out, migrate.Step{Phase: p.phase, Summary: p.summary, Undo: p.undo})
	}
	return out, nil
}
