// Package terminal shows a run to the person at the terminal: its plan and its
// progress. It decides nothing; what it prints is on the command line's own streams.
package terminal

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// Is reports whether f is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Width is the number of columns, or 0 when f is not a terminal.
func Width(f *os.File) int {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(ws.Col)
}

// UTF8 tells whether the locale of an environment has characters beyond ASCII.
func UTF8(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first that is set counts
		if value := jobenv.Variable(environ, name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// Color tells whether a terminal of an environment should be sent colours.
func Color(environ []string) bool {
	return jobenv.Variable(environ, "NO_COLOR") == "" && jobenv.Variable(environ, "TERM") != "dumb"
}
