package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	pg "github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// Commit writes the document and tells the channel of it, in one transaction.
func (r *Router) Commit(ctx context.Context, doc topology.Topology) error {
	return r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pg.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error { return r.write(ctx, tx, doc) })
	})
}

// errProven rolls a probe back.
var errProven = errors.New("proven")

// Probe writes the document in a transaction that is rolled back.
func (r *Router) Probe(ctx context.Context, doc topology.Topology, _ topology.Scope) ([]migrate.Finding, error) {
	proven := false
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		place, err := r.look(ctx, conn)
		if err != nil {
			return err
		}
		if err := refusal(r.judge(place)); err != nil {
			return err
		}
		return pg.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			if err := r.write(ctx, tx, doc); err != nil {
				return err
			}
			if err := r.compare(ctx, tx, doc); err != nil {
				return err
			}
			proven = true
			return errProven
		})
	})
	if proven {
		return nil, nil
	}
	return nil, err
}

// ReadBack compares the row, as a statement of its own sees it, with the document.
func (r *Router) ReadBack(ctx context.Context, doc topology.Topology) error {
	return r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error { return r.compare(ctx, conn, doc) })
}

// Forget makes the row's epoch 0, so that a later migration of the same name may begin
// anew. The document stays: readers depend on it.
func (r *Router) Forget(ctx context.Context) error {
	return r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pg.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			doc, there, err := r.read(ctx, tx)
			if err != nil || !there || doc.Epoch == 0 {
				return err
			}
			later := doc.Epoch
			doc.Epoch = 0
			for i := range doc.Shards {
				doc.Shards[i].Epoch = 0
			}
			return r.replace(ctx, tx, doc, "t.epoch = $4", later)
		})
	})
}

// write makes what is missing and puts the document there, unless a later one is.
func (r *Router) write(ctx context.Context, tx pgx.Tx, doc topology.Topology) error {
	if err := doc.Check(); err != nil {
		return err
	}
	if doc.Migration != r.migration {
		return fmt.Errorf("postgres %s: a document of %q is none of %q", r.name, doc.Migration, r.migration)
	}
	if err := r.create(ctx, tx); err != nil {
		return err
	}
	return r.replace(ctx, tx, doc, "t.epoch < excluded.epoch OR t.epoch = excluded.epoch AND t.document IS DISTINCT FROM excluded.document")
}

// replace writes the row if there is none, or if it meets a condition, and tells of it.
func (r *Router) replace(ctx context.Context, tx pgx.Tx, doc topology.Topology, condition string, args ...any) error {
	content, err := json.Marshal(doc)
	if err != nil {
		return r.failed("write", err)
	}
	sql := `INSERT INTO ` + r.quoted() + ` AS t (migration, epoch, document, updated) VALUES ($1, $2, $3::text::jsonb, clock_timestamp())
	ON CONFLICT (migration) DO UPDATE SET epoch = excluded.epoch, document = excluded.document, updated = excluded.updated WHERE ` + condition
	tag, err := tx.Exec(ctx, sql, append([]any{r.migration, doc.Epoch, string(content)}, args...)...)
	if err != nil {
		return r.failed("write", err)
	}
	if tag.RowsAffected() == 0 {
		return r.unchanged(ctx, tx, doc)
	}
	payload, err := json.Marshal(news{Migration: r.migration, Epoch: doc.Epoch})
	if err != nil {
		return r.failed("notify", err)
	}
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, r.channel, string(payload)); err != nil {
		return r.failed("notify", err)
	}
	return nil
}

// news is what a notification carries.
type news struct {
	Migration string `json:"migration"`
	Epoch     int64  `json:"epoch"`
}

// unchanged tells the refusal of an older document from one that is there already.
func (r *Router) unchanged(ctx context.Context, tx pgx.Tx, doc topology.Topology) error {
	var have int64
	if err := tx.QueryRow(ctx, `SELECT epoch FROM `+r.quoted()+` WHERE migration = $1`, r.migration).Scan(&have); err != nil {
		return r.failed("read", err)
	}
	if have > doc.Epoch {
		return topology.OlderEpoch("postgres "+r.name, have, doc.Epoch)
	}
	return nil
}

// compare fails unless the row holds the document.
func (r *Router) compare(ctx context.Context, q pg.Querier, doc topology.Topology) error {
	have, there, err := r.read(ctx, q)
	if err != nil {
		return err
	}
	differs := func(what string) error {
		return migrate.Broken("router.read_back", "postgres "+r.name, what, "run shardctl topology push", nil)
	}
	if !there {
		return differs("it holds no document of " + r.migration)
	}
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(doc)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		return differs(fmt.Sprintf("it holds another document, of epoch %d, than that of epoch %d", have.Epoch, doc.Epoch))
	}
	return nil
}

// read gives the row's document, if there is a row.
func (r *Router) read(ctx context.Context, q pg.Querier) (doc topology.Topology, there bool, err error) {
	var exists bool
	if err := q.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, r.quoted()).Scan(&exists); err != nil || !exists {
		return doc, false, r.orNil("look for the table", err)
	}
	var content string
	var epoch int64
	err = q.QueryRow(ctx, `SELECT epoch, document::text FROM `+r.quoted()+` WHERE migration = $1`, r.migration).Scan(&epoch, &content)
	if errors.Is(err, pgx.ErrNoRows) {
		return doc, false, nil
	}
	if err != nil {
		return doc, false, r.failed("read", err)
	}
	if err := json.Unmarshal([]byte(content), &doc); err != nil || doc.Epoch != epoch {
		return doc, true, migrate.Refuse("router.table", "postgres "+r.name, "the row of "+r.migration+" holds no topology document of its epoch",
			"delete the row, then run shardctl topology push")
	}
	return doc, true, nil
}

func (r *Router) orNil(what string, err error) error {
	if err == nil {
		return nil
	}
	return r.failed(what, err)
}

func (r *Router) quoted() string { return pg.Table(r.table.Schema, r.table.Name) }
