package histories

import (
	"fmt"
	"strconv"
	"strings"
)

// shrink finds a part of a failing history that fails too, by leaving out ever
// smaller runs of steps, in so many tries. It gives the places of the steps that are
// left, and what they failed with.
func shrink(h history, tries int, fails func(history) error) (left []int, last error) {
	for i := range h.steps {
		left = append(left, i)
	}
	for run := len(left) / 2; run > 0 && tries > 0; {
		shorter := false
		for from := 0; from < len(left) && tries > 0; {
			to := min(from+run, len(left))
			without := append(append([]int{}, left[:from]...), left[to:]...)
			tries--
			if err := fails(h.only(without)); err != nil {
				left, last, shorter = without, err, true
				continue
			}
			from = to
		}
		if run == 1 && !shorter {
			break
		}
		run = max(run/2, 1)
	}
	return left, last
}

// only is the history with these of its steps.
func (h history) only(places []int) history {
	all := h.steps
	h.steps = nil
	for _, i := range places {
		h.steps = append(h.steps, all[i])
	}
	return h
}

// show prints the steps at these places, and how to play them again.
func (h history) show(places []int) string {
	var b strings.Builder
	var numbers []string
	for _, i := range places {
		numbers = append(numbers, strconv.Itoa(i))
		fmt.Fprintf(&b, "  %3d %s\n", i, h.steps[i])
	}
	fmt.Fprintf(&b, "SHARDCTL_HISTORY_SEED=%d SHARDCTL_HISTORY_STEPS=%s go test -count=1 -run TestHistories ./internal/histories", h.seed, strings.Join(numbers, ","))
	return b.String()
}
