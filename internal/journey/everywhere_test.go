package journey

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// sourceEntry is the pooler's entry for the everywhere tables, which the source owns
// all the time.
const sourceEntry = "app_source"

const (
	insertPlanSQL = `INSERT INTO plan AS p (name, price, features) VALUES ($1, $2, $3) RETURNING p.id, ` + planText
	updatePlanSQL = `UPDATE plan p SET price = $2, features = $3, name = $4, version = p.version + 1 FROM (SELECT p.id, ` + planText + ` AS was FROM plan p WHERE p.id = $1 FOR UPDATE) o WHERE p.id = o.id RETURNING o.was, ` + planText
	deletePlanSQL = `DELETE FROM plan p WHERE p.id = $1 RETURNING ` + planText
)

var prices = []any{nil, "0", "9.90", "-1.50"}

// writePlan inserts, updates or deletes a row of the everywhere table.
func (x *writer) writePlan() *request {
	if x.noPlans {
		return nil
	}
	n := x.random.IntN(10)
	if n < 3 || len(x.plans) == 0 {
		return x.insertPlan()
	}
	p := x.plans[x.random.IntN(len(x.plans))]
	if n < 5 && !p.kept {
		return x.deletePlan(p)
	}
	var state string
	name := fmt.Sprintf("plan %d %s", p.id, x.token())
	return &request{kind: "update plan", entry: sourceEntry, plan: p, single: true,
		run: func(ctx context.Context, db session) error {
			row, err := one(ctx, db, updatePlanSQL, p.id, prices[x.random.IntN(len(prices))], x.tags(), name)
			if err != nil {
				return err
			}
			state = row[1]
			return same(row[0], p.state)
		},
		note: func() { p.state = state }}
}

func (x *writer) insertPlan() *request {
	p, name := &plan{}, "plan "+x.token()
	var row []string
	return &request{kind: "insert plan", entry: sourceEntry, plan: p, single: true,
		run: func(ctx context.Context, db session) (err error) {
			row, err = one(ctx, db, insertPlanSQL, name, prices[x.random.IntN(len(prices))], x.tags())
			return err
		},
		note: func() {
			p.id, _ = strconv.ParseInt(row[0], 10, 64) // the server wrote it
			p.state = row[1]
			x.plans = append(x.plans, p)
		}}
}

func (x *writer) deletePlan(p *plan) *request {
	return &request{kind: "delete plan", entry: sourceEntry, plan: p, single: true,
		run: func(ctx context.Context, db session) error {
			row, err := one(ctx, db, deletePlanSQL, p.id)
			if err != nil {
				return err
			}
			return same(row[0], p.state)
		},
		note: func() { x.plans = slices.DeleteFunc(x.plans, func(q *plan) bool { return q == p }) }}
}
