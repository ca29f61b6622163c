package migrate

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var (
	sizeForm     = regexp.MustCompile(`^([0-9]{1,18}) ?(B|kB|MB|GB|TB)?$`)
	scheduleForm = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])$`)
	// sizeUnits are PostgreSQL's: each is 1024 of the one before.
	sizeUnits = map[string]int64{"": 1, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
)

// ParseSize reads a size as PostgreSQL's settings have it: 10GB, 512MB, or bytes.
func ParseSize(text string) (int64, error) {
	match := sizeForm.FindStringSubmatch(text)
	if match == nil {
		return 0, errors.New("a size is a whole number with B, kB, MB, GB or TB")
	}
	number, err := strconv.ParseInt(match[1], 10, 64)
	if unit := sizeUnits[match[2]]; err != nil || number > math.MaxInt64/unit {
		return 0, errors.New("the size is too large")
	}
	return number * sizeUnits[match[2]], nil
}

// ParseSchedule reads "22:00-06:00" as minutes since midnight. An end that is
// before the start is on the next day.
func ParseSchedule(text string) (from, to int, err error) {
	match := scheduleForm.FindStringSubmatch(text)
	if match == nil {
		return 0, 0, errors.New(`a schedule is two times of day, "22:00-06:00"`)
	}
	var parts [4]int
	for i := range parts {
		parts[i], _ = strconv.Atoi(match[i+1]) // two digits, as matched
	}
	from, to = parts[0]*60+parts[1], parts[2]*60+parts[3]
	if from == to {
		return 0, 0, errors.New("the schedule is empty: it ends when it begins")
	}
	return from, to, nil
}

// Open reports whether a backfill may run at a time of day of the source.
func (t Throttle) Open(hour, minute int) bool {
	from, to, err := ParseSchedule(t.Schedule)
	if err != nil {
		return t.Schedule == ""
	}
	now := hour*60 + minute
	if from < to {
		return from <= now && now < to
	}
	return now >= from || now < to
}

// duration reads 500ms, 2s, 4h or 0, from least to most.
func (d *decoder) duration(n node, least, most time.Duration, into *time.Duration) {
	text := ""
	if number, ok := n.body.(*ast.IntegerNode); ok {
		text = number.GetToken().Value
	} else if text, ok = d.text(n); !ok {
		return
	}
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		d.fail(n.place, "bad_duration", "must be a duration", "write 500ms, 2s, 15m or 4h")
	case value < least || value > most:
		d.fail(n.place, "out_of_range", "must be from "+SpellDuration(least)+" to "+SpellDuration(most), "")
	default:
		*into = value
	}
}

// SpellDuration writes a duration without the zero units that String appends.
func SpellDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// spellSize writes a size with the largest unit that it is a whole number of.
func spellSize(bytes int64) string {
	for _, unit := range []string{"TB", "GB", "MB", "kB"} {
		if bytes != 0 && bytes%sizeUnits[unit] == 0 {
			return strconv.FormatInt(bytes/sizeUnits[unit], 10) + unit
		}
	}
	return strconv.FormatInt(bytes, 10)
}

// size reads a positive size.
func (d *decoder) size(n node, into *int64) bool {
	text := ""
	if number, ok := n.body.(*ast.IntegerNode); ok {
		text = number.GetToken().Value
	} else if text, ok = d.text(n); !ok {
		return false
	}
	value, err := ParseSize(text)
	if err != nil {
		d.fail(n.place, "bad_size", err.Error(), "write 10GB or 512MB")
		return false
	}
	if value == 0 {
		d.fail(n.place, "out_of_range", "must be more than 0", "")
		return false
	}
	*into = value
	return true
}
