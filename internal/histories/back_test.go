package histories

import (
	"context"
	"fmt"
	"strings"
)

// own gives the databases their rows, as a cutover does to state.
func (p *player) own(ctx context.Context) {
	_, err := p.conns[0].Exec(ctx, "UPDATE shardctl.ownership SET owner = database")
	check(err)
	for i := range p.spec.Databases {
		_, err := p.conns[i+1].Exec(ctx, "UPDATE shardctl.control SET owner = database; "+p.eachRelation(i+1, "ALTER TABLE %s DISABLE TRIGGER shardctl_m_closed"))
		check(err)
		p.owners = append(p.owners, p.newSession(ctx, i+1, fmt.Sprint("d", i)))
	}
}

// disown gives them back.
func (p *player) disown(ctx context.Context) {
	for i := range p.spec.Databases {
		p.owners[i].close(ctx)
		_, err := p.conns[i+1].Exec(ctx, "UPDATE shardctl.control SET owner = 'source'; "+p.eachRelation(i+1, "ALTER TABLE %s ENABLE ALWAYS TRIGGER shardctl_m_closed"))
		check(err)
	}
	_, err := p.conns[0].Exec(ctx, "UPDATE shardctl.ownership SET owner = 'source'")
	check(err)
	p.owners = nil
}

// settleBack ends everything on the way back and judges it. Rows whose parents the
// application has deleted have no place any more, so they go first.
func (p *player) settleBack(ctx context.Context) {
	endAll(ctx, p.owners)
	endAll(ctx, p.sessions)
	for _, place := range p.places {
		s := p.owners[place.db-1]
		s.exec(ctx, strings.ReplaceAll("DELETE FROM %.comment c WHERE NOT EXISTS (SELECT FROM %.block WHERE id = c.block_id); DELETE FROM %.reply r WHERE NOT EXISTS (SELECT FROM %.comment WHERE id = r.comment_id)", "%", place.schema))
		s.settle(ctx)
	}
	p.catchup.drain(ctx, true)
	p.judge(ctx)
}

// writeBack writes one place of the databases. A session there has no statements
// that wait, so transactions are its only state.
func (p *player) writeBack(ctx context.Context, st step, n int) {
	place := p.places[st.who%len(p.places)]
	s := p.owners[place.db-1]
	switch st.kind {
	case "back: begin":
		st.kind = begin
	case "back: commit":
		st.kind = commit
	case "back: rollback":
		st.kind = rollback
	case "back: savepoint":
		st.kind = savepoint
	case "back: rollback to":
		st.kind = rollbackTo
	default:
		if s.settle(ctx) {
			if s.broken() {
				s.end(ctx, "ROLLBACK")
			}
			s.exec(ctx, p.backSQL(st, n, st.who%len(p.places)))
		}
		return
	}
	s.play(ctx, st, n)
}

// backSQL fills in a statement: @ are rows of the place, $ its keys, # a new id and & a
// slug that only it uses, ! a new text, ^ a number, % its schema.
func (p *player) backSQL(st step, n, at int) string {
	place := p.places[at]
	nth := func(table string, k int) string {
		return fmt.Sprintf("(SELECT id FROM %%.%s ORDER BY id OFFSET %d LIMIT 1)", table, k%8)
	}
	sql := strings.NewReplacer(", @ws", "", "; @hand", "").Replace(backWrites[st.kind])
	if p.shape.stored {
		sql = strings.NewReplacer("@ws", "b.ws", "@hand", handDown).Replace(backWrites[st.kind])
	}
	sql = strings.NewReplacer(
		"@block1", nth("block", st.a), "@block2", nth("block", st.b), "@comment1", nth("comment", st.a), "@comment2", nth("comment", st.b), "@reply1", nth("reply", st.a),
		"$1", fmt.Sprint(place.keys[st.b%len(place.keys)]), "$2", fmt.Sprint(place.keys[st.c%len(place.keys)]),
		"#", fmt.Sprint(1000+at*100+st.a), "&", fmt.Sprintf("'L%d-%d'", at, st.c%5), "!", fmt.Sprintf("'b%d'", n), "^", fmt.Sprint(st.c)).Replace(sql)
	return strings.ReplaceAll(sql, "%", place.schema)
}

// handDown is what the trigger does that fills stored keys.
const handDown = "UPDATE %.comment c SET ws = b.ws FROM %.block b WHERE b.id = c.block_id AND c.ws IS DISTINCT FROM b.ws"

// backWrites are the application's writes on the databases, which have no foreign
// keys: it deletes children itself, or leaves them behind.
var backWrites = map[string]string{
	"back: begin": "", "back: commit": "", "back: rollback": "", "back: savepoint": "", "back: rollback to": "",
	"back: insert block":   "INSERT INTO %.block VALUES (#, $1, NULL, !) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
	"back: update block":   "UPDATE %.block SET body = ! WHERE id = @block1",
	"back: move block":     "UPDATE %.block SET ws = $1 WHERE id = @block1; @hand",
	"back: rename block":   "DO $$ DECLARE x bigint := @block1; BEGIN UPDATE %.block SET id = # + 50 WHERE id = x; UPDATE %.comment SET block_id = # + 50 WHERE block_id = x; END $$",
	"back: slug":           "UPDATE %.block SET slug = & WHERE id = @block1",
	"back: swap slugs":     "DO $$ DECLARE i bigint := @block1; j bigint := @block2; x text; y text; BEGIN SELECT slug INTO x FROM %.block WHERE id = i; SELECT slug INTO y FROM %.block WHERE id = j; UPDATE %.block SET slug = NULL WHERE id = i; UPDATE %.block SET slug = x WHERE id = j; UPDATE %.block SET slug = y WHERE id = i; END $$",
	"back: delete block":   "DO $$ DECLARE x bigint := @block1; BEGIN DELETE FROM %.reply WHERE comment_id IN (SELECT id FROM %.comment WHERE block_id = x); DELETE FROM %.comment WHERE block_id = x; DELETE FROM %.block WHERE id = x; END $$",
	"back: orphans":        "DELETE FROM %.block WHERE id = @block1",
	"back: replace block":  "DO $$ DECLARE x bigint := @block1; BEGIN DELETE FROM %.block WHERE id = x; IF x IS NOT NULL THEN INSERT INTO %.block VALUES (x, $1, NULL, !); END IF; END $$; @hand",
	"back: insert comment": "INSERT INTO %.comment SELECT #, b.id, !, @ws FROM %.block b WHERE b.id = @block1 ON CONFLICT (id) DO UPDATE SET body = excluded.body",
	"back: move comment":   "UPDATE %.comment SET block_id = @block2 WHERE id = @comment1 AND @block2 IS NOT NULL; @hand",
	"back: delete comment": "DELETE FROM %.comment WHERE id = @comment1",
	"back: rename comment": "UPDATE %.comment SET id = # + 50 WHERE id = @comment1",
	"back: insert reply":   "INSERT INTO %.reply SELECT #, c.id, ! FROM %.comment c WHERE c.id = @comment1 ON CONFLICT (id) DO UPDATE SET body = excluded.body",
	"back: move reply":     "UPDATE %.reply SET comment_id = @comment2 WHERE id = @reply1 AND @comment2 IS NOT NULL",
	"back: delete reply":   "DELETE FROM %.reply WHERE id = @reply1",
	"back: upsert event":   "INSERT INTO %.event VALUES ($1, #, ^, !) ON CONFLICT (ws, id, day) DO UPDATE SET body = excluded.body",
	"back: move event":     "UPDATE %.event SET ws = $2, day = mod(day + ^, 20) WHERE id = (SELECT id FROM %.event ORDER BY id OFFSET 1 LIMIT 1) AND ws <> $2",
	"back: delete events":  "DELETE FROM %.event WHERE mod(day, 5) = mod(^, 5)",
	"back: truncate":       "TRUNCATE %.event",
}

var backWeights = func() map[string]int {
	out := map[string]int{}
	for kind := range backWrites {
		out[kind] = 4
	}
	out["back: commit"], out["back: truncate"], out["back: orphans"] = 8, 1, 1
	return out
}()
