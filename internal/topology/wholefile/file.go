package wholefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
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

// Replace changes the file under its lock. A writer that was stopped while it holds the
// lock keeps nobody waiting: after a moment the change is made without it, and the other
// one's, when it goes on, is made anew on top. So change may be called several times.
func (f *File) Replace(ctx context.Context, change Change) error {
	return f.alone(ctx, func(path string) error {
		d, err := begin(path)
		if err != nil {
			return err
		}
		old, err := f.Read(ctx)
		if err != nil {
			return errors.Join(err, d.discard())
		}
		content, err := change(old)
		if err != nil || content == nil || bytes.Equal(content, old) && old != nil {
			return errors.Join(err, d.discard())
		}
		return d.replace(content)
	})
}

// alone runs fn under the file's lock, again as long as another writer outran it.
func (f *File) alone(ctx context.Context, fn func(path string) error) error {
	path, err := f.resolve()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, path+".shardctl.lock")
	if err != nil {
		return err
	}
	defer unlock()
	for {
		start := time.Now()
		if err := fn(path); !errors.Is(err, errOutrun) {
			return err
		}
		// The one that outran us may be outrun by us in its turn: not for ever.
		if ended := sleep.For(ctx, rand.N(2*time.Since(start)+time.Millisecond)); ended != nil {
			return fmt.Errorf("write %s: %w: %w", path, errOutrun, ended)
		}
	}
}

// resolve follows links, so that the file itself is replaced and not a link to it.
func (f *File) resolve() (string, error) {
	path, err := filepath.EvalSymlinks(f.path)
	if f.create && errors.Is(err, fs.ErrNotExist) {
		return f.path, nil
	}
	return path, err
}

// lockWait is how long a writer may hold the lock: the read, the write and the fsync of
// a small file. Past it, it is waited for no longer.
const lockWait = 500 * time.Millisecond

// lock waits for the lock file to be ours alone, but not for one that was stopped: it
// spares living writers from outrunning each other, no more.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644) // readable: another user may have to wait for it too
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = file.Close() } // closing gives the lock back
	for start := time.Now(); time.Since(start) < lockWait; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if ended := sleep.For(ctx, 2*time.Millisecond); ended != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: another process holds it: %w", path, ended), file.Close())
		}
	}
	return unlock, nil
}

// Writable proves that the file could be replaced, by doing it with what it holds; one
// that does not exist yet is made and removed again.
func (f *File) Writable(ctx context.Context) error {
	return f.alone(ctx, func(path string) error {
		d, err := begin(path)
		if err != nil {
			return err
		}
		content, err := f.Read(ctx)
		if err != nil {
			return errors.Join(err, d.discard())
		}
		if err := d.replace(content); err != nil || content != nil {
			return err
		}
		return os.Remove(path)
	})
}
