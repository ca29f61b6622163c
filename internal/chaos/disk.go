package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/localpg"
)

// smallSpace is the tablespace on the small file system.
const smallSpace = "small"

// diskSize holds a seed's database twice.
const diskSize = "96m"

// mountPrefix begins the name of a mount; the number of its process follows.
const mountPrefix = "shardctl-chaos-"

// disk is a small file system with a tablespace in it, which can be filled.
type disk struct {
	folder *localpg.Folder // nil where none can be had
	why    string          // there is none
}

// newDisk mounts a file system in memory where root may; elsewhere it says why not.
func newDisk(ctx context.Context, n *node) (*disk, error) {
	if os.Geteuid() != 0 {
		return &disk{why: "a small file system cannot be mounted by an ordinary user"}, nil
	}
	unmountLeft()
	folder, err := localpg.NewFolder()
	if err != nil {
		return nil, err
	}
	d := &disk{folder: folder}
	if err := os.Mkdir(d.path(), 0o755); err != nil {
		return nil, errors.Join(err, folder.Remove())
	}
	out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size="+diskSize, mountPrefix+strconv.Itoa(os.Getpid()), d.path()).CombinedOutput()
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return &disk{why: fmt.Sprintf("mount: %v: %s", err, first)}, folder.Remove()
	}
	if err := d.space(ctx, n); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *disk) path() string { return d.folder.File("small") }

// space makes the tablespace, in a folder of the server's account.
func (d *disk) space(ctx context.Context, n *node) error {
	place := d.path() + "/space"
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	u, err := user.Lookup(localpg.Superuser)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := errors.Join(os.Chown(place, uid, gid), os.Chown(d.path(), uid, gid), os.Chmod(d.folder.Path(), 0o755)); err != nil {
		return err
	}
	return execSQL(ctx, n.DSN("postgres"), "CREATE TABLESPACE "+smallSpace+" LOCATION '"+place+"'")
}

// fill takes all the room there is; the function that comes back gives it free.
func (d *disk) fill() (free func() error, err error) {
	f, err := os.Create(d.path() + "/filler")
	if err != nil {
		return nil, err
	}
	piece := make([]byte, 64<<10)
	for size := len(piece); size > 0; {
		if _, err := f.Write(piece[:size]); err != nil {
			size /= 2
		}
	}
	_ = f.Close() // it is full
	return func() error { return os.Remove(f.Name()) }, nil
}

// close unmounts it; the server that used it has ended.
func (d *disk) close() error {
	if d.folder == nil {
		return nil
	}
	if out, err := exec.Command("umount", d.path()).CombinedOutput(); err != nil {
		return fmt.Errorf("umount %s: %w: %s", d.path(), err, out)
	}
	return d.folder.Remove()
}

// unmountLeft unmounts what a run that was killed left.
func unmountLeft() {
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.HasPrefix(words[0], mountPrefix) {
			continue
		}
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(words[0], mountPrefix)); os.IsNotExist(err) {
			_ = exec.Command("umount", "-l", words[1]).Run() // another run may be at it
			_ = os.RemoveAll(filepath.Dir(words[1]))
		}
	}
}
