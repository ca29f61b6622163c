package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardctl/shardctl/migrate"
)

// What flags may be. A value outside is a slip of the unit or of a script, and must not be
// taken for one that was not given.
const (
	// leastLag is what an idle catchup can reach: it looks every 20 to 200 ms.
	leastLag = 100 * time.Millisecond
	// mostWorkers is far past what a source has connections for.
	mostWorkers = 1024
	// mostRows bounds what is loaded, sampled or taken.
	mostRows = 1_000_000_000
)

// bounded is a flag's value that has to lie in a range. It refuses others wherever they
// come from, the command line or the environment.
type bounded[T cmp.Ordered] struct {
	into        *T
	least, most T
	kind        string // as help names it
	parse       func(string) (T, error)
	spell       func(T) string
}

// Set takes a value of the range.
func (b bounded[T]) Set(text string) error {
	value, err := b.parse(text)
	if err != nil {
		return err
	}
	if value < b.least || value > b.most {
		return unfit("must be from " + b.spell(b.least) + " to " + b.spell(b.most))
	}
	*b.into = value
	return nil
}

// String is the value, or nothing where it is the zero of a flag that was not given.
func (b bounded[T]) String() string {
	var zero T
	if b.into == nil || *b.into == zero {
		return ""
	}
	return b.spell(*b.into)
}

// Type is the kind.
func (b bounded[T]) Type() string { return b.kind }

// durationVar is a duration from least to most. Defaults to what into holds.
func durationVar(f *pflag.FlagSet, into *time.Duration, name string, least, most time.Duration, usage string) {
	parse := func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, unfit("must be a duration such as 500ms, 2s, 15m or 4h")
		}
		return d, nil
	}
	f.Var(bounded[time.Duration]{into: into, least: least, most: most, kind: "duration", parse: parse, spell: migrate.SpellDuration}, name, usage)
}

// numberVar is a whole number from least to most. Defaults to what into holds.
func numberVar(f *pflag.FlagSet, into *int, name string, least, most int, usage string) {
	parse := func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, unfit(fmt.Sprintf("must be a whole number from %d to %d", least, most))
		}
		return n, nil
	}
	f.Var(bounded[int]{into: into, least: least, most: most, kind: "int", parse: parse, spell: strconv.Itoa}, name, usage)
}

// names is a flag's list of names. An empty one, such as of a variable of the shell that is
// not set, is refused: without names a command means all there are.
type names struct {
	into  *[]string
	given *bool
}

// Set adds the names of a comma-separated text.
func (n names) Set(text string) error {
	more, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil || slices.ContainsFunc(more, func(name string) bool { return strings.TrimSpace(name) == "" }) {
		return unfit("must be a name, or names with commas between them")
	}
	if !*n.given {
		*n.given, *n.into = true, nil
	}
	*n.into = append(*n.into, more...)
	return nil
}

// String is the names.
func (n names) String() string {
	if n.into == nil {
		return ""
	}
	return strings.Join(*n.into, ",")
}

// Type is how help names it.
func (n names) Type() string { return "strings" }

// namesVar is a list of names. Defaults to none.
func namesVar(f *pflag.FlagSet, into *[]string, name, usage string) {
	f.Var(names{into: into, given: new(bool)}, name, usage)
}

// variableOf is the variable of the environment that stands for a flag.
func variableOf(flag string) string {
	return "SHARDCTL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// byVariable marks a flag that the environment has set.
const byVariable = "by variable"

// given is the name under which a flag was given, "" if it was not. A switch that is off
// was not.
func given(cmd *cobra.Command, name string) string {
	f := cmd.Flags().Lookup(name)
	switch {
	case f == nil || !f.Changed || f.Value.Type() == "bool" && f.Value.String() == "false":
		return ""
	case f.Annotations[byVariable] != nil:
		return variableOf(name)
	}
	return "--" + name
}

// apart refuses a flag beside others which it would leave without effect. A variable that
// only adjusts another action may rest: it is meant for every command.
func apart(cmd *cobra.Command, flag, why string, others ...string) error {
	one := given(cmd, flag)
	if one == "" {
		return nil
	}
	for _, name := range others {
		other := given(cmd, name)
		if name == flag || other == "" || other == variableOf(name) && cmd.Flags().Lookup(name).Value.Type() != "bool" {
			continue
		}
		return migrate.Usage("usage.flag", one+", "+other, "only one of them can be given", why)
	}
	return nil
}

// unfit is why a flag's value is refused.
type unfit string

func (u unfit) Error() string { return string(u) }

// wording is what to say of a flag that cannot be set, and which it is; "" where the message
// names it.
func wording(err error) (flag, message string) {
	var invalid *pflag.InvalidValueError
	var why unfit
	if !errors.As(err, &invalid) || !errors.As(err, &why) {
		return "", err.Error()
	}
	return "--" + invalid.GetFlag().Name, fmt.Sprintf("%s, not %q", why, invalid.GetValue())
}

// flagFailure is the usage failure of a command line that cannot be parsed.
func flagFailure(cmd *cobra.Command, err error) error {
	flag, message := wording(err)
	return migrate.Usage("usage.flag", flag, message, "see "+cmd.CommandPath()+" --help")
}
