package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind of a fault.
type kind string

const (
	killed      kind = "kill"
	stopped     kind = "stop"
	sourceDown  kind = "source_crash"
	baseDown    kind = "database_crash"
	poolerDown  kind = "pooler_kill"
	failover    kind = "failover"
	cutOff      kind = "connections_cut"
	halfOpen    kind = "half_open"
	slow        kind = "delay"
	commitCut   kind = "cut_after_commit"
	diskFull    kind = "disk_full"
	second      kind = "second_operator"
	longRunning kind = "long_transaction"
	ddl         kind = "ddl"
	hostile     kind = "hostile_settings"
)

// stage of a seed, in which faults fall.
type stage string

const (
	copying  stage = "copy" // catchup and backfill
	checking stage = "verify"
	over     stage = "cutover"
	served   stage = "catchup" // in reverse
	back     stage = "rollback"
	again    stage = "cutover again"
)

// kinds lists every kind but failover, which has seeds of its own, with the stages that it may
// fall in. They are taken in turn.
var kinds = []struct {
	kind   kind
	stages []stage
}{
	{killed, []stage{copying, copying, checking, over, over, served, back, back, again}},
	{sourceDown, []stage{copying, copying, checking, over, served, back, again}},
	{cutOff, []stage{copying, checking, over, served, back}},
	{commitCut, []stage{copying, over, back, served}},
	{stopped, []stage{copying, checking, over, served, back, again}},
	{baseDown, []stage{copying, copying, checking, over, served, back, again}},
	{ddl, []stage{copying}},
	{halfOpen, []stage{copying, over, served, back}},
	{poolerDown, []stage{over, back, again, copying}},
	{second, []stage{copying, checking, over, back}},
	{hostile, []stage{copying}},
	{diskFull, []stage{copying}},
	{longRunning, []stage{copying, over, back}},
	{slow, []stage{copying, checking, over, back}},
}

// kindsOnly lists what is taken in turn.
func kindsOnly() (all []kind) {
	for _, k := range kinds {
		all = append(all, k.kind)
	}
	return all
}

const (
	inTurn    = 3 // kinds that a seed takes in turn
	extras    = 3 // and at random, less than
	failEvery = 7 // of so many seeds one fails the source over
)

// Bounds of a seed's load and work.
const (
	copyRate     = 9_000 // rows a second: the copy lasts long enough to be hit
	maxPause     = 4 * time.Second
	leastWrites  = 2_000 // acknowledged, of every seed
	stageWrites  = 250   // while a side serves
	stuckAfter   = 2 * time.Minute
	followWithin = time.Minute
)

// fault is one that is to come.
type fault struct {
	kind  kind
	stage stage
}

func (f fault) String() string { return fmt.Sprintf("%s in %s", f.kind, f.stage) }

// plan of a seed.
type plan struct {
	seed     uint64
	failover bool
	late     bool // fails over after the cutover
	back     bool // rolls back after the cutover; before a failover: the copy is whole
	again    bool // and cuts over again
	partly   bool // switches one database before the others
	faults   []fault
}

// planOf decides a seed's plan, by the seed alone.
func planOf(seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 4711))
	p := plan{seed: seed, failover: seed%failEvery == failEvery-1, back: random.IntN(3) > 0}
	p.again = p.back && random.IntN(2) > 0
	if p.failover {
		p.late = seed/failEvery%2 > 0
	}
	p.partly = random.IntN(3) == 0
	n := len(kinds)
	for i := range inTurn {
		p.add(random, (int(seed%uint64(n))*inTurn+i)%n)
	}
	p.add(random, 0) // each kills a command
	for range random.IntN(extras) {
		p.add(random, random.IntN(n))
	}
	if p.failover {
		p.faults = slices.DeleteFunc(p.faults, func(f fault) bool {
			return f.kind == hostile || f.kind == ddl || f.kind == diskFull || f.stage != copying
		})
	}
	return p
}

// add puts a fault into a stage that the seed has.
func (p *plan) add(random *rand.Rand, i int) {
	k := kinds[i]
	once := k.kind == ddl || k.kind == hostile || k.kind == diskFull
	stages := slices.DeleteFunc(slices.Clone(k.stages), func(s stage) bool { return !p.plays(s) })
	if once && (p.has(k.kind) || p.failover) || len(stages) == 0 {
		return
	}
	p.faults = append(p.faults, fault{k.kind, stages[random.IntN(len(stages))]})
}

// plays reports whether the seed has a stage.
func (p plan) plays(s stage) bool {
	switch {
	case p.failover: // its end comes with the copy, or right after it
		return s == copying
	case s == back:
		return p.back
	case s == again:
		return p.again
	}
	return true
}

func (p plan) has(k kind) bool {
	return slices.ContainsFunc(p.faults, func(f fault) bool { return f.kind == k })
}

func (p plan) String() string {
	var words []string
	for _, f := range p.faults {
		words = append(words, f.String())
	}
	way := "forward"
	switch {
	case p.late:
		way = "failover after the cutover"
	case p.failover && p.back:
		way = "failover after the copy"
	case p.failover:
		way = "failover"
	case p.again:
		way = "forward, back, forward"
	case p.back:
		way = "forward, back"
	}
	if p.partly {
		way += ", one database first"
	}
	return fmt.Sprintf("%s: %s", way, strings.Join(words, ", "))
}
