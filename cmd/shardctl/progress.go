package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar is a progress bar on standard error; on anything but a terminal, and with
// --no-progress or -o json, it shows nothing.
type bar struct{ p *progressbar.ProgressBar }

func (a *app) bar(total int64, what string) *bar {
	if a.NoProgress || !isTerminal(a.err) {
		return &bar{}
	}
	return &bar{p: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("rows"), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())}
}

func (b *bar) set(n int64) {
	if b.p != nil {
		_ = b.p.Set64(n) // a bar past its end is no failure of the work
	}
}

func (b *bar) total(n int64) {
	if b.p != nil {
		b.p.ChangeMax64(n)
	}
}

func (b *bar) say(what string) {
	if b.p != nil {
		b.p.Describe(what)
	}
}

func (b *bar) finish() {
	if b.p != nil {
		_ = b.p.Finish()
	}
}
