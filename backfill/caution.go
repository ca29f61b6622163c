package backfill

// caution decides whether a part is compared with what a database has before it
// is copied. Without, an existing key is met by its index, which costs the whole
// part; with, every key is looked up. Both are right; which is cheaper depends on
// how much catch-up has written.
type caution struct {
	byTable map[int]*wary
}

type wary struct {
	parts  int // still to be compared
	streak int // how many to compare after the next conflict
}

// maxStreak bounds how long a table is looked at closely after a conflict.
const maxStreak = 64

func (c *caution) of(tableNo int) *wary {
	if c.byTable == nil {
		c.byTable = map[int]*wary{}
	}
	w := c.byTable[tableNo]
	if w == nil {
		w = &wary{streak: 1}
		c.byTable[tableNo] = w
	}
	return w
}

// look reports whether the next part is to be compared.
func (w *wary) look() bool { return w.parts > 0 }

// conflict takes note of an existing key that was not looked for.
func (w *wary) conflict() { w.parts, w.streak = w.streak, min(2*w.streak, maxStreak) }

// compared takes note of a comparison, and whether it found anything.
func (w *wary) compared(found bool) {
	switch {
	case found:
		w.parts = max(w.parts, w.streak)
	case w.parts > 0:
		if w.parts--; w.parts == 0 {
			w.streak = max(w.streak/2, 1)
		}
	}
}
