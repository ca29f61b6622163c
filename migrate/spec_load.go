package migrate

import (
	"errors"
	"io/fs"
	"os"
)

// Load reads and decodes the spec in a file, with the variables of the process.
func Load(path string) (*Spec, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Usage("spec.missing", path, "there is no spec", "write one with: shardctl init --source DSN, or name it with --file")
	case err != nil:
		// The path is the object: PathError would name it again.
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, &Failure{Code: "spec.unreadable", Object: path, Message: "cannot read the spec", Hint: "name a file that you may read with --file", Exit: ExitUsage, Err: err}
	}
	return Decode(path, data, os.LookupEnv)
}
