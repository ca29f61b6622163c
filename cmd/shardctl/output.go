package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/shardctl/shardctl/migrate"
)

// errReported is an error whose document was printed already: only its exit code
// is left.
type reported struct{ error }

func (r reported) Unwrap() error { return r.error }

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// json prints one document.
func (a *app) json(doc any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

// print prints a result: the document with -o json, else the text.
func (a *app) print(doc any, text func(w io.Writer)) error {
	if a.Output == "json" {
		return a.json(doc)
	}
	text(a.out)
	return nil
}

// errorDocument is how an error looks with -o json.
type errorDocument struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Object  string `json:"object"`
	Hint    string `json:"hint"`
	Exit    int    `json:"exit"`
}

// printError prints an error once, as text on standard error or as the one
// document on standard output.
func (a *app) printError(err error) {
	var done reported
	if err == nil || errors.As(err, &done) {
		return
	}
	if a.Output != "json" {
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintln(a.err, "error: "+line)
		}
		return
	}
	all := documents(err)
	doc := map[string]any{"error": all[0]}
	if len(all) > 1 {
		doc["errors"] = all
	}
	_ = a.json(doc) // nothing is left to tell a broken standard output
}

func documents(err error) []errorDocument {
	var many migrate.Failures
	if errors.As(err, &many) && len(many) > 0 {
		out := make([]errorDocument, len(many))
		for i, f := range many {
			out[i] = document(f)
		}
		return out
	}
	var f *migrate.Failure
	if errors.As(err, &f) {
		d := document(f)
		if !errors.Is(f, err) { // context around the failure
			// The hint stands apart.
			d.Message = strings.Replace(err.Error(), " ("+f.Hint+")", "", 1)
		}
		return []errorDocument{d}
	}
	return []errorDocument{{Code: "error", Message: err.Error(), Exit: migrate.ExitCode(err)}}
}

func document(f *migrate.Failure) errorDocument {
	d := errorDocument{Code: f.Code, Message: f.Message, Object: f.Object, Hint: f.Hint, Exit: f.Exit}
	if f.Err != nil {
		d.Message += ": " + f.Err.Error()
	}
	return d
}

// confirm asks before something that cannot be taken back lightly. Off a terminal
// --yes is needed.
func (a *app) confirm(command, question string) error {
	if err := a.mayAsk(command); err != nil || a.Yes {
		return err
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(os.Stdin, &answer); err != nil || !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return migrate.Usage("usage.declined", "shardctl "+command, "not confirmed, nothing done", "")
	}
	return nil
}

// mayAsk refuses a command that would have to ask where nobody can answer.
func (a *app) mayAsk(command string) error {
	if a.Yes || isTerminal(os.Stdin) && isTerminal(os.Stdout) {
		return nil
	}
	return migrate.Usage("usage.confirm", "shardctl "+command, "not a terminal, so it cannot ask", "add --yes")
}

// isDeclined reports whether somebody was asked and said no.
func isDeclined(err error) bool {
	var f *migrate.Failure
	return errors.As(err, &f) && f.Code == "usage.declined"
}

// help makes a command's long text: what it does, examples, exit status.
func help(text, examples string, codes ...string) string {
	return text + "\n\nEXAMPLES\n" + examples + "\n\nEXIT STATUS\n" + exitStatus(codes)
}

var exitMeanings = []struct {
	code    string
	meaning string
}{
	{"0", "done, or nothing to do"},
	{"1", "cannot connect, authenticate, read or write"},
	{"3", "differences found"},
	{"4", "refused by a gate, a preflight finding or the order of phases"},
	{"5", "another process holds the lease"},
	{"6", "the outcome is ambiguous, a person must look"},
	{"7", "aborted in time, traffic is where it was"},
	{"64", "usage, spec or an unset variable"},
	{"130", "stopped by INT or TERM, state saved"},
}

// exitStatus lists the codes every command has and the given ones.
func exitStatus(extra []string) string {
	var b strings.Builder
	for _, m := range exitMeanings {
		common := m.code == "0" || m.code == "1" || m.code == "64" || m.code == "130"
		if common || strings.Contains(" "+strings.Join(extra, " ")+" ", " "+m.code+" ") {
			fmt.Fprintf(&b, "  %-4s %s\n", m.code, m.meaning)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
