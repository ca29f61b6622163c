package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// draft is a file that is to replace another one. Beginning it ends all others: of two
// that are under way the one that began last can still replace the file, and it read what
// there was after the other one could not any more. A writer that wakes up late therefore
// puts nothing old over what is new, whether it holds the lock or not.
type draft struct {
	path string
	file *os.File
}

// errOutrun says that another writer has begun since: what was read may be old.
var errOutrun = errors.New("another process writes it too")

// begin makes a draft beside the file, and removes what others have there.
func begin(path string) (*draft, error) {
	dir, name := filepath.Split(path)
	file, err := os.CreateTemp(filepath.Clean(dir), "."+name+".shardctl.*.tmp")
	if err != nil {
		return nil, err
	}
	d := &draft{path: path, file: file}
	entries, err := os.ReadDir(filepath.Clean(dir))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+name+".shardctl.") && strings.HasSuffix(e.Name(), ".tmp") && e.Name() != filepath.Base(file.Name()) {
			err = errors.Join(err, ignoreMissing(os.Remove(filepath.Join(dir, e.Name()))))
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.discard())
	}
	return d, nil
}

// discard removes the draft, if it was not outrun.
func (d *draft) discard() error {
	return errors.Join(ignoreClosed(d.file.Close()), ignoreMissing(os.Remove(d.file.Name())))
}

// replace writes the draft, makes it durable, gives it the file's owner and mode, and
// renames it over it. One that was outrun is errOutrun, and changes nothing.
func (d *draft) replace(content []byte) error {
	if err := d.write(content); err != nil {
		return errors.Join(err, d.discard())
	}
	err := os.Rename(d.file.Name(), d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", d.path, errOutrun)
	}
	if err != nil {
		return errors.Join(err, d.discard())
	}
	return syncFolder(filepath.Dir(d.path))
}

func (d *draft) write(content []byte) error {
	if _, err := d.file.Write(content); err != nil {
		return err
	}
	if err := dressLike(d.file, d.path); err != nil {
		return err
	}
	if err := d.file.Sync(); err != nil {
		return err
	}
	return d.file.Close()
}

// dressLike gives a file the owner and mode of the one that it will replace. The
// owner first: a change of owner takes set-id bits away.
func dressLike(file *os.File, path string) error {
	like, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file.Chmod(0o644)
	}
	if err != nil {
		return err
	}
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: owner is not known", path)
	}
	if err := file.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("keep the owner of %s: run as that user, or as root: %w", path, err)
	}
	return file.Chmod(like.Mode())
}

// syncFolder makes the rename durable.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
