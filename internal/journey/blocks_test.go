package journey

import (
	"context"

	"github.com/google/uuid"
)

const (
	insertBlockSQL = `INSERT INTO block AS b (id, workspace_id, plan_id, doc, tags, amount) VALUES ($1, $2, $3, jsonb_build_object('w', $4::text), $5, $6) RETURNING ` + blockText
	// stampSQL gives the row as it was, too: a write that is not there any more shows at once.
	stampSQL = `UPDATE block b SET workspace_id = $2, doc = jsonb_set(b.doc, '{w}', to_jsonb($3::text)), tags = $4, amount = $5, at = clock_timestamp(), version = b.version + 1
FROM (SELECT b.id, ` + blockText + ` AS was FROM block b WHERE b.id = $1 FOR UPDATE) o WHERE b.id = o.id RETURNING o.was, ` + blockText
	deleteBlockSQL = `DELETE FROM block b WHERE b.id = $1 RETURNING ` + blockText
	rekeyBlockSQL  = `UPDATE block b SET id = $2, doc = jsonb_set(b.doc, '{w}', to_jsonb($3::text)) WHERE b.id = $1 RETURNING ` + blockText
)

// insertPage makes a block with up to three comments, whose ids the server draws.
func (x *writer) insertPage() *request {
	token := x.token()
	b := &block{id: uuid.NewString(), workspace: x.workspaces[x.random.IntN(len(x.workspaces))]}
	comments := make([]*comment, x.random.IntN(4))
	return &request{kind: "insert page", entry: x.through(b.workspace), blocks: []string{b.id},
		run: func(ctx context.Context, db session) (err error) {
			if b.state, err = x.putBlock(ctx, db, b, token); err != nil {
				return err
			}
			for i := range comments {
				if comments[i], err = putComment(ctx, db, b, token); err != nil {
					return err
				}
			}
			return nil
		},
		note: func() {
			x.addBlock(b)
			for _, c := range comments {
				x.addComment(c)
			}
		}}
}

func (x *writer) putBlock(ctx context.Context, db session, b *block, token string) (string, error) {
	row, err := one(ctx, db, insertBlockSQL, b.id, b.workspace, 1+x.random.IntN(plans), token, x.tags(), x.amount())
	if err != nil {
		return "", err
	}
	return row[0], nil
}

// stamp updates a block, perhaps its key, and gives its new state.
func (x *writer) stamp(ctx context.Context, db session, b *block, workspace, token string) (string, error) {
	row, err := one(ctx, db, stampSQL, b.id, workspace, token, x.tags(), x.amount())
	if err != nil {
		return "", err
	}
	return row[1], same(row[0], b.state)
}

func (x *writer) updateBlock() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	return x.rewrite("update block", b, b.workspace)
}

// changeKey moves a block, and the comments on it, to another workspace.
func (x *writer) changeKey() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	to := x.otherWorkspace(b.workspace)
	if to == "" {
		return nil
	}
	return x.rewrite("change key", b, to)
}

func (x *writer) rewrite(kind string, b *block, workspace string) *request {
	var state string
	token := x.token()
	return &request{kind: kind, entry: x.through(b.workspace), blocks: []string{b.id}, single: true,
		run: func(ctx context.Context, db session) (err error) {
			state, err = x.stamp(ctx, db, b, workspace, token)
			return err
		},
		note: func() { b.state, b.workspace = state, workspace }}
}

// deleteBlock deletes a block; the comments on it go by cascade.
func (x *writer) deleteBlock() *request {
	b := x.someBlock()
	if b == nil {
		return nil
	}
	return &request{kind: "delete block", entry: x.through(b.workspace), blocks: []string{b.id}, gone: []string{b.id}, single: true,
		run:  func(ctx context.Context, db session) error { return takeBlock(ctx, db, b) },
		note: func() { x.dropBlock(b) }}
}

func takeBlock(ctx context.Context, db session, b *block) error {
	row, err := one(ctx, db, deleteBlockSQL, b.id)
	if err != nil {
		return err
	}
	return same(row[0], b.state)
}

// reinsert deletes a block and makes one of the same id in the same transaction,
// perhaps in another workspace.
func (x *writer) reinsert() *request {
	old := x.someBlock()
	if old == nil {
		return nil
	}
	b, token := &block{id: old.id, workspace: old.workspace}, x.token()
	if to := x.otherWorkspace(old.workspace); to != "" && x.random.IntN(2) == 0 {
		b.workspace = to
	}
	return &request{kind: "reinsert", entry: x.through(old.workspace), blocks: []string{b.id},
		run: func(ctx context.Context, db session) (err error) {
			if err = takeBlock(ctx, db, old); err != nil {
				return err
			}
			b.state, err = x.putBlock(ctx, db, b, token)
			return err
		},
		note: func() {
			x.dropBlock(old)
			x.addBlock(b)
		}}
}

// rekeyBlock gives a block without comments another primary key.
func (x *writer) rekeyBlock() *request {
	b := x.someBlock()
	if b == nil || len(b.comments) > 0 {
		return nil
	}
	id, token, state := uuid.NewString(), x.token(), ""
	return &request{kind: "change primary key", entry: x.through(b.workspace), blocks: []string{b.id, id}, gone: []string{b.id}, single: true,
		run: func(ctx context.Context, db session) error {
			row, err := one(ctx, db, rekeyBlockSQL, b.id, id, token)
			if err != nil {
				return err
			}
			state = row[0]
			return nil
		},
		note: func() { b.id, b.state = id, state }}
}
