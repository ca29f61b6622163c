// Package localpg starts and stops throw-away PostgreSQL servers and PgBouncers
// on this machine, for tests and for `shardctl demo`. Production commands never
// use it. Where there are no server programs, Engine starts servers in containers,
// by the command line of docker or podman.
//
// It owns: finding the binaries, the folder of each server, its process, its
// port. It does not own what happens inside a server.
//
// Invariants: servers listen on 127.0.0.1 only; everything of one server is in
// one temporary folder; Close ends the process by its pid and removes the folder.
// Servers refuse to run as root, so root starts them as user postgres.
//
// If the caller is killed: on Linux the kernel ends its servers with it (parent
// death signal), and the next start sweeps the folders that were left, which it
// knows by a file lock that nobody holds any more. A terminal's Ctrl-C does not
// reach the servers, since each has a process group of its own: the caller
// decides, and calls Close. A server that was kept lives on, and its folder is not swept.
// A container lives on too, until the next one is started that finds its folder gone.
package localpg
