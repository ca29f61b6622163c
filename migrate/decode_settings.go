package migrate

import (
	"math"
	"time"
)

// What holds where the spec says nothing.
const (
	defaultLogSoftLimit   = 10 << 30
	defaultLogHardLimit   = 50 << 30
	defaultMaxReplicaLag  = time.Second
	defaultMaxCatchupLag  = 30 * time.Second
	defaultMaxPause       = 2 * time.Second
	defaultVerifyMaxAge   = 24 * time.Hour
	defaultRollbackWindow = 4 * time.Hour
)

// What durations may be, in the spec and in flags.
const (
	// LongestDuration is what no one means to exceed: a slip of the unit.
	LongestDuration = 366 * 24 * time.Hour
	// LeastPause is a server's shortest timeout: less is none.
	LeastPause = time.Millisecond
	// LongestPause is far past any pause that clients sit out.
	LongestPause = time.Hour
)

// settings reads the sections that bound the work; all of them are optional.
func (d *decoder) settings(m *mapping, s *Spec) {
	s.Capture = Capture{Engine: "trigger", LogSoftLimit: defaultLogSoftLimit, LogHardLimit: defaultLogHardLimit}
	if n, ok := m.optional("capture"); ok {
		d.capture(n, &s.Capture)
	}
	s.Throttle = Throttle{MaxReplicaLag: defaultMaxReplicaLag, MaxCatchupLag: defaultMaxCatchupLag}
	if n, ok := m.optional("throttle"); ok {
		d.throttle(n, &s.Throttle)
	}
	if n, ok := m.optional("sequences"); ok {
		d.choice(n, &s.Sequences, "stride", "keep")
	}
	s.Cutover = CutoverSettings{MaxPause: defaultMaxPause, VerifyMaxAge: defaultVerifyMaxAge, RollbackWindow: defaultRollbackWindow}
	if n, ok := m.optional("cutover"); ok {
		d.cutover(n, &s.Cutover)
	}
	if n, ok := m.optional("complete"); ok {
		c := d.mapping(n)
		if n, ok := c.optional("everywhere_owner"); ok {
			d.choice(n, &s.Complete.EverywhereOwner, "source", "none")
		}
		c.done()
	}
}

func (d *decoder) capture(n node, c *Capture) {
	m := d.mapping(n)
	if n, ok := m.optional("engine"); ok && d.choice(n, &c.Engine, "trigger", "wal") && c.Engine == "wal" {
		d.fail(n.place, "not_supported", "engine wal is not supported yet", "use trigger")
	}
	at, ok := n.place, true
	if n, given := m.optional("log_soft_limit"); given {
		ok = d.size(n, &c.LogSoftLimit)
		at = n.place
	}
	if n, given := m.optional("log_hard_limit"); given {
		ok = d.size(n, &c.LogHardLimit) && ok
		at = n.place
	}
	if ok && c.LogSoftLimit > c.LogHardLimit {
		d.fail(at, "bad_limits", "log_soft_limit is more than log_hard_limit", "the backfill has to pause before capture stops")
	}
	m.done()
}

func (d *decoder) throttle(n node, t *Throttle) {
	m := d.mapping(n)
	if n, ok := m.optional("max_replica_lag"); ok {
		d.duration(n, 0, LongestDuration, &t.MaxReplicaLag)
	}
	if n, ok := m.optional("max_catchup_lag"); ok {
		d.duration(n, 0, LongestDuration, &t.MaxCatchupLag)
	}
	if n, ok := m.optional("max_source_active"); ok {
		d.integer(n, 0, math.MaxInt32, &t.MaxSourceActive)
	}
	if n, ok := m.optional("max_rate"); ok {
		d.integer(n, 0, math.MaxInt32, &t.MaxRate)
	}
	if n, ok := m.optional("schedule"); ok {
		d.schedule(n, &t.Schedule)
	}
	m.done()
}

// schedule reads hours, or an empty text for always.
func (d *decoder) schedule(n node, into *string) {
	if raw, ok := d.written(n); ok && raw == "" {
		return
	}
	text, ok := d.text(n)
	if !ok {
		return
	}
	if _, _, err := ParseSchedule(text); err != nil {
		d.fail(n.place, "bad_schedule", err.Error(), `write "22:00-06:00", in the local time of the source`)
		return
	}
	*into = text
}

func (d *decoder) cutover(n node, c *CutoverSettings) {
	m := d.mapping(n)
	if n, ok := m.optional("max_pause"); ok {
		d.duration(n, LeastPause, LongestPause, &c.MaxPause)
	}
	if n, ok := m.optional("verify_max_age"); ok {
		d.duration(n, time.Second, LongestDuration, &c.VerifyMaxAge)
	}
	if n, ok := m.optional("rollback_window"); ok {
		d.duration(n, 0, LongestDuration, &c.RollbackWindow)
	}
	m.done()
}
