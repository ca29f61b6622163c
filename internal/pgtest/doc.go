// Package pgtest gives tests real PostgreSQL: a fresh database for each test on
// one server per test process, servers and poolers of their own where a test
// stops or breaks them, and a way to wait without sleeping.
//
// The shared server is found in this order: SHARDCTL_TEST_DSN, the programs
// installed on this machine, a container engine. With none of them a test fails;
// it is never skipped.
//
// Invariants: what a test leaves on its database (sessions, prepared
// transactions, replication slots, subscriptions) fails that test; the database
// is dropped all the same. Main stops the server and fails on leaked goroutines.
// If the test process is killed, its servers end with it (see localpg).
package pgtest
