package journey

import (
	"context"
	"fmt"
	"strconv"
)

const (
	insertCommentSQL = `INSERT INTO comment AS c (block_id, body) VALUES ($1, $2) RETURNING c.id, ` + commentText
	updateCommentSQL = `UPDATE comment c SET block_id = $2, body = $3 FROM (SELECT c.id, ` + commentText + ` AS was FROM comment c WHERE c.id = $1 FOR UPDATE) o WHERE c.id = o.id RETURNING o.was, ` + commentText
	deleteCommentSQL = `DELETE FROM comment c WHERE c.id = $1 RETURNING ` + commentText
	renumberSQL      = `UPDATE comment c SET id = DEFAULT, body = $2 WHERE c.id = $1 RETURNING c.id, ` + commentText
	readBackSQL      = `SELECT ` + blockText + `, (SELECT count(*) FROM comment c WHERE c.block_id = b.id) FROM block b WHERE b.id = $1`
)

// putComment inserts a comment on a block; the server draws its id.
func putComment(ctx context.Context, db session, on *block, body string) (*comment, error) {
	row, err := one(ctx, db, insertCommentSQL, on.id, body)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseInt(row[0], 10, 64)
	return &comment{id: id, state: row[1], on: on}, err
}

// setComment changes a comment's text, perhaps its block, and gives its new state.
func setComment(ctx context.Context, db session, c *comment, on *block, body string) (string, error) {
	row, err := one(ctx, db, updateCommentSQL, c.id, on.id, body)
	if err != nil {
		return "", err
	}
	return row[1], same(row[0], c.state)
}

func takeComment(ctx context.Context, db session, c *comment) error {
	row, err := one(ctx, db, deleteCommentSQL, c.id)
	if err != nil {
		return err
	}
	return same(row[0], c.state)
}

func (x *writer) insertComment() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	var c *comment
	token := x.token()
	return &request{kind: "insert comment", entry: x.through(b.workspace), blocks: []string{b.id}, single: true,
		run: func(ctx context.Context, db session) (err error) {
			c, err = putComment(ctx, db, b, token)
			return err
		},
		note: func() { x.addComment(c) }}
}

func (x *writer) updateComment() *request {
	c := x.someComment()
	if c == nil {
		return nil
	}
	return x.rewriteComment("update comment", c, c.on)
}

// moveComment puts a comment on another block, and so perhaps on another shard.
func (x *writer) moveComment() *request {
	c := x.someComment()
	if c == nil {
		return nil
	}
	to := x.otherBlock(c.on)
	if to == nil {
		return nil
	}
	return x.rewriteComment("move comment", c, to)
}

func (x *writer) rewriteComment(kind string, c *comment, to *block) *request {
	var state string
	token := x.token()
	return &request{kind: kind, entry: x.through(c.on.workspace), blocks: []string{c.on.id, to.id}, single: true,
		run: func(ctx context.Context, db session) (err error) {
			state, err = setComment(ctx, db, c, to, token)
			return err
		},
		note: func() {
			c.state = state
			if to != c.on {
				c.move(to)
			}
		}}
}

// renumberComment changes a comment's primary key to a new number of the sequence.
func (x *writer) renumberComment() *request {
	c := x.someComment()
	if c == nil {
		return nil
	}
	var row []string
	token := x.token()
	return &request{kind: "renumber comment", entry: x.through(c.on.workspace), blocks: []string{c.on.id}, single: true,
		run: func(ctx context.Context, db session) (err error) {
			row, err = one(ctx, db, renumberSQL, c.id, token)
			return err
		},
		note: func() {
			c.id, _ = strconv.ParseInt(row[0], 10, 64) // the server wrote it
			c.state = row[1]
		}}
}

// deleteComment deletes a comment and touches its block.
func (x *writer) deleteComment() *request {
	c := x.someComment()
	if c == nil {
		return nil
	}
	var state string
	token := x.token()
	return &request{kind: "delete comment", entry: x.through(c.on.workspace), blocks: []string{c.on.id},
		run: func(ctx context.Context, db session) (err error) {
			if err = takeComment(ctx, db, c); err != nil {
				return err
			}
			state, err = x.stamp(ctx, db, c.on, c.on.workspace, token)
			return err
		},
		note: func() {
			c.on.state = state
			x.dropComment(c)
		}}
}

// mixed writes both tables in one transaction, with a savepoint that is rolled back.
func (x *writer) mixed() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	var state, said string
	var first, added *comment
	if len(b.comments) > 0 {
		first = b.comments[0]
	}
	token := x.token()
	return &request{kind: "mixed", entry: x.through(b.workspace), blocks: []string{b.id},
		run: func(ctx context.Context, db session) (err error) {
			if added, err = putComment(ctx, db, b, token); err != nil {
				return err
			}
			for _, sql := range []string{"SAVEPOINT s", "DELETE FROM block WHERE id = '" + b.id + "'", "ROLLBACK TO s"} {
				if _, err = db.Exec(ctx, sql); err != nil {
					return err
				}
			}
			if state, err = x.stamp(ctx, db, b, b.workspace, token); err != nil || first == nil {
				return err
			}
			said, err = setComment(ctx, db, first, b, token)
			return err
		},
		note: func() {
			b.state = state
			if first != nil {
				first.state = said
			}
			x.addComment(added)
		}}
}

// changeMind writes and rolls back.
func (x *writer) changeMind() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	token := x.token()
	return &request{kind: "roll back", entry: x.through(b.workspace), blocks: []string{b.id},
		run: func(ctx context.Context, db session) error {
			if _, err := x.stamp(ctx, db, b, b.workspace, token); err != nil {
				return err
			}
			if err := eraseBlock(ctx, db, b); err != nil {
				return err
			}
			return errChangedMind
		}}
}

// eraseBlock deletes a block whose state this transaction changed.
func eraseBlock(ctx context.Context, db session, b *block) error {
	_, err := one(ctx, db, deleteBlockSQL, b.id)
	return err
}

// readBack reads what this writer wrote.
func (x *writer) readBack() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	return &request{kind: "read", entry: x.through(b.workspace), single: true,
		run: func(ctx context.Context, db session) error {
			row, err := one(ctx, db, readBackSQL, b.id)
			if err != nil {
				return err
			}
			if row[1] != strconv.Itoa(len(b.comments)) {
				return fmt.Errorf("block %s has %s comments instead of %d", b.id, row[1], len(b.comments))
			}
			return same(row[0], b.state)
		}}
}
