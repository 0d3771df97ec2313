package nccltable

import (
	"regexp"
	"strconv"
	"strings"
)

// logMessage matches the beginning of a message that NCCL_DEBUG makes NCCL print:
// "gpu-1:221423:221423 [0] NCCL INFO ...".
var logMessage = regexp.MustCompile(
	`(?:\[[0-9-]+ [0-9:.]+\] )?[A-Za-z][\w.-]*:\d+:\d+ \[\d+\] NCCL (?:INFO|WARN|TRACE)\b`)

// WithoutLog removes the messages of NCCL's log and returns how many lines had one. The tool
// prints a row in pieces, with the operation in between, so a message often stands in the
// middle of a row. The pieces are joined on the line of the first one. Line numbers stay the same.
func WithoutLog(text string) (clean string, skipped int) {
	if !logMessage.MatchString(text) {
		return text, 0
	}
	lines := strings.SplitAfter(text, "\n")
	row, at := "", 0 // the pieces of a row so far, and the line of the first one
	for i, line := range lines {
		text := strings.TrimRight(line, "\r\n")
		m := logMessage.FindStringIndex(text)
		if m != nil {
			skipped++
			text = text[:m[0]]
			lines[i] = text + line[len(strings.TrimRight(line, "\r\n")):]
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		piece := continuesRow(text)
		switch {
		case row != "" && piece:
			row, lines[i] = row+text, "\n"
		case piece && m != nil:
			row, at = text, i
		}
		if row != "" && (m == nil || !piece) { // the row is complete or was cut off
			lines[at], row = row+"\n", ""
		}
	}
	if row != "" {
		lines[at] = row + "\n"
	}
	return strings.Join(lines, ""), skipped
}

// continuesRow reports whether a text begins with a number, as every piece of a row does.
func continuesRow(text string) bool {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return false
	}
	_, err := strconv.ParseFloat(fields[0], 64)
	return err == nil || fields[0] == "N/A"
}
