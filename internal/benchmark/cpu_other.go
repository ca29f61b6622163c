//go:build !linux

package main

import (
	"errors"
	"time"
)

func serverCPU(int) (time.Duration, error) {
	return 0, errors.New("the CPU of a server can be read on Linux only")
}
