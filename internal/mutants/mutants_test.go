package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheListFitsTheCode(t *testing.T) {
	if err := fits("../..", all()); err != nil {
		t.Error(err)
	}
	for _, g := range append(all(), noOp) {
		if g.name == "" || g.why == "" || slices.ContainsFunc(g.edits(), func(e edit) bool { return e.old == e.new }) {
			t.Errorf("an entry that says nothing: %+v", g)
		}
	}
}

func TestAPatchThatDoesNotFitIsNamed(t *testing.T) {
	g := noOp
	for _, old := range []string{"no such text", "Secret"} {
		g.name, g.old = "mine", old
		if err := fits("../..", []guard{g}); err == nil || !strings.Contains(err.Error(), "mine: its text stands") {
			t.Errorf("%q: %v", old, err)
		}
	}
	g = noOp
	g.name, g.test = "mine", "TestThatIsNotThere/sub"
	if err := fits("../..", []guard{g}); err == nil || !strings.Contains(err.Error(), "there is no TestThatIsNotThere") {
		t.Errorf("a test that is not there: %v", err)
	}
}

func TestASampleIsDrawnByItsSeed(t *testing.T) {
	names := func(c choice) string {
		chosen, err := c.of(all())
		if err != nil || len(chosen) != 3 {
			t.Fatalf("%v, %v", chosen, err)
		}
		var out []string
		for _, g := range chosen {
			if g.slow {
				t.Errorf("%s is slow", g.name)
			}
			out = append(out, g.name)
		}
		return strings.Join(out, ", ")
	}
	if a, b := names(choice{sample: 3, seed: 7}), names(choice{sample: 3, seed: 7}); a != b {
		t.Errorf("%s, then %s", a, b)
	}
	if a, b := names(choice{sample: 3, seed: 7}), names(choice{sample: 3, seed: 8}); a == b {
		t.Errorf("another seed draws %s too", a)
	}
	if _, err := (choice{only: "no guard is called so"}).of(all()); err == nil {
		t.Error("none is as good as all")
	}
}

func TestOnlyTheNamedTestKills(t *testing.T) {
	g := guard{test: "TestA/b"}
	for _, c := range []struct {
		name, output string
		passed, cut  bool
		want         outcome
	}{
		{name: "passed", output: "--- PASS: TestA (1s)\n    --- PASS: TestA/b (1s)\nPASS\n", passed: true, want: survived},
		{name: "failed", output: "--- FAIL: TestA (1s)\n    --- FAIL: TestA/b (1s)\nFAIL\n", want: killed},
		{name: "another failed", output: "--- FAIL: TestA (1s)\n    --- PASS: TestA/b (1s)\n    --- FAIL: TestA/bb (1s)\nFAIL\n", want: failed},
		{name: "its parent failed", output: "--- FAIL: TestA (1s)\nFAIL\n", want: failed},
		{name: "it does not exist", output: "--- PASS: TestA (1s)\nPASS\n", passed: true, want: failed},
		{name: "skipped", output: "--- PASS: TestA (1s)\n    --- SKIP: TestA/b (1s)\nPASS\n", passed: true, want: failed},
		{name: "hung", output: "panic: test timed out after 2m0s\n", want: killed},
		{name: "hung past its timeout", output: "=== RUN TestA\n", cut: true, want: failed},
		{name: "another goroutine panicked", output: "panic: nil map\n", want: failed},
		{name: "the program failed after it", output: "--- PASS: TestA (1s)\n    --- PASS: TestA/b (1s)\nPASS\nleaked\n", want: failed},
	} {
		if got := judge(g, ending{output: c.output, passed: c.passed, cut: c.cut}); got.outcome != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestTheReportFailsForSurvivors(t *testing.T) {
	var out strings.Builder
	r := report{out: &out}
	r.take(guard{name: "a"}, verdict{outcome: killed})
	r.take(noOp, verdict{outcome: survived})
	if err := r.end(); err != nil || !strings.HasSuffix(out.String(), `{"guards":1,"killed":1,"survived":[]}`+"\n") {
		t.Errorf("%v: %s", err, out.String())
	}
	r.take(guard{name: "b", why: "rows would be lost"}, verdict{outcome: survived})
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "rows would be lost") || !strings.HasSuffix(out.String(), `{"guards":2,"killed":1,"survived":["b"]}`+"\n") {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, bad := range []func(*report){
		func(r *report) { r.take(guard{name: "c"}, verdict{outcome: failed}) },
		func(r *report) { r.take(noOp, verdict{outcome: killed}) },
	} {
		r := report{out: &out}
		bad(&r)
		if r.end() == nil {
			t.Error("what cannot be told is good enough")
		}
	}
}

// A small module stands for the program: its copy is mutated, it is not.
func TestAMutantIsMadeInACopy(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{
		"go.mod": "module small\n\ngo 1.26\n",
		"sum.go": "package small\n\nfunc sum(a, b int) int {\n\treturn a + b\n}\n",
		"sum_test.go": "package small\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif sum(1, 2) != 3 {\n\t\tt.Error(\"no sum\")\n\t}\n}\n" +
			"\nfunc TestNothing(t *testing.T) {\n\t_ = sum(1, 2)\n}\n",
	}
	var errs []error
	for name, content := range files {
		errs = append(errs, os.WriteFile(root+"/"+name, []byte(content), 0o644))
	}
	errs = append(errs, os.Mkdir(root+"/.git", 0o755), os.WriteFile(root+"/.git/config", nil, 0o644))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	b, err := newBench(root, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if _, err := os.Stat(b.module() + "/.git"); err == nil {
		t.Error("what git keeps was copied")
	}
	for _, c := range []struct {
		name, new, test string
		want            outcome
		note            string
	}{
		{"caught", "return a - b", "TestSum", killed, "failed"},
		{"missed", "return a - b", "TestNothing", survived, "passed"},
		{"hung", "for {\n\t}", "TestSum", killed, "hung until its own timeout"},
		{"wrong", "return a & nil", "TestSum", failed, "does not compile"},
		{"put back", "return b + a", "TestSum", survived, "passed"},
	} {
		g := guard{name: c.name, file: "sum.go", old: "return a + b", new: c.new, test: c.test}
		if _, err := b.green(t.Context(), []guard{g}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if v, err := b.mutate(t.Context(), g); err != nil || v.outcome != c.want || v.note != c.note {
			t.Errorf("%s: %s, %v\n%s", c.name, v, err, v.output)
		}
	}
	if content, err := os.ReadFile(root + "/sum.go"); err != nil || string(content) != files["sum.go"] {
		t.Errorf("the module itself was changed: %v", err)
	}
}
