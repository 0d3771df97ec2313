package draw

import (
	"math"
	"strings"
)

// Ellipsis replaces omitted text.
const Ellipsis = "…"

// Shorten fits a name into the width by omitting its middle, because the names of a
// sweep usually begin alike and differ at the end.
func (f Face) Shorten(s string, width float64) string {
	return f.squeeze(clean(s), width, 0.55)
}

// squeeze replaces as little of s as necessary with an ellipsis. head is the fraction
// of the remaining text that comes from the start of s.
func (f Face) squeeze(s string, width, head float64) string {
	if f.Width(s) <= width {
		return s
	}
	runes := []rune(s)
	short := Ellipsis
	for keep := 1; keep < len(runes); keep++ {
		n := int(math.Ceil(float64(keep) * head))
		left := strings.TrimRight(string(runes[:n]), " ,;:-_/(")
		right := strings.TrimLeft(string(runes[len(runes)-(keep-n):]), " ")
		try := left + Ellipsis + right
		if f.Width(try) > width {
			break
		}
		short = try
	}
	return short
}

// Wrap breaks text into at most limit lines of the width. Lines break at spaces, at
// newlines, and after the separators in names such as ring_all-reduce/fp16. Text
// that does not fit is cut off with an ellipsis.
func (f Face) Wrap(s string, width float64, limit int) []string {
	var lines []string
	for hard := range strings.SplitSeq(s, "\n") {
		line := ""
		for _, piece := range pieces(clean(hard)) {
			if line != "" && f.Width(strings.TrimRight(line+piece, " ")) > width {
				lines = append(lines, strings.TrimRight(line, " "))
				line = ""
			}
			line += piece
		}
		if line = strings.TrimRight(line, " "); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > limit {
		// Put the rest into the last line, which then gets an ellipsis.
		lines = append(lines[:limit-1:limit-1], strings.Join(lines[limit-1:], " "))
	}
	for i, line := range lines {
		lines[i] = f.squeeze(line, width, 1)
	}
	return lines
}

// pieces cuts a line where it may be broken. A separator stays with the piece before it.
func pieces(s string) []string {
	var list []string
	start := 0
	for i, r := range s {
		if strings.ContainsRune(" -_/,;", r) {
			list = append(list, s[start:i+1])
			start = i + 1
		}
	}
	return append(list, s[start:])
}
