package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// report prints as it goes, and counts.
type report struct {
	out      io.Writer
	Guards   int      `json:"guards"`
	Killed   int      `json:"killed"`
	Survived []string `json:"survived"`
	errs     []error
}

func (r *report) take(g guard, v verdict) {
	fmt.Fprintf(r.out, "%s -> %s %s: %s\n", g.name, g.pkg, g.test, v)
	if g.name == noOp.name {
		if v.outcome != survived {
			r.errs = append(r.errs, fmt.Errorf("a patch that takes nothing away was not survived: %s\n%s", v, tail(v.output)))
		}
		return
	}
	r.Guards++
	switch v.outcome {
	case killed:
		r.Killed++
	case survived:
		r.Survived = append(r.Survived, g.name)
		r.errs = append(r.errs, fmt.Errorf("%s: no test turned red without it: %s", g.name, g.why))
	default:
		r.errs = append(r.errs, fmt.Errorf("%s: %s\n%s", g.name, v, tail(v.output)))
	}
}

// end prints the JSON line. The error names all that is not as it must be.
func (r *report) end() error {
	if r.Survived == nil {
		r.Survived = []string{}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s\n", line)
	return errors.Join(r.errs...)
}

// shown bounds what is shown of an output.
const shown = 3000

func tail(output string) string {
	if len(output) > shown {
		return "…" + output[len(output)-shown:]
	}
	return output
}
