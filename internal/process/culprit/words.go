package culprit

import (
	"regexp"
	"strings"
	"unicode"
)

// maxWords is how much of a line is quoted.
const maxWords = 200

var (
	// crash is how the Go runtime starts its report; stacks follow.
	crash = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
	// telling matches a line that says what went wrong.
	telling = regexp.MustCompile(`(?i)\b\w*(error|exception)\b|\b(panic|fatal|assert\w*|abort\w*|fail\w*|cannot|not found)\b|^\s*what\(\):`)
	colours = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
)

// SalientLine are the line, of what a rank has written last, that tells most: the last one that speaks of an error in its
// standard error or output, else the last one at all.
func SalientLine(stderr, stdout string) string {
	last := ""
	for _, text := range []string{stderr, stdout} {
		text = colours.ReplaceAllString(text, "")
		if at := crash.FindString(text); at != "" {
			return quoted(at)
		}
		lines := strings.Split(text, "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			line := lines[i]
			switch {
			case !strings.ContainsFunc(line, unicode.IsLetter):
			case telling.MatchString(line):
				return quoted(line)
			case last == "":
				last = line
			}
		}
	}
	return quoted(last)
}

func quoted(line string) string {
	line = strings.TrimSpace(line)
	if r := []rune(line); len(r) > maxWords {
		return string(r[:maxWords-1]) + "…"
	}
	return line
}
