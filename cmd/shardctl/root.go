package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardctl/shardctl/migrate"
)

// global are the flags that every command has.
type global struct {
	File       string
	Output     string
	LogFormat  string
	LogLevel   string
	NoProgress bool
	Yes        bool
	Pprof      string
}

// app is what every command is given.
type app struct {
	global
	out io.Writer // results
	err io.Writer // logs and progress
	log zerolog.Logger
}

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{out: stdout, err: stderr, log: zerolog.Nop()}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if wantsJSON(args) {
		a.Output = "json" // also for the error of a command line that cannot be parsed
	}
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && migrate.ExitCode(err) == migrate.ExitError {
		err = stoppedBySignal(err)
	}
	a.printError(err)
	return migrate.ExitCode(err)
}

// stoppedBySignal is the end of a command that INT or TERM has stopped. One that has
// printed its document prints no second one.
func stoppedBySignal(err error) error {
	f := &migrate.Failure{Code: "interrupted", Message: "stopped, state saved", Hint: "run the command again to go on", Exit: migrate.ExitInterrupted}
	var done reported
	if errors.As(err, &done) {
		return reported{f}
	}
	return f
}

// wantsJSON looks for -o json, or its variable, without parsing the rest.
func wantsJSON(args []string) bool {
	wants := os.Getenv("SHARDCTL_OUTPUT") == "json"
	for i, arg := range args {
		switch {
		case arg == "--":
			return wants
		case arg == "-o" || arg == "--output":
			wants = i+1 < len(args) && args[i+1] == "json"
		case strings.HasPrefix(arg, "--output="), strings.HasPrefix(arg, "-o"):
			wants = slices.Contains([]string{"--output=json", "-ojson", "-o=json"}, arg)
		}
	}
	return wants
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "shardctl",
		Short: "Split a live PostgreSQL over several databases while the product keeps running",
		Long: `shardctl moves tables of a live PostgreSQL to several databases by hash of a key:
audit log, catch-up, backfill, verification, a timed cutover, and the way back.

  plan -> prepare -> install -> catchup || backfill -> verify -> cutover -> (rollback | complete)

Every command can be killed at any moment and simply run again.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "see shardctl --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + near[0] + "?"
			}
			return migrate.Usage("usage.command", args[0], "there is no such command", hint)
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.HiddenDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVarP(&a.File, "file", "f", "shardctl.yaml", "the spec")
	f.StringVarP(&a.Output, "output", "o", "text", "text or json")
	f.StringVar(&a.LogFormat, "log-format", "text", "text or json")
	f.StringVar(&a.LogLevel, "log-level", "warn", "trace, debug, info, warn or error")
	f.BoolVar(&a.NoProgress, "no-progress", false, "no progress bar")
	f.StringVar(&a.Pprof, "pprof", "", "serve Go's profiler on this address of this machine")
	f.BoolVar(&a.Yes, "yes", false, "do not ask; needed off a terminal where a command asks")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.setUp(cmd) }
	root.SetFlagErrorFunc(flagFailure)
	for _, c := range commands(a) {
		root.AddCommand(c)
	}
	return root
}

// setUp applies SHARDCTL_<FLAG> where a flag was not given, checks the global
// flags and makes the logger.
func (a *app) setUp(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := variableOf(f.Name)
		value, set := os.LookupEnv(name)
		if f.Changed || !set || f.Name == "help" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			_, message := wording(err)
			errs = append(errs, migrate.Usage("usage.environment", name, message, "correct or unset the variable"))
			return
		}
		_ = cmd.Flags().SetAnnotation(f.Name, byVariable, []string{name}) // it exists
	})
	if a.Output != "text" && a.Output != "json" {
		bad := a.Output
		a.Output = "text"
		errs = append(errs, migrate.Usage("usage.flag", "--output", fmt.Sprintf("%q is neither text nor json", bad), ""))
	}
	if a.LogFormat != "text" && a.LogFormat != "json" {
		errs = append(errs, migrate.Usage("usage.flag", "--log-format", fmt.Sprintf("%q is neither text nor json", a.LogFormat), ""))
	}
	level, err := zerolog.ParseLevel(a.LogLevel)
	if err != nil {
		errs = append(errs, migrate.Usage("usage.flag", "--log-level", fmt.Sprintf("%q is no level", a.LogLevel), "trace, debug, info, warn or error"))
	}
	var w io.Writer = a.err
	if a.LogFormat == "text" {
		w = zerolog.ConsoleWriter{Out: a.err, NoColor: !isTerminal(a.err), TimeFormat: "15:04:05"}
	}
	a.log = zerolog.New(w).Level(level).With().Timestamp().Logger()
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return a.serveProfiles()
}

// commandNeedsNoArgs turns cobra's message into a usage failure.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return migrate.Usage("usage.argument", args[0], "unknown argument", "see "+cmd.CommandPath()+" --help")
}
