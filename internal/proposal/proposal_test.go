package proposal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/preflight"
	"github.com/shardctl/shardctl/internal/proposal"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func read(t *testing.T, db *pgtest.Database, schemas ...string) *proposal.Source {
	t.Helper()
	conn, err := postgres.Connect(context.Background(), postgres.Target{Name: "source", DSN: migrate.Secret(db.DSN())}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.CloseQuietly(context.Background(), conn)
	found, err := proposal.Read(context.Background(), conn, schemas)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func propose(t *testing.T, db *pgtest.Database, key string, schemas ...string) *proposal.Proposal {
	t.Helper()
	p, err := proposal.Propose(read(t, db, schemas...), key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// choices words what was proposed, in order.
func choices(p *proposal.Proposal) string {
	var out []string
	for _, c := range p.Tables {
		word := c.Name.String() + "=" + c.Key
		switch {
		case c.Everywhere:
			word = c.Name.String() + "=*"
		case c.From != nil:
			word = c.Name.String() + "<" + c.From.String() + "." + c.Via
		}
		if c.As != "" {
			word += " as " + c.As
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

const product = `
CREATE TABLE workspace (id uuid PRIMARY KEY, name text NOT NULL);
CREATE TABLE plan (id int PRIMARY KEY, name text NOT NULL, version int NOT NULL);
CREATE TABLE block (id uuid PRIMARY KEY, workspace_id uuid NOT NULL REFERENCES workspace, plan_id int NOT NULL REFERENCES plan, body text, version int NOT NULL);
CREATE TABLE comment (id bigint PRIMARY KEY, block_id uuid NOT NULL REFERENCES block, body text NOT NULL, version int NOT NULL);
CREATE INDEX ON comment (block_id);
CREATE TABLE reaction (comment_id bigint REFERENCES comment, who uuid, PRIMARY KEY (comment_id, who));
CREATE TABLE member (workspace_id uuid REFERENCES workspace, who uuid, PRIMARY KEY (workspace_id, who)) PARTITION BY HASH (workspace_id);
CREATE TABLE member_0 PARTITION OF member FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE invoice (id int PRIMARY KEY, payer uuid REFERENCES workspace);
CREATE SCHEMA "Odd ""S";
CREATE TABLE "Odd ""S".block (id int PRIMARY KEY, workspace_id uuid NOT NULL);
CREATE TABLE "Odd ""S"."yes: {no}
x" ("workspace_id" uuid NOT NULL, id int PRIMARY KEY);
CREATE TABLE audit (at timestamptz, workspace_id uuid);
CREATE TABLE settings (name text PRIMARY KEY, value text);
CREATE TABLE dad (id int PRIMARY KEY);
CREATE TABLE kid (PRIMARY KEY (id)) INHERITS (dad);
CREATE VIEW blocks AS SELECT * FROM block;
ANALYZE;`

// sizes differ between versions of the server.
var sizes = regexp.MustCompile(`about \d+ rows?, \d+ k?B|rows not known before ANALYZE, \d+ k?B`)

func TestProposalOfAProduct(t *testing.T) {
	t.Parallel()
	dbs := pgtest.NewDatabases(t, 3)
	dbs[0].Exec(t, product)
	text := proposal.Render(propose(t, dbs[0], ""))
	if again := proposal.Render(propose(t, dbs[0], "")); string(again) != string(text) {
		t.Errorf("the same catalog gave another text:\n%s", again)
	}
	masked := strings.ReplaceAll(sizes.ReplaceAllString(string(text), "SIZE"), dbs[0].Name, "DATABASE")
	golden := filepath.Join("testdata", "product.yaml")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(masked), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if masked != string(want) {
		t.Errorf("proposed:\n%s", masked)
	}
	planHasNoErrors(t, text, dbs)
}

// planHasNoErrors decodes what was proposed, and plans it.
func planHasNoErrors(t *testing.T, text []byte, dbs []*pgtest.Database) {
	t.Helper()
	env := map[string]string{}
	for i, v := range proposal.Variables {
		env[v] = dbs[i].DSN()
	}
	spec, err := migrate.Decode("proposed.yaml", text, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatalf("what was proposed does not decode: %v\n%s", err, text)
	}
	found, survey, err := preflight.Run(context.Background(), spec)
	defer survey.Close(context.Background())
	if err != nil || survey.Layout == nil {
		t.Fatalf("plan: %v %v", err, found)
	}
	for _, f := range found {
		if f.Severity == migrate.SeverityError {
			t.Errorf("plan of what was proposed: %s %s: %s", f.ID, f.Object, f.Message)
		}
	}
}

func TestChoices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, sql, key, want string }{
		{"a shop: the customer reaches more tables than the product", `
			CREATE TABLE customer (id int PRIMARY KEY); CREATE TABLE product (id int PRIMARY KEY, status text NOT NULL);
			CREATE TABLE purchase (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, status text NOT NULL);
			CREATE TABLE item (id int PRIMARY KEY, purchase_id int NOT NULL REFERENCES purchase, product_id int NOT NULL REFERENCES product, status text NOT NULL);
			CREATE TABLE review (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, product_id int NOT NULL REFERENCES product, status text NOT NULL)`,
			"", "public.customer=id public.purchase=customer_id public.review=customer_id public.item<public.purchase.purchase_id public.product=*"},
		{"the same by the operator's key", `
			CREATE TABLE customer (id int PRIMARY KEY); CREATE TABLE product (id int PRIMARY KEY);
			CREATE TABLE purchase (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer);
			CREATE TABLE item (id int PRIMARY KEY, purchase_id int NOT NULL REFERENCES purchase, product_id int NOT NULL REFERENCES product)`,
			"product_id", "public.product=id public.item=product_id public.customer=* public.purchase=*"},
		{"keys by name alone, of one family", `
			CREATE TABLE a (id int PRIMARY KEY, tenant_id int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, tenant_id bigint NOT NULL);
			CREATE TABLE c (id int PRIMARY KEY, tenant_id text NOT NULL)`, "", "public.a=tenant_id public.b=tenant_id"},
		{"a column that may be NULL is the last resort", `
			CREATE TABLE a (id int PRIMARY KEY, tenant_id int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, a_id int NOT NULL REFERENCES a, tenant_id int);
			CREATE TABLE c (id int PRIMARY KEY, tenant_id int)`, "tenant_id", "public.a=tenant_id public.c=tenant_id public.b<public.a.a_id"},
		{"four parents and not five", `
			CREATE TABLE a (id int PRIMARY KEY, tenant_id int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, p int NOT NULL REFERENCES a);
			CREATE TABLE c (id int PRIMARY KEY, p int NOT NULL REFERENCES b); CREATE TABLE d (id int PRIMARY KEY, p int NOT NULL REFERENCES c);
			CREATE TABLE e (id int PRIMARY KEY, p int NOT NULL REFERENCES d); CREATE TABLE f (id int PRIMARY KEY, p int NOT NULL REFERENCES e)`,
			"tenant_id", "public.a=tenant_id public.b<public.a.p public.c<public.b.p public.d<public.c.p public.e<public.d.p"},
		{"one name for references to different tables is no key", `
			CREATE TABLE a (id int PRIMARY KEY, parent_id int REFERENCES a, tenant_id int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, parent_id int NOT NULL REFERENCES b, a_id int NOT NULL REFERENCES a);
			CREATE TABLE c (id int PRIMARY KEY, parent_id int NOT NULL REFERENCES c, a_id int NOT NULL REFERENCES a)`,
			"", "public.a=tenant_id public.b<public.a.a_id public.c<public.a.a_id"},
		{"a tree by its root where no name is shared", `
			CREATE TABLE site (name text PRIMARY KEY); CREATE TABLE page (n int PRIMARY KEY, site text REFERENCES site); CREATE TABLE other (n int PRIMARY KEY)`,
			"", "public.site=name public.page=site"},
		{"generated columns are no keys", `
			CREATE TABLE a (id int PRIMARY KEY, org_id int NOT NULL GENERATED ALWAYS AS (id / 10) STORED, team_id int NOT NULL);
			CREATE TABLE b (id int PRIMARY KEY, org_id int NOT NULL GENERATED ALWAYS AS (id / 10) STORED)`, "", "public.a=team_id"},
		{"few values are no key", `
			CREATE TABLE a (id int PRIMARY KEY, region_id int NOT NULL, tenant_id int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, region_id int NOT NULL);
			INSERT INTO a SELECT n, n % 5, n % 900 FROM generate_series(1, 5000) n; INSERT INTO b SELECT n, n % 5 FROM generate_series(1, 5000) n; ANALYZE`,
			"", "public.a=tenant_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewDatabase(t)
			db.Exec(t, c.sql)
			if got := choices(propose(t, db, c.key)); got != c.want {
				t.Errorf("proposed %s\nwant     %s", got, c.want)
			}
		})
	}
}

func TestSchemasAndWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, product)
	p := propose(t, db, "", "public")
	if strings.Contains(choices(p), "Odd") {
		t.Errorf("another schema's tables are proposed: %s", choices(p))
	}
	for name, reason := range map[string]string{
		"audit": "no primary key", "blocks": "is a view", "dad": "inherit", "kid": "belongs to", "settings": "no table that moves refers to it",
	} {
		i := slices.IndexFunc(p.LeftOut, func(l proposal.LeftOut) bool { return l.Name.Name == name })
		if i < 0 || !strings.Contains(p.LeftOut[i].Reason, reason) {
			t.Errorf("%s is not left out for %q: %v", name, reason, p.LeftOut)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql, key, code string
		exit                 int
	}{
		{"no table", "CREATE VIEW v AS SELECT 1 AS a", "", "init.no_table", migrate.ExitRefused},
		{"no key", "CREATE TABLE a (at timestamptz PRIMARY KEY)", "", "init.no_key", migrate.ExitRefused},
		{"no such column", "CREATE TABLE a (id int PRIMARY KEY, at timestamptz)", "at", "init.no_column", migrate.ExitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewDatabase(t)
			db.Exec(t, c.sql)
			_, err := proposal.Propose(read(t, db), c.key)
			var f *migrate.Failure
			if !errors.As(err, &f) || f.Code != c.code || f.Exit != c.exit || f.Hint == "" {
				t.Errorf("%v, want %s", err, c.code)
			}
		})
	}
}
