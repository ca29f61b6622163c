package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// userTick is the unit of /proc/*/stat: USER_HZ is 100 on all of Linux's platforms.
const userTick = 10 * time.Millisecond

// ServerCPU is what all processes of a server have used so far, those that ended
// included: the postmaster has reaped them. On a machine that others use it is steadier
// than time. Elsewhere than on Linux it is an error.
func ServerCPU(postmaster int) (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended: its parent counts it
		}
		// After the name in brackets: state, ppid, …; utime, stime, cutime, cstime from the 12th on.
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		var counted []string
		switch postmaster {
		case pid:
			counted = fields[11:15]
		case parent:
			counted = fields[11:13]
		}
		for _, field := range counted {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", file, err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * userTick, nil
}
