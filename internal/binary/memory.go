package binary

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// memoryPoll is how often a command's memory is looked at; the system keeps the largest
// value itself, so that only what is between the last look and the end is missed.
const memoryPoll = 20 * time.Millisecond

// WatchMemory looks at the command's memory until it ends. The function that it gives waits
// for that and says the most that it had, in bytes; 0: the system does not say. What a
// process's end tells would include its parent's, which a child has until it is another
// program.
func (c *Command) WatchMemory() (most func() int64) {
	found := make(chan int64, 1)
	go func() {
		poll := time.NewTicker(memoryPoll)
		defer poll.Stop()
		var most int64
		for {
			most = max(most, peak(c.PID()))
			select {
			case <-c.done:
				found <- most
				return
			case <-poll.C:
			}
		}
	}()
	return func() int64 { return <-found }
}

// peak reads the largest resident set of a process so far; 0 where that is not known.
func peak(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kB int64
	if _, err := fmt.Sscan(after, &kB); err != nil {
		return 0
	}
	return kB << 10
}
