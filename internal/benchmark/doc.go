// Command benchmark measures shardctl beside what it is judged by: plain pipes of COPY,
// the server's own replication, pgcopydb where it is installed, plain SQL. Both sides of
// a measure run alternately in one run, on servers that it starts itself, with fsync as
// in production; what counts is the ratio of the medians, since times of one machine say
// nothing about another.
//
//	go run ./internal/benchmark [-suite main|cutover|scale|large] [-rows N] [-rounds N] [-only REGEXP]
//
// It prints one JSON line for each measure, and what it is doing to stderr. It ends with
// status 1 if a measure could not be taken or a result was wrong, not if a target was
// missed: a busy machine is no defect, and the figures are there to be read.
package main
