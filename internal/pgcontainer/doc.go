// Package pgcontainer starts a throw-away PostgreSQL server in a container, for
// machines that have a container engine and no server programs.
//
// It owns the container; what happens inside the server is the caller's. The
// image is SHARDCTL_TEST_IMAGE, any that answers to the official image's
// environment variables.
//
// If the caller is killed, the library's own reaper container removes the server
// a few seconds later, unless TESTCONTAINERS_RYUK_DISABLED is set.
package pgcontainer
