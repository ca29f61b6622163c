package demo

import (
	"slices"
	"time"
)

// longest is the longest request that was under way between two moments, less the
// usual one: the pause as the clients saw it.
func (p *pauses) longest(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Duration
	var most time.Duration
	for _, s := range p.requests {
		took := s.end.Sub(s.start)
		all = append(all, took)
		if s.end.After(from) && s.start.Before(to) {
			most = max(most, took)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return max(most-all[len(all)/2], 0)
}
