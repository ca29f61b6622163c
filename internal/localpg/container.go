package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Labels of a container: whose it is, and the folder without which nobody needs it.
const (
	ownerLabel  = "shardctl.owner"
	folderLabel = "shardctl.folder"
)

// ContainerOptions says what server to start in a container.
type ContainerOptions struct {
	Image    string   // answers to the official image's variables
	Password string   // of Superuser: an engine may publish the port beyond this machine
	Settings []string // "name=value", as in postgresql.conf; a later one wins
}

// Container is a throw-away PostgreSQL server in a container, listening on 127.0.0.1.
// The engine, not this process, is its parent: where this process was killed, the next
// container that is started removes it.
type Container struct {
	engine   *Engine
	folder   *Folder // whose lock says that the owner lives
	name     string
	password string
	port     int
}

// NewPassword makes a password for servers in containers.
func NewPassword() string { return rand.Text() }

// NewContainer starts a server in a container.
func (e *Engine) NewContainer(ctx context.Context, options ContainerOptions) (*Container, error) {
	if err := e.fetch(ctx, options.Image); err != nil {
		return nil, err
	}
	folder, err := NewFolder()
	if err != nil {
		return nil, err
	}
	c := &Container{engine: e, folder: folder, name: filepath.Base(folder.Path()), password: options.Password}
	e.sweep(ctx)
	if err = c.start(ctx, options); err == nil {
		err = c.waitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start image %s: %w", options.Image, err), c.Close())
	}
	return c, nil
}

func (c *Container) start(ctx context.Context, options ContainerOptions) error {
	args := []string{"run", "--detach", "--name", c.name, "--label", ownerLabel + "=" + containerOwner(), "--label", folderLabel + "=" + c.folder.Path(),
		"--publish", "127.0.0.1::5432", "--shm-size", "256m", "--env", "POSTGRES_USER=" + Superuser, "--env", "POSTGRES_PASSWORD", options.Image, "postgres"}
	for _, s := range options.Settings {
		args = append(args, "-c", s)
	}
	// Not cancelled: the engine would go on and make a container that nobody removes.
	if _, err := c.engine.run(context.WithoutCancel(ctx), patience, []string{"POSTGRES_PASSWORD=" + options.Password}, args...); err != nil {
		return err
	}
	address, err := c.engine.run(ctx, engineAnswer, nil, "port", c.name, "5432/tcp")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(address, "\n")
	_, port, err := net.SplitHostPort(first)
	if err != nil {
		return fmt.Errorf("port of container %s: %w", c.name, err)
	}
	c.port, err = strconv.Atoi(port)
	return err
}

// waitReady polls until the server answers, its container ends or time is up. The port
// is open before anybody listens behind it.
func (c *Container) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		err := answers(ctx, c.DSN("postgres"))
		if err == nil {
			return nil
		}
		running, lookErr := c.engine.run(ctx, engineAnswer, nil, "inspect", "--format", "{{.State.Running}}", c.name)
		if lookErr == nil && running != "true" {
			return errors.New("it ended at once: " + c.engine.logTail(ctx, c.name))
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-poll.C:
		}
	}
}

// containerOwner keeps users and machines that share an engine apart.
func containerOwner() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getuid())
}

// sweep removes containers whose folder is gone: their owner was killed.
func (e *Engine) sweep(ctx context.Context) {
	names, err := e.run(ctx, engineAnswer, nil, "ps", "--all", "--filter", "label="+ownerLabel+"="+containerOwner(), "--format", "{{.Names}}")
	if err != nil {
		return
	}
	for _, name := range strings.Fields(names) {
		folder, err := e.run(ctx, engineAnswer, nil, "inspect", "--format", `{{index .Config.Labels "`+folderLabel+`"}}`, name)
		if err != nil {
			continue
		}
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			_ = e.remove(ctx, name)
		}
	}
}

func (e *Engine) remove(ctx context.Context, name string) error {
	_, err := e.run(ctx, patience, nil, "rm", "--force", "--volumes", name)
	return err
}

// Keep lets the server outlive this process: only the folder has to stay.
func (c *Container) Keep(context.Context) error { return c.folder.Keep() }

// StopCommand is a line of shell that ends the server and removes all of it.
func (c *Container) StopCommand() string {
	return fmt.Sprintf("%s rm --force --volumes %s >/dev/null; rm -rf %s", ShellWord(c.engine.program), c.name, ShellWord(c.folder.Path()))
}

// Close ends the server and removes its container, volumes and folder.
func (c *Container) Close() error {
	err := c.engine.remove(context.Background(), c.name)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "no such container") {
		err = nil // it was never made
	}
	return errors.Join(err, c.folder.Remove())
}

// DSN says how the superuser reaches a database of the server.
func (c *Container) DSN(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(Superuser, c.password), Host: fmt.Sprintf("127.0.0.1:%d", c.port),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is where the server listens on 127.0.0.1.
func (c *Container) Port() int { return c.port }
