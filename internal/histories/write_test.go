package histories

import (
	"fmt"
	"maps"
	"slices"
)

func ordered(weights map[string]int) []string { return slices.Sorted(maps.Keys(weights)) }

const copyEvents = "copy events in"

// writeWeights are the application's writes on the source.
var writeWeights = func() map[string]int {
	out := map[string]int{copyEvents: 2}
	for kind := range writes {
		out[kind] = 4
	}
	for _, often := range []string{"update block", "move block", "delete block", "insert block", "insert comment", "move comment"} {
		out[often] = 7
	}
	for _, seldom := range []string{"truncate", "truncate leaf", "move many", "many events", "rewrite", "replica: delete block"} {
		out[seldom] = 1
	}
	return out
}()

// writes gives the SQL of each kind, with n as a value that was never written before.
var writes = map[string]func(s step, n int, sh shape) string{
	"insert block": func(s step, n int, sh shape) string {
		return fmt.Sprintf("INSERT INTO public.block VALUES (%d, %s, %s, 'i%d')", s.a, key(s.b, sh), slug(s.c), n)
	},
	"upsert block": func(s step, n int, sh shape) string {
		return fmt.Sprintf("INSERT INTO public.block VALUES (%d, %s, NULL, 'c%d') ON CONFLICT (id) DO UPDATE SET ws = excluded.ws, body = excluded.body", s.a, key(s.b, sh), n)
	},
	"update block": func(s step, n int, _ shape) string {
		return fmt.Sprintf("UPDATE public.block SET body = 'u%d' || repeat('.', 300) WHERE id = %d", n, s.a)
	},
	"move block": func(s step, _ int, sh shape) string {
		return fmt.Sprintf("UPDATE public.block SET ws = %s WHERE id = %d", key(s.b, sh), s.a)
	},
	"move block twice": func(s step, _ int, sh shape) string {
		return fmt.Sprintf("UPDATE public.block SET ws = %s WHERE id = %d; UPDATE public.block SET ws = %s WHERE id = %[2]d", key(s.b, sh), s.a, key(s.c, sh))
	},
	"move many": func(s step, _ int, _ shape) string {
		return fmt.Sprintf("UPDATE public.block SET ws = (ws + 1) %% 9 WHERE id %% 3 = %d", s.a%3)
	},
	"rename block": func(s step, _ int, _ shape) string {
		return fmt.Sprintf("UPDATE public.block SET id = %d WHERE id = %d", s.b, s.a)
	},
	"delete block": func(s step, _ int, _ shape) string { return fmt.Sprintf("DELETE FROM public.block WHERE id = %d", s.a) },
	"replace block": func(s step, n int, sh shape) string {
		return fmt.Sprintf("DELETE FROM public.block WHERE id = %d; INSERT INTO public.block VALUES (%[1]d, %s, %s, 'r%d')", s.a, key(s.b, sh), slug(s.c), n)
	},
	"swap slugs": func(s step, _ int, _ shape) string {
		return fmt.Sprintf(`DO $$ DECLARE x text; y text; BEGIN SELECT slug INTO x FROM public.block WHERE id = %d; SELECT slug INTO y FROM public.block WHERE id = %d;
		UPDATE public.block SET slug = NULL WHERE id = %[1]d; UPDATE public.block SET slug = x WHERE id = %[2]d; UPDATE public.block SET slug = y WHERE id = %[1]d; END $$`, s.a, s.b)
	},
	"hand a slug over": func(s step, n int, sh shape) string {
		return fmt.Sprintf("DELETE FROM public.block WHERE slug = 's%d'; INSERT INTO public.block VALUES (%d, %s, 's%[1]d', 'h%d') ON CONFLICT (id) DO UPDATE SET slug = excluded.slug", s.c%6, s.a, key(s.b, sh), n)
	},
	"insert comment": func(s step, n int, _ shape) string {
		return fmt.Sprintf("INSERT INTO public.comment VALUES (%d, %d, 'i%d')", s.a, s.b, n)
	},
	"family": func(s step, n int, sh shape) string { // the children first
		return fmt.Sprintf("BEGIN; INSERT INTO public.reply VALUES (%d, %d, 'f%d') ON CONFLICT DO NOTHING; INSERT INTO public.comment VALUES (%[2]d, %d, 'f%[3]d') ON CONFLICT DO NOTHING; INSERT INTO public.block VALUES (%[4]d, %s, NULL, 'f%[3]d') ON CONFLICT DO NOTHING; COMMIT",
			s.a, s.b, n, s.c, key(s.a, sh))
	},
	"upsert comment": func(s step, n int, _ shape) string {
		return fmt.Sprintf("INSERT INTO public.comment VALUES (%d, %d, 'c%d') ON CONFLICT (id) DO UPDATE SET block_id = excluded.block_id, body = excluded.body", s.a, s.b, n)
	},
	"move comment": func(s step, _ int, _ shape) string {
		return fmt.Sprintf("UPDATE public.comment SET block_id = %d WHERE id = %d", s.b, s.a)
	},
	"rename comment": func(s step, _ int, _ shape) string {
		return fmt.Sprintf("UPDATE public.comment SET id = %d WHERE id = %d", s.b, s.a)
	},
	"delete comment": func(s step, _ int, _ shape) string {
		return fmt.Sprintf("DELETE FROM public.comment WHERE id = %d", s.a)
	},
	"upsert reply": func(s step, n int, _ shape) string {
		return fmt.Sprintf("INSERT INTO public.reply VALUES (%d, %d, 'i%d') ON CONFLICT (id) DO UPDATE SET comment_id = excluded.comment_id, body = excluded.body", s.a, s.b, n)
	},
	"delete reply": func(s step, _ int, _ shape) string { return fmt.Sprintf("DELETE FROM public.reply WHERE id = %d", s.a) },
	"plan": func(s step, n int, _ shape) string {
		return fmt.Sprintf("DELETE FROM public.plan WHERE id = %d; INSERT INTO public.plan VALUES (%d, 'p%d') ON CONFLICT (id) DO UPDATE SET name = 'n%d'", s.a, s.b, s.c, n)
	},
	"upsert event": func(s step, n int, _ shape) string {
		return fmt.Sprintf("INSERT INTO public.event VALUES (%d, %d, %d, 'i%d') ON CONFLICT (ws, id, day) DO UPDATE SET body = excluded.body", s.a%9, s.b, s.c+3, n)
	},
	"move event": func(s step, _ int, _ shape) string { // also to the other leaf
		return fmt.Sprintf("UPDATE public.event SET ws = %d, day = (day + %d) %% 20 WHERE id = %d", s.a%9, s.c, s.b)
	},
	"delete event": func(s step, _ int, _ shape) string { return fmt.Sprintf("DELETE FROM public.event WHERE id = %d", s.b) },
	"many events": func(s step, n int, _ shape) string {
		return fmt.Sprintf("INSERT INTO public.event SELECT g %% 9, g, %d, 'm%d' FROM generate_series(20, 50) g ON CONFLICT DO NOTHING", s.c, n)
	},
	"truncate": func(s step, _ int, _ shape) string {
		return []string{"TRUNCATE public.reply", "TRUNCATE public.event", "TRUNCATE public.plan", "TRUNCATE public.block, public.comment, public.reply"}[s.a%4]
	},
	"truncate leaf": func(s step, n int, _ shape) string {
		return fmt.Sprintf("TRUNCATE public.event_%d; INSERT INTO public.event VALUES (%d, %d, %d, 't%d')", s.a%2, s.b%9, s.a, s.c, n)
	},
	"rewrite": func(s step, _ int, _ shape) string { // the new file shows nothing to older snapshots
		return fmt.Sprintf("ALTER TABLE public.%s ALTER body TYPE text USING body || ''", []string{"block", "comment", "reply"}[s.a%3])
	},
	"replica: insert": func(s step, n int, sh shape) string {
		return asReplica(fmt.Sprintf("INSERT INTO public.comment VALUES (%d, %d, 'o%d') ON CONFLICT DO NOTHING; UPDATE public.block SET ws = %s WHERE id = %d", s.a, s.b, n, key(s.c, sh), s.b))
	},
	"replica: delete block": func(s step, _ int, _ shape) string { // its children stay
		return asReplica(fmt.Sprintf("DELETE FROM public.block WHERE id = %d", s.a))
	},
}

func asReplica(sql string) string {
	return "SET session_replication_role = replica; " + sql + "; SET session_replication_role = origin"
}

func slug(n int) string {
	if n >= 8 {
		return "NULL"
	}
	return fmt.Sprintf("'s%d'", n)
}
