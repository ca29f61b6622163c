package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// NewStandby makes an asynchronous standby of a running server and starts it. It has the
// primary's settings and system identifier.
func NewStandby(ctx context.Context, primary *Cluster) (*Cluster, error) {
	place, err := newFolder(primary.account)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: primary.options, account: primary.account, folder: place}
	if err := c.copyOf(ctx, primary); err != nil {
		return nil, errors.Join(err, place.Remove())
	}
	if err := errors.Join(c.configure(), c.follow(primary), c.firstStart(ctx)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// copyOf makes the data folder by pg_basebackup.
func (c *Cluster) copyOf(ctx context.Context, primary *Cluster) error {
	p, err := startProcess(c.account, false, c.folder.path, c.folder.File("basebackup.log"), c.options.BinDir+"/pg_basebackup",
		"-d", primary.DSN(""), "-D", c.dataDir(), "-c", "fast", "-X", "stream", "--no-sync")
	if err != nil {
		return err
	}
	return p.finish(ctx, "pg_basebackup")
}

// follow makes the server a standby of the primary when it starts.
func (c *Cluster) follow(primary *Cluster) error {
	u, err := url.Parse(primary.DSN(""))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.dataDir()+"/postgresql.auto.conf", os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("configure standby: %w", err)
	}
	_, err = fmt.Fprintf(file, "primary_conninfo='host=%s port=%s user=%s'\n", u.Hostname(), u.Port(), Superuser)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("configure standby: %w", err)
	}
	return errors.Join(os.WriteFile(c.dataDir()+"/standby.signal", nil, 0o600), c.account.own(c.dataDir()+"/standby.signal"))
}
