package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/migrate"
)

// orders are what a switch tells its watchdog through its standard input: the
// spec's text and the variables it uses, so that no secret is in an argument.
type orders struct {
	File      string            `json:"file"`
	Spec      string            `json:"spec"`
	Variables map[string]string `json:"variables"`
	Direction cutover.Direction `json:"direction"`
	Databases []string          `json:"databases"`
	MaxPause  time.Duration     `json:"max_pause"`
}

func newWatchdog(a *app) *cobra.Command {
	var ordered bool
	cmd := &cobra.Command{
		Use:   "watchdog",
		Short: "Release the routers if a switch or its host dies in the window",
		Long: help(`Runs on another host, such as a pooler's, beside all switches of a migration, until it is
stopped. Where a switch holds the routers and its command is gone, or does not come to an
end, it raises the term, and then undoes and releases, or finishes, as the source's
ownership says. Each switch also starts one of its own beside itself, which acts at once
where only the command dies; this one covers the loss of the host that both run on.`,
			`  shardctl watchdog -f shardctl.yaml`, "6"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !ordered {
				return a.watchBeside(cmd.Context())
			}
			// The terminal's signals are meant for the command, not for what guards it.
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			return a.guard(context.WithoutCancel(cmd.Context()), os.Stdin)
		},
	}
	cmd.Flags().BoolVar(&ordered, "ordered", false, "guard one window, with orders on standard input")
	_ = cmd.Flags().MarkHidden("ordered") // it exists
	return cmd
}

// watchBeside waits for windows whose command and watchdog died.
func (a *app) watchBeside(ctx context.Context) error {
	s, err := a.open(ctx, "watchdog")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if s.migration == nil {
		return s.require("watchdog")
	}
	cfg, closeRouters, err := s.guardConfig(ctx)
	defer closeRouters()
	if err != nil {
		return err
	}
	s.log.Info().Msg("watchdog waits")
	return cutover.Beside(ctx, cfg, func(r cutover.Released) {
		s.log.Warn().Str("command", r.Command).Strs("databases", r.Databases).Dur("held", r.Held).Err(r.Err).Msg("watchdog has ended the window")
	})
}

// guardConfig is what the guard of a window needs. The function that comes back closes its
// routers, also after an error.
func (s *session) guardConfig(ctx context.Context) (cutover.Config, func(), error) {
	l, err := s.layout(ctx)
	if err != nil {
		return cutover.Config{}, func() {}, err
	}
	routers, closeRouters, err := s.routers(ctx)
	return cutover.Config{Layout: l, Source: s.sourceTarget(), Databases: s.databaseTargets(), MaxPause: s.spec.Cutover.MaxPause, Routers: routers}, closeRouters, err
}

func (a *app) guard(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return migrate.Usage("watchdog.orders", "", "no orders on standard input", "it is started by shardctl cutover and rollback")
	}
	var o orders
	if err := json.Unmarshal(line, &o); err != nil {
		return migrate.Usage("watchdog.orders", "", "the orders cannot be read", "it is started by shardctl cutover and rollback")
	}
	spec, err := migrate.Decode(o.File, []byte(o.Spec), func(name string) (string, bool) {
		v, set := o.Variables[name]
		return v, set
	})
	if err != nil {
		return err
	}
	s, err := a.openSpec(ctx, spec, "watchdog")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	cfg, closeRouters, err := s.guardConfig(ctx)
	defer closeRouters()
	if err != nil {
		return err
	}
	cfg.Only, cfg.MaxPause = o.Databases, o.MaxPause
	acted, err := cutover.Guard(ctx, cfg, o.Direction, in, a.out)
	if acted {
		a.log.Warn().Err(err).Msg("watchdog has ended the window")
	}
	return err
}

// startWatchdog starts the guard of one window, in a session of its own: the
// terminal's signals do not reach it, and it outlives this process.
func (s *session) startWatchdog(ctx context.Context, w cutover.Watch) (cutover.Watchdog, error) {
	raw, err := s.orders(w)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	cmd := exec.Command(self, "watchdog", "--ordered", "--log-level", "warn", "--log-format", s.LogFormat) // not CommandContext: it outlives us
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "SHARDCTL_OUTPUT=text", "SHARDCTL_PPROF=")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	if _, err := fmt.Fprintf(in, "%s\n", raw); err != nil {
		return nil, fmt.Errorf("give the watchdog its orders: %w", err)
	}
	guard, err := cutover.NewGuarded(ctx, w, in, out)
	if err != nil {
		return nil, err
	}
	return &reaped{Guarded: guard, cmd: cmd}, nil
}

// reaped waits for the watchdog's process once it is disarmed.
type reaped struct {
	*cutover.Guarded
	cmd *exec.Cmd
}

// Disarm ends the guard and its process.
func (r *reaped) Disarm(ctx context.Context) error {
	if err := r.Guarded.Disarm(ctx); err != nil {
		return err
	}
	_ = r.cmd.Wait() // it says itself what it could not do; one that was killed did nothing
	return nil
}

func (s *session) orders(w cutover.Watch) ([]byte, error) {
	text, err := os.ReadFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("read the spec for the watchdog: %w", err)
	}
	o := orders{File: s.File, Spec: string(text), Variables: map[string]string{}, Direction: w.Direction, Databases: w.Databases, MaxPause: w.Deadline}
	// Decoding once more tells which variables the spec uses.
	if _, err := migrate.Decode(s.File, text, func(name string) (string, bool) {
		v, set := os.LookupEnv(name)
		if set {
			o.Variables[name] = v
		}
		return v, set
	}); err != nil {
		return nil, err
	}
	return json.Marshal(o)
}
