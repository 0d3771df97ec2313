package unit

import (
	"regexp"
	"slices"
	"strings"
)

// timeWords are the units of time in labels. min is none of them: time_min is a smallest time.
var timeWords = []string{"ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds",
	"us", "usec", "usecs", "micros", "microsecond", "microseconds",
	"ms", "msec", "msecs", "millis", "millisecond", "milliseconds",
	"s", "sec", "secs", "second", "seconds"}

var labelWord = regexp.MustCompile(`[0-9A-Za-zµμ]+`)

// Contradiction returns the unit of time that a label states, if numbers under this label are in another unit of time.
// Otherwise it is "".
func Contradiction(label, unit string) string {
	named, _ := TimeIn(label)
	if factor, same := Conversion(named, unit); named != "" && same && factor != 1 {
		return named
	}
	return ""
}

// TimeIn returns the unit of time that a label states, such as ms for "time_ms", "Time [ms]" and "ms_mean", and whether
// the label ends with it. The unit is "" if the label states none, or a rate such as tokens_per_s.
func TimeIn(label string) (unit string, last bool) {
	before := ""
	for _, at := range labelWord.FindAllStringIndex(label, -1) {
		word := plainUnit(label[at[0]:at[1]])
		if len(word) > 1 { // a single S is no second
			word = strings.ToLower(word)
		}
		last = false
		if slices.Contains(timeWords, word) {
			if before == "per" || strings.HasSuffix(label[:at[0]], "/") {
				return "", false
			}
			if !strings.HasSuffix(label[:at[0]], "'") && !strings.HasSuffix(label[:at[0]], "’") { // rank's
				unit, last = word, true
			}
		}
		before = word
	}
	return unit, last
}
