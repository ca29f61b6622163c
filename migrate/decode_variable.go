package migrate

import (
	"regexp"
	"strings"
)

// Braces mean something to YAML, so that {dsn: ${NAME}} is no YAML at all. While
// it is parsed, those of a variable are replaced by characters that Unicode
// reserves for such use and that no text holds.
const (
	variableOpen  = "\ufdd0"
	variableClose = "\ufdd1"
	literalOpen   = "\ufdd2"
	literalClose  = "\ufdd3"
	variableMarks = variableOpen + variableClose + literalOpen + literalClose
)

var (
	// written is ${NAME}, or $${NAME} for these characters themselves.
	written      = regexp.MustCompile(`\$?\$\{[^{}\s"']*\}`)
	hiddenVar    = regexp.MustCompile(variableOpen + `([^` + variableClose + `]*)` + variableClose)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	shown        = strings.NewReplacer(variableOpen, "${", variableClose, "}", literalOpen, "$${", literalClose, "}")
	unescaped    = strings.NewReplacer(literalOpen, "${", literalClose, "}")
)

// hideVariables keeps the braces of variables from the parser.
func hideVariables(data []byte) []byte {
	return written.ReplaceAllFunc(data, func(match []byte) []byte {
		text := string(match)
		if inner, ok := strings.CutPrefix(text, "$${"); ok {
			return []byte(literalOpen + strings.TrimSuffix(inner, "}") + literalClose)
		}
		return []byte(variableOpen + text[2:len(text)-1] + variableClose)
	})
}

// expand puts the values of variables into a text. It reports what is not set.
func (d *decoder) expand(at place, text string) (string, bool) {
	ok := true
	expanded := hiddenVar.ReplaceAllStringFunc(text, func(match string) string {
		name := hiddenVar.FindStringSubmatch(match)[1]
		if !variableName.MatchString(name) {
			d.fail(at, "bad_variable", "a variable is written ${NAME}, with letters, digits and _ only", "write $${…} for these characters themselves")
			ok = false
			return ""
		}
		value, set := d.env(name)
		if !set {
			d.fail(at, "unset_variable", "the environment variable "+name+" is not set", "export it before running shardctl")
			ok = false
		}
		return value
	})
	if strings.Contains(text, "${") {
		d.fail(at, "bad_variable", "a variable is written ${NAME}, without blanks, quotes or defaults", "write $${…} for these characters themselves")
		return "", false
	}
	return unescaped.Replace(expanded), ok
}

// holdsVariable reports whether a text takes a part from the environment.
func holdsVariable(text string) bool { return strings.Contains(text, variableOpen) }

// harmlessText is what cannot be a DSN or a part of one.
var harmlessText = regexp.MustCompile(`^[\pL\pN_%${}.," -]{1,130}$`)

// show gives a text of the file as it was written, or *** where it might hold a
// DSN: an operator may have put one in the wrong place.
func show(text string) string {
	if text = shown.Replace(text); harmlessText.MatchString(text) {
		return text
	}
	return hidden
}
