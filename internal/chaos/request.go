package main

import (
	"fmt"

	"github.com/google/uuid"
)

const (
	insertBlockSQL   = "INSERT INTO block (id, workspace_id, doc, version) VALUES ($1, $2, $3::jsonb, $4)"
	updateBlockSQL   = "UPDATE block SET workspace_id = $2, doc = $3::jsonb, version = $4 WHERE id = $1"
	deleteBlockSQL   = "DELETE FROM block WHERE id = $1"
	insertCommentSQL = "INSERT INTO comment (id, block_id, body, version) VALUES ($1, $2, $3, $4)"
	updateCommentSQL = "UPDATE comment SET body = $2, version = $3 WHERE id = $1"
	deleteCommentSQL = "DELETE FROM comment WHERE id = $1"
)

// draw gives the next request.
func (c *client) draw() *request {
	c.no++
	if len(c.families) < 10 {
		return c.insertPage()
	}
	f := c.families[c.random.IntN(len(c.families))]
	switch n := c.random.IntN(20); {
	case n < 6:
		return c.insertPage()
	case n < 11:
		return c.updateBlock(f, f.workspace)
	case n < 14:
		return c.updateBlock(f, c.otherWorkspace(f.workspace))
	case n < 15:
		return c.deletePage(f)
	case len(f.comments) == 0:
		return c.addComment(f)
	case n < 17:
		return c.updateComment(f)
	case n < 18:
		return c.deleteComment(f)
	default:
		return c.insertAgain(f)
	}
}

// token is a text that this request alone writes.
func (c *client) token(what string) string {
	return fmt.Sprintf("%s %d %x", what, c.no, c.random.Uint64())
}

// document is a block's jsonb as the server writes it.
func document(text string, version int64) string {
	return fmt.Sprintf(`{"b": "%s", "n": %d}`, text, version)
}

// otherWorkspace is where a block is moved to: while the source serves, any of the
// client's; later one of the same shard.
func (c *client) otherWorkspace(from uuid.UUID) uuid.UUID {
	start := c.random.IntN(len(c.own))
	for i := range c.own {
		to := c.own[(start+i)%len(c.own)]
		if to != from && (!c.apart.Load() || c.places[to] == c.places[from]) {
			return to
		}
	}
	return from
}

func (c *client) insertPage() *request {
	f := &family{block: uuid.New(), workspace: c.own[c.random.IntN(len(c.own))]}
	b := row{"block", f.workspace, document(c.token("new"), 1), 1}
	r := &request{workspace: f.workspace, change: change{f.block: b}, then: func() { c.families = append(c.families, f) }}
	r.add(insertBlockSQL, f.block.String(), f.workspace.String(), b.body, b.version)
	for range c.random.IntN(3) {
		id := uuid.New()
		f.comments = append(f.comments, id)
		r.putComment(id, row{"comment", f.block, c.token("note"), 1})
	}
	return r
}

func (r *request) add(sql string, args ...any) {
	r.statements = append(r.statements, statement{sql, args})
}

func (r *request) putComment(id uuid.UUID, n row) {
	r.change[id] = n
	r.add(insertCommentSQL, id.String(), n.parent.String(), n.body, n.version)
}

// on is a request on a family, so far without anything to do.
func (c *client) on(f *family) *request {
	return &request{workspace: f.workspace, family: f, change: change{}, then: func() {}}
}

func (c *client) updateBlock(f *family, workspace uuid.UUID) *request {
	r := c.on(f)
	version := c.book.row(f.block).version + 1
	b := row{"block", workspace, document(c.token("edit"), version), version}
	r.change[f.block] = b
	r.add(updateBlockSQL, f.block.String(), workspace.String(), b.body, b.version)
	r.then = func() { f.workspace = workspace }
	return r
}

// deletePage deletes a block; the comments go by cascade.
func (c *client) deletePage(f *family) *request {
	r := c.on(f)
	r.change[f.block] = row{}
	for _, id := range f.comments {
		r.change[id] = row{}
	}
	r.add(deleteBlockSQL, f.block.String())
	r.then = func() { c.forget(f) }
	return r
}

func (c *client) addComment(f *family) *request {
	r := c.on(f)
	id := uuid.New()
	r.putComment(id, row{"comment", f.block, c.token("note"), 1})
	r.then = func() { f.comments = append(f.comments, id) }
	return r
}

func (c *client) updateComment(f *family) *request {
	r := c.on(f)
	id := f.comments[c.random.IntN(len(f.comments))]
	n := c.book.row(id)
	n.body, n.version = c.token("said"), n.version+1
	r.change[id] = n
	r.add(updateCommentSQL, id.String(), n.body, n.version)
	return r
}

func (c *client) deleteComment(f *family) *request {
	r := c.on(f)
	i := c.random.IntN(len(f.comments))
	id := f.comments[i]
	r.change[id] = row{}
	r.add(deleteCommentSQL, id.String())
	r.then = func() { f.comments = append(f.comments[:i], f.comments[i+1:]...) }
	return r
}

// insertAgain deletes a comment and inserts one of the same id in one transaction.
func (c *client) insertAgain(f *family) *request {
	r := c.on(f)
	id := f.comments[c.random.IntN(len(f.comments))]
	r.add(deleteCommentSQL, id.String())
	r.putComment(id, row{"comment", f.block, c.token("again"), 1})
	return r
}
