package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoRun means that a journal has no run.
var ErrNoRun = errors.New("no run in it")

// maxListed is how many of the latest runs an error lists.
const maxListed = 20

// Locate splits the name of a run into a folder and a selector:
//
//	RUN       the latest run, selector ""
//	RUN@-1    the run before the latest
//	RUN@ID    the run whose id begins with ID
//	RUN@TAG   the latest run with this tag
//
// An @ is part of the folder's name if a path separator follows it or if a folder of this name exists.
func Locate(spec string) (dir, sel string, err error) {
	if _, err := os.Stat(spec); spec != "" && err == nil {
		return spec, "", nil
	}
	i := strings.LastIndexByte(spec, '@')
	if i >= 0 && strings.ContainsRune(spec[i:], filepath.Separator) {
		i = -1
	}
	switch {
	case spec == "":
		return "", "", errors.New("the name of a run is empty: want RUN, RUN@-1, RUN@ID or RUN@TAG")
	case i < 0:
		return spec, "", nil
	case i == 0:
		return "", "", fmt.Errorf("%q names no folder: want RUN%s", spec, spec)
	case i == len(spec)-1:
		return "", "", fmt.Errorf("%q names no run after the @: want %s-1 or %sID", spec, spec, spec)
	}
	return spec[:i], spec[i+1:], nil
}

// LoadRun reads the journal that spec names and returns it with the selected run.
func LoadRun(spec string) (*Journal, *Run, error) {
	dir, sel, err := Locate(spec)
	if err != nil {
		return nil, nil, err
	}
	j, err := Read(dir)
	if err != nil {
		return nil, nil, err
	}
	run, err := j.Find(sel)
	if err != nil {
		return nil, nil, err
	}
	return j, run, nil
}

// Find returns the run of a selector as returned by Locate.
func (j *Journal) Find(sel string) (*Run, error) {
	if len(j.Runs) == 0 {
		if len(j.Problems) > 0 {
			return nil, fmt.Errorf("%s: %w (%d lines could not be read, the first is %v)", j.Path, ErrNoRun, len(j.Problems),
				j.Problems[0])
		}
		return nil, fmt.Errorf("%s: %w", j.Path, ErrNoRun)
	}
	if sel == "" {
		return j.Runs[len(j.Runs)-1], nil
	}
	if back, isBack := strings.CutPrefix(sel, "-"); isBack {
		n, err := strconv.ParseUint(back, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%s@%s: want a whole number after the minus, such as @-1 for the run before the latest",
				j.Dir(), sel)
		}
		if int(n) >= len(j.Runs) {
			return nil, fmt.Errorf("%s@%s: it goes back too far; there %s", j.Dir(), sel, list(j.Runs))
		}
		return j.Runs[len(j.Runs)-1-int(n)], nil
	}
	var matches []*Run
	for _, r := range j.Runs {
		if r.ID() == sel {
			return r, nil
		}
		if strings.HasPrefix(r.ID(), sel) {
			matches = append(matches, r)
		}
	}
	switch len(matches) {
	case 0:
		if tagged := j.TaggedRuns(sel); len(tagged) > 0 {
			return tagged[len(tagged)-1], nil
		}
		return nil, fmt.Errorf("%s@%s: no run id starts with it, and no run has this tag; there %s",
			j.Dir(), sel, list(j.Runs))
	case 1:
		return matches[0], nil
	}
	return nil, fmt.Errorf("%s@%s: ambiguous; there %s", j.Dir(), sel, list(matches))
}

// list returns the end of an error message that lists the runs, the latest first: for each run a line with
// its ID, time and bench.
func list(runs []*Run) string {
	var b strings.Builder
	if len(runs) == 1 {
		b.WriteString("is 1 run:")
	} else {
		fmt.Fprintf(&b, "are %d runs:", len(runs))
	}
	for i, r := range slices.Backward(runs) {
		if len(runs)-i > maxListed {
			fmt.Fprintf(&b, "\n  and %d earlier ones", i+1)
			break
		}
		h := r.Header
		fmt.Fprintf(&b, "\n  %s  %s  %s", h.Run, h.Time.UTC().Format("2006-01-02 15:04:05"), h.Bench)
	}
	return b.String()
}
