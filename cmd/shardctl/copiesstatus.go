package main

import (
	"fmt"
	"io"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// statusOfCopies shows what the databases know where the source cannot be asked. That
// is an error all the same, unless the migration was completed without it.
func (a *app) statusOfCopies(c *copies) error {
	doc := emptyStatus(c.spec)
	doc.Phase, doc.Next = c.phase(), "bring the source back, then shardctl status"
	doc.Epoch = maxEpoch(c.owners())
	owner := map[string]string{}
	for _, o := range c.owners() {
		owner[o.Database] = o.Owner
		if o.Owner != store.OwnerSource {
			doc.Cutover.ShardsMoved += len(o.Shards)
		}
	}
	doc.countMoved(c.spec)
	for _, d := range c.spec.Databases {
		one, found := c.found[d.Name]
		doc.Databases = append(doc.Databases, databaseStatus{Name: d.Name, Reachable: found, Owner: owner[d.Name], Held: one.Control.Held})
		if !found {
			doc.Problems = append(doc.Problems, fmt.Sprintf("database %s: %v", d.Name, c.silent[d.Name]))
		}
	}
	reason := "the source cannot be reached"
	switch {
	case doc.Phase == migrate.Completed:
		doc.Next, reason = "", "complete"
	case doc.Phase == migrate.CutOver:
		doc.Next = "bring the source back; or, if it is lost for good, shardctl complete --source-lost"
	}
	doc.Rollback.Reason = &reason
	if !c.lost() {
		doc.Error = &documents(c.err)[0]
		doc.Problems = append([]string{"the source cannot be asked: this is what the databases' own copies of the state say"}, doc.Problems...)
	}
	if err := a.print(doc, func(w io.Writer) { printStatus(w, doc) }); err != nil || c.lost() {
		return err
	}
	if a.Output == "json" {
		return reported{c.err}
	}
	return c.err
}
