package ddl

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Statement is one statement. Where it makes something that must be removed by
// name one day, Object says what and how; one that only changes an object of an
// earlier statement has no Object.
type Statement struct {
	SQL    string
	Object store.Object
}

// Alter is a statement that makes nothing that is removed by name.
func Alter(format string, args ...any) Statement {
	return Statement{SQL: fmt.Sprintf(format, args...)}
}

// Objects are the objects of statements, in order.
func Objects(statements []Statement) []store.Object {
	var out []store.Object
	for _, s := range statements {
		if s.Object.Kind != "" {
			out = append(out, s.Object)
		}
	}
	return out
}

// Script joins statements into one text.
func Script(statements []Statement) string {
	parts := make([]string, len(statements))
	for i, s := range statements {
		parts[i] = s.SQL
	}
	return strings.Join(parts, ";\n")
}

// Undo is the text that takes statements back, the last first.
func Undo(statements []Statement) string {
	var parts []string
	for i := len(statements) - 1; i >= 0; i-- {
		if undo := statements[i].Object.Undo; undo != "" {
			parts = append(parts, undo)
		}
	}
	return strings.Join(parts, ";\n")
}

// bodyTag quotes function bodies; it reads well in a plan.
const bodyTag = "$shardctl$"

// Body quotes a function's body.
func Body(body string) string {
	if strings.Contains(body, bodyTag) {
		return postgres.Literal(body)
	}
	return bodyTag + body + bodyTag
}

// TriggerFunction is a function of ours for triggers: it runs with the rights of
// its owner, whatever the writer may, and no search_path of the writer bends it.
// Row security would hide rows from it, so that it fails instead.
func TriggerFunction(migration, place, quotedName, body string) Statement {
	return Statement{
		SQL: fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET row_security = off AS %s`, quotedName, Body(body)),
		Object: store.Object{Migration: migration, Place: place, Kind: "function", Name: quotedName + "()",
			Undo: "DROP FUNCTION IF EXISTS " + quotedName + "()"},
	}
}
