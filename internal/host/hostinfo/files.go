package hostinfo

import (
	"io/fs"
	"strconv"
	"strings"
)

// lines gives a file's lines, none when it cannot be read: a fact that is not
// there is left out.
func lines(root fs.FS, name string) []string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

// line gives a file's first line, trimmed.
func line(root fs.FS, name string) string {
	if all := lines(root, name); len(all) > 0 {
		return strings.TrimSpace(all[0])
	}
	return ""
}

// number reads a number, 0 when it is none.
func number(text string) float64 {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0
	}
	return value
}

// countCPUs counts the members of a kernel list such as "0-3,8,10-11"; a list
// that is not one counts as 0, unknown.
func countCPUs(list string) int {
	total := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		low, errLow := strconv.ParseUint(first, 10, 31)
		high, errHigh := strconv.ParseUint(last, 10, 31)
		if errLow != nil || errHigh != nil || high < low {
			return 0
		}
		total += int(high-low) + 1
	}
	return total
}
