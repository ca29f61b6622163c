package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/migrate"
)

// SQLState is the SQLSTATE of a server's error, or "".
func SQLState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// Transient reports whether an error may pass by itself: a connection that
// broke, a serialization failure or deadlock, resources, a server that starts
// or stops, a lock not granted in time. Everything else needs a person.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	code := SQLState(err)
	switch {
	case code == "":
		return broken(err)
	case code[:2] == "08", code[:2] == "40", code[:2] == "53":
		return true
	case code == "57P01", code == "57P02", code == "57P03", code == "57P05", code == "55P03", code == "57014", code == "25P03":
		return true
	}
	return false
}

// Passing is Transient for errors of Connect too: a server that refuses a connection, as
// one that restarts does, may be there again.
func Passing(err error) bool {
	var f *migrate.Failure
	return Transient(err) || errors.As(err, &f) && f.Code == connectFailed
}

// broken reports whether the connection itself failed.
func broken(err error) bool {
	var netErr net.Error
	var connErr *pgconn.ConnectError
	return errors.As(err, &netErr) || errors.As(err, &connErr) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed") || // the driver has no type for it
		errors.Is(err, context.DeadlineExceeded)
}

// Ambiguous reports whether a failed COMMIT may have happened all the same:
// everything but an answer of the server that it did not.
func Ambiguous(err error) bool { return err != nil && SQLState(err) == "" }
