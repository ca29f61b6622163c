package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	folderPrefix = "shardctl-local-"
	ownerLock    = "owner.lock"
	// maxFolder leaves room for a socket's name below the 104 bytes that macOS
	// allows for the path of a socket; Linux allows 108.
	maxFolder = 80
)

// Folder is a temporary place, of one server for example. As long as its owner lives
// it holds a file lock in it; a folder whose lock is free was left by a process that
// was killed, and the next one that is made sweeps it.
type Folder struct {
	path string
	lock *os.File
}

// NewFolder makes a folder of the current user.
func NewFolder() (*Folder, error) { return newFolder(nil) }

func newFolder(as *account) (*Folder, error) {
	base := os.TempDir()
	if len(base)+len(folderPrefix)+10 > maxFolder {
		base = "/tmp"
	}
	sweep(base)
	path, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	f := &Folder{path: path}
	if f.lock, err = claim(path); err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	if err := as.own(path); err != nil {
		_ = f.Remove()
		return nil, fmt.Errorf("hand %s to user %s: %w", path, serverAccount, err)
	}
	return f, nil
}

// Path is where the folder is.
func (f *Folder) Path() string { return f.path }

// File gives the path of a file in the folder.
func (f *Folder) File(name string) string { return filepath.Join(f.path, name) }

// Remove removes the folder with all that is in it.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.path)
	_ = f.lock.Close()
	return err
}

// Keep lets the folder outlive its owner: without a lock file it is never swept.
func (f *Folder) Keep() error {
	if err := os.Remove(f.File(ownerLock)); err != nil {
		return fmt.Errorf("keep %s: %w", f.path, err)
	}
	return nil
}

// write puts a file of the account there.
func (f *Folder) write(as *account, name, text string) error {
	path := f.File(name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return as.own(path)
}

// claim makes the lock file under another name, so that none is ever seen that
// its owner does not hold yet.
func claim(path string) (*os.File, error) {
	fresh := filepath.Join(path, ownerLock+".new")
	lock, err := lockFile(fresh)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, filepath.Join(path, ownerLock)); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// sweep removes the folders whose owner is gone. A folder without a lock file is
// just being made; one whose lock file cannot be opened is another user's. Both
// are left alone.
func sweep(base string) {
	paths, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(path, ownerLock)); err != nil {
			continue
		}
		lock, err := lockFile(filepath.Join(path, ownerLock))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path)
		_ = lock.Close()
	}
}
