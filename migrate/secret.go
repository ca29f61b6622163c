package migrate

import (
	"fmt"
	"log/slog"
)

// Secret is a value that formats as "***"; Reveal gives it. It belongs in
// exported fields and never is the key of a map: fmt reads unexported fields, and
// encoding/json the string keys of maps, past every method.
type Secret string

// hidden is all that a secret ever shows. It is the same for an empty one, so
// that not even its presence can be read.
const hidden = "***"

// Reveal gives the value. Nothing that it returns may be printed or stored.
func (s Secret) Reveal() string { return string(s) }

// String hides the value.
func (Secret) String() string { return hidden }

// GoString hides the value from %#v.
func (Secret) GoString() string { return hidden }

// Format hides the value from every other verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText hides the value from encoders of text.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON hides the value.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalYAML hides the value.
func (Secret) MarshalYAML() (any, error) { return hidden, nil }

// LogValue hides the value from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
