package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

// ErrNoRun means that a journal has no run.
var ErrNoRun = errors.New("no run in it")

// maxListed is how many of the latest runs, or of the folders with runs, an error lists.
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
			return nil, j.without(sel, "it goes back too far", j.Runs)
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
		return nil, j.without(sel, "no run id starts with it, and no run has this tag", j.Runs)
	case 1:
		return matches[0], nil
	}
	return nil, j.without(sel, "ambiguous", matches)
}

// without returns the error for a selector that selects no run. It lists the runs that the user may have meant.
func (j *Journal) without(sel, why string, runs []*Run) error {
	what := "is 1 run:"
	if len(runs) != 1 {
		what = fmt.Sprintf("are %d runs:", len(runs))
	}
	return texttab.WithDetail(fmt.Errorf("%s@%s: %s; there %s", j.Dir(), sel, why, what), list(runs))
}

// list returns the end of an error message that lists the runs, the latest first: for each run a line with
// its ID, time and bench.
func list(runs []*Run) string {
	var b strings.Builder
	for i, r := range slices.Backward(runs) {
		if len(runs)-i > maxListed {
			fmt.Fprintf(&b, "and %d earlier ones", i+1)
			break
		}
		h := r.Header
		fmt.Fprintf(&b, "%s  %s  %s\n", h.Run, h.Time.UTC().Format("2006-01-02 15:04:05"), h.Bench)
	}
	return b.String()
}

// runsFolder is the folder in which RUN folders are by default.
const runsFolder = "out"

// besides suggests the RUN folder of that name in the usual place.
func besides(path string) string {
	usual := filepath.Join(runsFolder, path)
	if _, err := os.Lstat(filepath.Join(usual, FileName)); err != nil || filepath.IsAbs(path) {
		return ""
	}
	return ", did you mean " + usual + "?"
}

// below lists the RUN folders in a folder.
func below(path string) string {
	entries, _ := os.ReadDir(path) // a folder that cannot be read suggests nothing
	var found []string
	for _, e := range entries {
		run := filepath.Join(path, e.Name())
		if _, err := os.Lstat(filepath.Join(run, FileName)); err == nil && len(found) < maxListed {
			found = append(found, run)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (folders in it that have one: " + strings.Join(found, ", ") + ")"
}
