package wholefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Change makes the new contents of the old ones, which are nil for a file that does
// not exist. Equal contents are not written.
type Change func(old []byte) ([]byte, error)

// File is a file on this host.
type File struct {
	path   string
	create bool
}

// New gives the file at a path. One that does not exist is an error, unless create
// is set: then reading it gives nothing and replacing it makes it, with mode 0644.
func New(path string, create bool) *File { return &File{path: path, create: create} }

// String gives the path.
func (f *File) String() string { return f.path }

// Read gives the contents.
func (f *File) Read(context.Context) ([]byte, error) {
	content, err := os.ReadFile(f.path)
	if f.create && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// Replace changes the file under its lock. The wait for the lock ends with ctx.
func (f *File) Replace(ctx context.Context, change Change) error {
	path, err := f.resolve()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, path+".shardctl.lock")
	if err != nil {
		return err
	}
	defer unlock()
	old, err := f.Read(ctx)
	if err != nil {
		return err
	}
	content, err := change(old)
	if err != nil || content == nil || bytes.Equal(content, old) && old != nil {
		return err
	}
	return replace(path, content)
}

// resolve follows links, so that the file itself is replaced and not a link to it.
func (f *File) resolve() (string, error) {
	path, err := filepath.EvalSymlinks(f.path)
	if f.create && errors.Is(err, fs.ErrNotExist) {
		return f.path, nil
	}
	return path, err
}

// lock waits for the lock file to be ours alone.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644) // readable: another user may have to wait for it too
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing gives the lock back
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: another process holds it: %w", path, ctx.Err()), file.Close())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// replace writes a temporary file beside the file, makes it durable, gives it the
// file's owner and mode, and renames it over it.
func replace(path string, content []byte) (err error) {
	dir, name := filepath.Split(path)
	temporary := filepath.Join(dir, "."+name+".shardctl.tmp") // one name: the lock is ours
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(file.Close()), ignoreMissing(os.Remove(temporary)))
		}
	}()
	if _, err := file.Write(content); err != nil {
		return err
	}
	if err := dressLike(file, path); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
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

// Writable proves that the file could be replaced, by doing it with what it holds; one
// that does not exist yet is made and removed again.
func (f *File) Writable(ctx context.Context) error {
	path, err := f.resolve()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, path+".shardctl.lock")
	if err != nil {
		return err
	}
	defer unlock()
	content, err := f.Read(ctx)
	if err != nil {
		return err
	}
	if err := replace(path, content); err != nil || content != nil {
		return err
	}
	return os.Remove(path)
}
