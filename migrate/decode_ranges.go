package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

func has(names []string, name string) bool { return slices.Contains(names, name) }

// ParseShards reads "0-3,8": numbers and ranges of shards below count, each once.
func ParseShards(text string, count int) ([]int, error) {
	var shards []int
	seen := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		first, last, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if last >= count {
			return nil, fmt.Errorf("shards are numbered 0 to %d", count-1)
		}
		for shard := first; shard <= last; shard++ {
			if seen[shard] {
				return nil, fmt.Errorf("shard %d is placed twice here", shard)
			}
			seen[shard] = true
			shards = append(shards, shard)
		}
	}
	return shards, nil
}

func parseRange(text string) (first, last int, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	low, high = strings.TrimSpace(low), strings.TrimSpace(high)
	if !wholeNumber.MatchString(low) || !wholeNumber.MatchString(high) {
		return 0, 0, errors.New("shards are written 0-3,8")
	}
	first, err = strconv.Atoi(low)
	if err == nil {
		last, err = strconv.Atoi(high)
	}
	switch {
	case err != nil:
		return 0, 0, errors.New("the number of a shard is too large")
	case first > last:
		return 0, 0, errors.New("a range ends before it begins")
	}
	return first, last, nil
}

// ranges reads the shards of one database: a number, a text, or a list of both.
func (d *decoder) ranges(n node, count int) []int {
	var parts []string
	switch n.body.(type) {
	case *ast.SequenceNode:
		items, _ := d.sequence(n)
		for _, item := range items {
			if part, ok := d.rangeText(item); ok {
				parts = append(parts, part)
			}
		}
		if len(items) == 0 {
			d.fail(n.place, "bad_range", "the list of shards is empty", "place shards on it, or remove the database")
		}
	default:
		if part, ok := d.rangeText(n); ok {
			parts = []string{part}
		}
	}
	if count == 0 || len(parts) == 0 {
		return nil // reported; without a count nothing can be in range
	}
	shards, err := ParseShards(strings.Join(parts, ","), count)
	if err != nil {
		d.fail(n.place, "bad_range", err.Error(), "")
	}
	return shards
}

func (d *decoder) rangeText(n node) (string, bool) {
	if number, ok := n.body.(*ast.IntegerNode); ok {
		return number.GetToken().Value, true
	}
	if _, ok := d.written(n); !ok {
		d.wrongType(n, `a range of shards, like "0-239"`)
		return "", false
	}
	return d.text(n)
}

// FormatShards writes ascending shards as ParseShards reads them.
func FormatShards(shards []int) string {
	var parts []string
	for i := 0; i < len(shards); {
		j := i
		for j+1 < len(shards) && shards[j+1] == shards[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, strconv.Itoa(shards[i]))
		} else {
			parts = append(parts, strconv.Itoa(shards[i])+"-"+strconv.Itoa(shards[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// shardList begins a sentence about shards: "shard 3 is", "shards 0-3 are".
func shardList(shards []int) string {
	if len(shards) == 1 {
		return fmt.Sprintf("shard %d is", shards[0])
	}
	return "shards " + FormatShards(shards) + " are"
}
