package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/proposal"
	"github.com/shardctl/shardctl/migrate"
)

type initOptions struct {
	Source  string
	Key     string
	Schemas []string
	Force   bool
}

func newInit(a *app) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a commented spec from the source's catalog",
		Long: help(`Reads the source's catalog and statistics, no rows, and writes a spec to the file that
--file names: the key by which most tables can be spread, which tables have it themselves,
which find it through their parent, which small ones every database gets whole, and as a
comment what cannot be migrated and why. What is for the operator to decide has a default
that works. Addresses and passwords are not written: the spec names variables. A file that
exists is replaced with --force only. Set SHARDCTL_SOURCE to keep the DSN out of process lists.`,
			`  shardctl init --source "$SOURCE_DSN"
  SHARDCTL_SOURCE=postgres://… shardctl init --schema public --schema billing
  shardctl init --source "$SOURCE_DSN" --key workspace_id --file blocks.yaml --force`, "4"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Source, "source", "", "DSN of the source, read for this command only")
	f.StringVar(&o.Key, "key", "", "the column that decides the shard (default: the one that most tables can use)")
	namesVar(f, &o.Schemas, "schema", "only tables of this schema; repeats (default: all of the application's)")
	f.BoolVar(&o.Force, "force", false, "replace the file if it exists")
	return cmd
}

// initDocument is what init prints.
type initDocument struct {
	File      string               `json:"file"`
	Migration string               `json:"migration"`
	Key       proposal.Candidate   `json:"key"`
	Others    []proposal.Candidate `json:"other_keys"`
	Tables    []proposal.Choice    `json:"tables"`
	LeftOut   []proposal.LeftOut   `json:"left_out"`
	Variables []string             `json:"variables"`
	Next      string               `json:"next"`
}

func (a *app) init(ctx context.Context, o initOptions) error {
	if o.Source == "" {
		return migrate.Usage("usage.flag", "--source", "the source's DSN is missing", "give --source DSN, or set SHARDCTL_SOURCE")
	}
	if _, err := os.Lstat(a.File); err == nil && !o.Force {
		return fileExists(a.File)
	}
	conn, err := postgres.Connect(ctx, postgres.Target{Name: "source", DSN: migrate.Secret(o.Source)}, "init")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	found, err := proposal.Read(ctx, conn, o.Schemas)
	if err != nil {
		return err
	}
	p, err := proposal.Propose(found, o.Key)
	if err != nil {
		return err
	}
	if err := writeSpec(a.File, proposal.Render(p), o.Force); err != nil {
		return err
	}
	doc := initDocument{File: a.File, Migration: p.Migration, Key: p.Key, Others: p.Others, Tables: p.Tables, LeftOut: p.LeftOut,
		Variables: proposal.Variables, Next: "shardctl plan"}
	return a.print(doc, func(w io.Writer) { printInit(w, doc) })
}

func printInit(w io.Writer, d initDocument) {
	fmt.Fprintf(w, "%s written: migration %s, key %s (%s), %d tables\n", d.File, d.Migration, d.Key.Column, d.Key.Type, len(d.Tables))
	for _, l := range d.LeftOut {
		fmt.Fprintf(w, "  not migrated: %s %s\n", l.Name, l.Reason)
	}
	fmt.Fprintf(w, "read it, set")
	for _, v := range d.Variables {
		fmt.Fprintf(w, " %s", v)
	}
	fmt.Fprintf(w, ", then: %s\n", d.Next)
}

func fileExists(path string) error {
	return migrate.Usage("init.exists", path, "the file exists already", "name another one with --file, or replace it with --force")
}

// writeSpec writes a file as a whole or not at all. Without force it never replaces one,
// also not one that was made since we looked.
func writeSpec(path string, text []byte, force bool) error {
	unwritable := func(err error) error {
		var at *fs.PathError
		var link *os.LinkError
		switch { // the path is the object
		case errors.As(err, &at):
			err = at.Err
		case errors.As(err, &link):
			err = link.Err
		}
		return &migrate.Failure{Code: "init.unwritable", Object: path, Message: "cannot write the spec", Hint: "name a file that you may write with --file", Exit: migrate.ExitUsage, Err: err}
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return unwritable(err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already, once it was renamed
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return unwritable(err)
	}
	if force {
		if err := os.Rename(temporary.Name(), path); err != nil {
			return unwritable(err)
		}
		return nil
	}
	if err := os.Link(temporary.Name(), path); errors.Is(err, fs.ErrExist) {
		return fileExists(path)
	} else if err != nil {
		return unwritable(err)
	}
	return nil
}
