package pgbouncer

import (
	"context"
	"strings"
	"time"
)

// PgBouncer closes servers that are just logging in when it is paused, takes that for a
// failed connect, and makes the pool's clients wait for server_login_retry (15 s unless
// set otherwise) after RESUME. With PAUSE of an entry every client that comes anew
// meanwhile has the same effect. So while clients are held the setting is 0, and
// RESUME lets every pool connect at once. RELOAD would set it back to the file's.
//
// A client that asks for a server between RESUME and that connect is not made to wait but
// refused. So a PAUSE is not sent while a server logs in, for as long as letLogIn waits.

const retrySetting = "server_login_retry"

// retryAtOnce is what is set while clients are held.
var retryAtOnce = setRetry("0")

func setRetry(value string) string { return "SET " + retrySetting + " = '" + value + "'" }

// loginRetry asks for the setting's value now.
func (i *instance) loginRetry(ctx context.Context) (string, error) {
	a, _, err := i.ask(ctx, "SHOW CONFIG")
	return a.pairs("key", "value")[retrySetting], err
}

// loginGrace is how long a PAUSE waits for servers to log in. Clients are served meanwhile;
// a login takes milliseconds, and one that takes longer may be one that never ends.
const loginGrace = 100 * time.Millisecond

// letLogIn waits until no server of the entries logs in, or loginGrace is over.
func (i *instance) letLogIn(ctx context.Context, c *console, entries []entry) error {
	for until := time.Now().Add(loginGrace); ; {
		pools, _, err := c.askThen(ctx, "SHOW POOLS")
		if err != nil {
			return i.failed("SHOW POOLS", err)
		}
		if len(serversIn(pools, entries, "sv_login")) == 0 || time.Now().After(until) {
			return nil
		}
		select {
		case <-ctx.Done():
			return i.failed("PAUSE", context.Cause(ctx))
		case <-time.After(drainPoll):
		}
	}
}

// noteRetry remembers the value that restoreRetry is to bring back. A 0 may be what an
// earlier Pause left: then what was noted by that, if anything, stays.
func (i *instance) noteRetry(ctx context.Context) error {
	value, err := i.loginRetry(ctx)
	if err == nil && !zero(value) {
		i.retry = value
	}
	return err
}

// restoreRetry sets the value back, after RESUME has been answered: by then every pool
// with waiting clients has begun to connect. Where the value is not known, as after
// another process was killed, RELOAD brings the file's back.
func (i *instance) restoreRetry(ctx context.Context, value string) error {
	command := setRetry(value)
	if value == "" {
		now, err := i.loginRetry(ctx)
		if err != nil || !zero(now) {
			return err
		}
		command = "RELOAD"
	}
	_, refused, err := i.ask(ctx, "SHOW VERSION", command)
	if err == nil && len(refused) > 0 {
		err = i.failed(command, refused[0])
	}
	return err
}

// reload makes the pooler read its files, and keeps the setting while clients are held.
func (i *instance) reload(ctx context.Context) error {
	value, err := i.loginRetry(ctx)
	if err != nil {
		return err
	}
	commands := []string{"RELOAD"}
	if zero(value) {
		commands = append(commands, retryAtOnce)
	}
	_, refused, err := i.ask(ctx, "SHOW VERSION", commands...)
	if err == nil && len(refused) > 0 {
		err = i.failed("RELOAD", refused[0])
	}
	return err
}

// zero reports whether a time of SHOW CONFIG is 0, as versions write it.
func zero(value string) bool { return value != "" && strings.Trim(value, "0.") == "" }
