// Command shardctl splits the tables of a live PostgreSQL over several databases
// while the product keeps running.
//
// This package is the one place that knows every concrete type: it parses flags,
// wires the parts together and prints. One command is one file. It holds no SQL and
// decides nothing that a part could decide.
//
// Results go to standard output, progress and logs to standard error. With -o json
// exactly one document is printed, errors included. Exit codes are mapped in one
// place, from *migrate.Failure.
package main
