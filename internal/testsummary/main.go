// Command testsummary reads what `go test -json` writes, shows what a person
// wants to see of it (each package's own line, the output of what failed, each
// skip with its reason), and closes with "N passed, N failed, N skipped". It
// exits 1 if anything failed or no test ran.
//
//	go test -json ./... | go run ./internal/testsummary
package main

import (
	"fmt"
	"os"
)

func main() {
	totals, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	fmt.Println(totals)
	if !totals.good() {
		os.Exit(1)
	}
}
