package blueprint

import "testing"

func TestSplitTrigger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ def, table, before, after string }{
		{`CREATE TRIGGER a BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION f()`, "public.t",
			`CREATE TRIGGER a BEFORE INSERT`, `FOR EACH ROW EXECUTE FUNCTION f()`},
		{`CREATE TRIGGER "x ON public.t " BEFORE UPDATE OF "on", " ON public.t ""y" ON public.t FOR EACH ROW WHEN ((new.a = ' ON public.t ''z')) EXECUTE FUNCTION f(' ON public.t ')`, "public.t",
			`CREATE TRIGGER "x ON public.t " BEFORE UPDATE OF "on", " ON public.t ""y"`, `FOR EACH ROW WHEN ((new.a = ' ON public.t ''z')) EXECUTE FUNCTION f(' ON public.t ')`},
		{`CREATE TRIGGER a BEFORE INSERT ON other.t FOR EACH ROW EXECUTE FUNCTION f()`, "public.t", "", ""},
	} {
		before, after, ok := splitTrigger(c.def, c.table)
		if ok != (c.before != "") || ok && (before != c.before || after != c.after) {
			t.Errorf("%s: %q, %q, %t", c.def, before, after, ok)
		}
	}
}
