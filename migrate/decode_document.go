package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	// maxDocument bounds the time of the parser, which is quadratic. A thousand
	// tables take about a tenth of it.
	maxDocument = 512 << 10
	// maxNesting keeps the parser, which recurses, off the end of the stack.
	// A spec needs seven levels.
	maxNesting = 128
)

// parseDocument gives the one document of the file as a tree. Its failures say
// where, but quote nothing: the text may hold a password.
func parseDocument(name string, data []byte) (body ast.Node, failure *Failure) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if failure := unreadable(name, data); failure != nil {
		return nil, failure
	}
	defer func() {
		if recover() != nil { // a bug of the parser is the file's problem, not a crash
			body, failure = nil, Usage("spec.malformed", name, "the YAML cannot be parsed", "simplify it: plain block mappings and lists are enough")
		}
	}()
	file, err := parser.ParseBytes(hideVariables(data), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, malformed(name, err)
	}
	switch {
	case len(file.Docs) > 1:
		return nil, Usage("spec.several_documents", name, "the file holds more than one YAML document", "keep one migration a file and remove the --- lines")
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, Usage("spec.empty", name, "the file is empty", "write a spec with: shardctl init --source DSN")
	}
	return file.Docs[0].Body, nil
}

func unreadable(name string, data []byte) *Failure {
	switch {
	case len(data) > maxDocument:
		return Usage("spec.too_large", name, fmt.Sprintf("the file is larger than %d kB", maxDocument>>10), "split the migration")
	case !utf8.Valid(data):
		return Usage("spec.malformed", name, "the file is not UTF-8", "save it as UTF-8")
	case bytes.ContainsAny(data, "\x00"+variableMarks):
		return Usage("spec.malformed", name, "the file holds characters that are not text", "save it as plain text")
	case nestsTooDeep(data):
		return Usage("spec.malformed", name, fmt.Sprintf("the YAML nests deeper than %d levels", maxNesting), "")
	}
	return nil
}

// nestsTooDeep counts brackets, and the indentation that block style needs.
func nestsTooDeep(data []byte) bool {
	depth := 0
	for line := range bytes.Lines(data) {
		if len(line)-len(bytes.TrimLeft(line, " \t-?:")) > 2*maxNesting {
			return true
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxNesting {
				return true
			}
		}
	}
	return false
}

// malformed words a syntax error without the source that the parser excerpts.
func malformed(name string, err error) *Failure {
	message, object := "the YAML cannot be parsed", name
	var at yaml.Error
	if errors.As(err, &at) {
		// Only a message's fixed words are kept: what it quotes is from the file.
		words, _, quoted := strings.Cut(at.GetMessage(), `"`)
		if !quoted && words != "" {
			message = "the YAML cannot be parsed: " + words
		}
		if token := at.GetToken(); token != nil && token.Position != nil {
			object = fmt.Sprintf("line %d: %s", token.Position.Line, name)
		}
	}
	return Usage("spec.malformed", object, message, "check the indentation, colons and quotes there")
}
