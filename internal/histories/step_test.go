package histories

import (
	"fmt"
	"maps"
	"math/rand/v2"
)

// step is one step of a history. Its numbers mean what its kind makes of them; a
// step that has nothing to do does nothing, so that any part of a history is one.
type step struct {
	kind    string
	who     int // a session of the source, or a place
	a, b, c int
}

func (s step) String() string {
	return fmt.Sprintf("%s who=%d a=%d b=%d c=%d", s.kind, s.who, s.a, s.b, s.c)
}

// history is what a number stands for.
type history struct {
	seed  uint64
	batch int // entries of a log segment in a batch of the applier
	pages int64
	load  string
	steps []step
}

// The steps beside the application's writes.
const (
	tick        = "tick"
	tickOne     = "tick one database"
	crashTick   = "crash the applier before it commits"
	crashRead   = "crash the applier while it reads"
	rotate      = "rotate"
	prune       = "prune"
	startCopy   = "start a copy"
	copyStep    = "let the copy go on"
	stopCopy    = "stop the copy"
	freezeCopy  = "freeze the copy"
	thawCopy    = "wake the frozen copy"
	begin       = "begin"
	beginRepeat = "begin repeatable read"
	commit      = "commit"
	rollback    = "rollback"
	savepoint   = "savepoint"
	rollbackTo  = "rollback to savepoint"
	prepareTx   = "prepare transaction"
	finishTx    = "end the prepared transaction"
	switchOver  = "the databases take over"
	giveBack    = "the source takes over"
	back        = "tick back"
	crashBack   = "crash the applier on the way back"
)

// The weights say how often a kind comes up among the steps around the writes.
var (
	tending   = map[string]int{tick: 10, tickOne: 6, crashTick: 2, crashRead: 1, rotate: 2, prune: 3}
	copySteps = map[string]int{copyStep: 30, stopCopy: 1, freezeCopy: 1, thawCopy: 1}
	bounds    = map[string]int{begin: 9, beginRepeat: 3, commit: 13, rollback: 3, savepoint: 4, rollbackTo: 4, prepareTx: 1, finishTx: 1}
	weights   = together(tending, copySteps, bounds)
)

func together(all ...map[string]int) map[string]int {
	out := map[string]int{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

const sessions = 4

// newHistory makes the history of a number.
func newHistory(seed uint64, s shape) history {
	r := rand.New(rand.NewPCG(seed, 1))
	h := history{seed: seed, batch: []int{5, 20000, 2}[seed/12%3], pages: int64(1 + r.IntN(3)), load: loadSQL(r, s)}
	starts := r.IntN(25)
	for i := range 90 {
		if i == starts || i > starts && r.IntN(20) == 0 {
			h.steps = append(h.steps, step{kind: startCopy, a: r.IntN(2)})
		}
		if r.IntN(2) == 0 {
			h.steps = append(h.steps, pick(r, writeWeights, sessions))
		} else {
			h.steps = append(h.steps, pick(r, weights, sessions))
		}
	}
	if r.IntN(3) > 0 {
		return h
	}
	h.steps = append(h.steps, step{kind: switchOver})
	for range 40 {
		switch r.IntN(6) {
		case 0, 1:
			h.steps = append(h.steps, step{kind: back, who: r.IntN(4)})
		case 2:
			h.steps = append(h.steps, pick(r, map[string]int{crashBack: 1, rotate: 1, tick: 1, "plan": 1}, sessions))
		default:
			h.steps = append(h.steps, pick(r, backWeights, 1<<10))
		}
	}
	h.steps = append(h.steps, step{kind: giveBack})
	for range 12 {
		if r.IntN(3) == 0 {
			h.steps = append(h.steps, step{kind: tick})
		} else {
			h.steps = append(h.steps, pick(r, writeWeights, sessions))
		}
	}
	return h
}

// pick draws a kind by its weight, with numbers.
func pick(r *rand.Rand, weights map[string]int, whos int) step {
	total := 0
	for _, n := range weights {
		total += n
	}
	at := r.IntN(total)
	for _, kind := range ordered(weights) {
		if at -= weights[kind]; at < 0 {
			return step{kind: kind, who: r.IntN(whos), a: r.IntN(14), b: r.IntN(14), c: r.IntN(14)}
		}
	}
	panic("no kind")
}

// loadSQL makes the rows that are there before capture.
func loadSQL(r *rand.Rand, s shape) string {
	sql := ""
	for id := range 12 {
		slug := "NULL"
		if id < 6 {
			slug = fmt.Sprintf("'s%d'", id)
		}
		sql += fmt.Sprintf("INSERT INTO public.block VALUES (%d, %s, %s, repeat('.', 300));", id, key(r.IntN(14), s), slug)
		parent := r.IntN(12)
		if !s.enforced {
			parent = r.IntN(14)
		}
		sql += fmt.Sprintf("INSERT INTO public.comment VALUES (%d, %d, repeat('.', 300)); INSERT INTO public.reply VALUES (%[1]d, %[3]d, repeat('.', 300));", id, parent, r.IntN(12))
		sql += fmt.Sprintf("INSERT INTO public.event VALUES (%d, %d, %d, repeat('.', 300));", r.IntN(9), id, r.IntN(20))
	}
	return sql + "INSERT INTO public.plan SELECT g, 'p' || g FROM generate_series(0, 5) g"
}

// key is a shard key, NULL now and then where a row may have none.
func key(n int, s shape) string {
	if n == 13 && !s.enforced {
		return "NULL"
	}
	return fmt.Sprint(n % 9)
}
