package migrate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

var (
	migrationName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)
	wholeNumber   = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
)

// wrongType reports a value of another kind than what the key takes. It never
// shows the value.
func (d *decoder) wrongType(n node, want string) {
	switch n.body.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.fail(n.place, "unsupported_yaml", "anchors, aliases, tags and merge keys are not supported", "write the values out")
	case nil, *ast.NullNode:
		d.fail(n.place, "no_value", "has no value", "give "+want)
	default:
		d.fail(n.place, "wrong_type", "must be "+want+", is "+kindOf(n.body), "")
	}
}

func kindOf(body ast.Node) string {
	switch body.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	default:
		return "a text"
	}
}

// written is the text of a string as it stands in the file.
func (d *decoder) written(n node) (string, bool) {
	switch body := n.body.(type) {
	case *ast.StringNode:
		return body.Value, true
	case *ast.LiteralNode:
		return body.Value.Value, true
	}
	return "", false
}

// text reads a string and expands its variables. What YAML takes for a number
// or a truth value is refused: 007, yes and 1e3 would lose their spelling.
func (d *decoder) text(n node) (string, bool) {
	raw, ok := d.written(n)
	if !ok {
		switch n.body.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.BoolNode:
			d.fail(n.place, "wrong_type", "must be a text, is "+kindOf(n.body), "put it in quotes")
		default:
			d.wrongType(n, "a text")
		}
		return "", false
	}
	text, ok := d.expand(n.place, raw)
	if ok && text == "" {
		d.fail(n.place, "no_value", "the text is empty", "give one, or remove the key")
		return "", false
	}
	return text, ok
}

// integer reads a whole number in decimal, which a variable may give.
func (d *decoder) integer(n node, least, most int, into *int) bool {
	text := ""
	if number, ok := n.body.(*ast.IntegerNode); ok {
		text = number.GetToken().Value
	} else if raw, ok := d.written(n); ok && holdsVariable(raw) {
		if text, ok = d.expand(n.place, raw); !ok {
			return false
		}
	} else {
		d.wrongType(n, "a whole number")
		return false
	}
	value, err := strconv.Atoi(text)
	if !wholeNumber.MatchString(text) || err != nil || value < least || value > most {
		if least == most {
			d.fail(n.place, "out_of_range", "must be "+strconv.Itoa(least), "")
		} else {
			d.fail(n.place, "out_of_range", "must be a whole number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most), "")
		}
		return false
	}
	*into = value
	return true
}

// boolean reads true or false.
func (d *decoder) boolean(n node, into *bool) bool {
	b, ok := n.body.(*ast.BoolNode)
	if !ok {
		d.wrongType(n, "true or false")
		return false
	}
	*into = b.Value
	return true
}

// choice reads one of a few words.
func (d *decoder) choice(n node, into *string, words ...string) bool {
	text, ok := d.text(n)
	if !ok {
		return false
	}
	if !slices.Contains(words, text) {
		hint := ""
		if near := nearest(text, words); near != "" {
			hint = "did you mean " + near + "?"
		}
		d.fail(n.place, "bad_value", "must be "+strings.Join(words, " or "), hint)
		return false
	}
	*into = text
	return true
}

// identifier reads the exact name of a column, table or the like.
func (d *decoder) identifier(n node, into *string) bool {
	text, ok := d.text(n)
	if !ok {
		return false
	}
	if err := CheckIdentifier(text); err != nil {
		d.fail(n.place, "bad_name", err.Error(), "")
		return false
	}
	*into = text
	return true
}
