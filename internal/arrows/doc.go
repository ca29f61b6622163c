// Package arrows keeps the direction of imports: which package may reach which.
// Its test asks `go list` for the real graph and checks it against the rules.
//
// It looks at what is built, not at tests: a test of verify may use the hash in
// Go to judge the one in SQL. Packages that do not exist break no rule.
package arrows
