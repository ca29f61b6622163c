package localpg

import (
	"context"
	"fmt"
	"strings"
)

// Keep lets the server outlive this process: it is started again without its tie to
// it, since a tie cannot be undone, and its folder is not swept any more. Clients lose
// their sessions. Close still ends and removes it; StopCommand says how others do.
func (c *Cluster) Keep(ctx context.Context) error {
	if err := c.Stop(ctx, "fast"); err != nil {
		return err
	}
	c.kept = true
	if err := c.Start(ctx); err != nil {
		return err
	}
	return c.folder.Keep()
}

// StopCommand is a line of shell that ends the server and removes its folder. It leaves
// the folder that it is run in, which the server's account may not be able to enter.
func (c *Cluster) StopCommand() string {
	stop := fmt.Sprintf("%s stop -s -m immediate -D %s", ShellWord(c.options.BinDir+"/pg_ctl"), ShellWord(c.dataDir()))
	if c.account != nil { // it refuses to run as root
		stop = "runuser -u " + serverAccount + " -- " + stop
	}
	return "cd /; " + stop + "; rm -rf " + ShellWord(c.folder.path)
}

// Keep lets the pooler outlive this process, as Cluster.Keep does.
func (b *PgBouncer) Keep(ctx context.Context) error {
	if err := b.Kill(ctx); err != nil {
		return err
	}
	b.kept = true
	if err := b.Start(ctx); err != nil {
		return err
	}
	return b.folder.Keep()
}

// StopCommand is a line of shell that ends the pooler and removes its folder. Where ps
// knows the number as another program's, since the machine was started again, that
// program is left alone.
func (b *PgBouncer) StopCommand() string {
	return fmt.Sprintf(`case $(ps -o comm= -p %[1]d || echo pgbouncer) in *pgbouncer) kill -9 %[1]d ;; esac 2>/dev/null; rm -rf %[2]s`, b.PID(), ShellWord(b.folder.path))
}

// ShellWord quotes text as one word of shell.
func ShellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
