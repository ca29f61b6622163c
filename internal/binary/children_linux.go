package binary

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Children lists the processes that the command has started and that are there still,
// its watchdog for example.
func (c *Command) Children() (pids []int) {
	folder := fmt.Sprintf("/proc/%d/task", c.PID())
	threads, _ := os.ReadDir(folder)
	for _, thread := range threads {
		list, _ := os.ReadFile(folder + "/" + thread.Name() + "/children")
		for _, text := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(text); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
