package layout

import (
	"context"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Load reads the spec's tables from the source.
func Load(ctx context.Context, source postgres.Querier, spec *migrate.Spec) (*Layout, error) {
	names := make([]migrate.TableName, len(spec.Tables))
	for i, t := range spec.Tables {
		names[i] = t.Name
	}
	tables, err := catalog.Load(ctx, source, names)
	if err != nil {
		return nil, err
	}
	return New(spec, tables)
}

// New joins a spec with tables that were read before.
func New(spec *migrate.Spec, tables map[migrate.TableName]*catalog.Table) (*Layout, error) {
	l := &Layout{Spec: spec}
	for i, t := range spec.Tables {
		l.Tables = append(l.Tables, &Table{No: i + 1, Spec: t, Source: tables[t.Name], StoreAs: t.Key.StoreAs})
	}
	var failures migrate.Failures
	steps := []func(*Table) *migrate.Failure{l.reserved, l.primaryKey, l.version, l.ownKey, l.link}
	for _, step := range steps {
		for _, t := range l.Tables {
			if f := step(t); f != nil {
				failures = append(failures, f)
			}
		}
	}
	if len(failures) > 0 {
		return nil, failures
	}
	for _, step := range []func(*Table) *migrate.Failure{l.inheritKey, l.family, l.storeAs, l.noKey} {
		for _, t := range l.Tables {
			if f := step(t); f != nil {
				failures = append(failures, f)
			}
		}
	}
	if len(failures) > 0 {
		return nil, failures
	}
	return l, nil
}
