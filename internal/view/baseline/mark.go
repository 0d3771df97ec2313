package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// FileName is the name, inside a RUN folder, of the file that says which of its runs are
// the baseline.
const FileName = "baseline.json"

// Mark says which runs of a folder are its baseline. Their rows stay in the journal.
type Mark struct {
	Bench string    `json:"bench"`
	Runs  []string  `json:"runs"` // ids, the oldest first
	Saved time.Time `json:"saved"`
}

// ErrNone is the error of a folder without a baseline.
var ErrNone = errors.New("no baseline is saved in it")

// Read reads the mark of a RUN folder.
func Read(dir string) (Mark, error) {
	var m Mark
	text, err := os.ReadFile(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && len(m.Runs) == 0 {
		err = errors.New("it names no run")
	}
	if err != nil {
		return m, fmt.Errorf("reading the baseline %s: %w", filepath.Join(dir, FileName), err)
	}
	return m, nil
}

// Write puts the mark into a RUN folder, in the place of the one before.
func (m Mark) Write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return journal.WriteFileAtomic(filepath.Join(dir, FileName), append(text, '\n'))
}

// Last are the runs of a journal that did the work of last, up to and with it, most at
// the most. Runs without a row are none.
func Last(j *journal.Journal, last *journal.Run, most int) []*journal.Run {
	var out []*journal.Run
	for _, r := range j.Runs {
		if r.Header.Bench == last.Header.Bench && len(r.Rows) > 0 {
			out = append(out, r)
		}
		if r == last {
			break
		}
	}
	return out[max(0, len(out)-most):]
}

// Split divides the runs of a journal up to last: those of the mark, with the ids of the
// ones that the journal lacks, and the later ones, most at the most.
func (m Mark) Split(j *journal.Journal, last *journal.Run, most int) (base, recent []*journal.Run, gone []string) {
	gone = slices.Clone(m.Runs)
	for _, r := range j.Runs {
		if slices.Contains(m.Runs, r.ID()) {
			base = append(base, r)
			gone = slices.DeleteFunc(gone, func(id string) bool { return id == r.ID() })
		}
	}
	recent = Last(j, last, len(j.Runs))
	for i := len(recent) - 1; i >= 0; i-- {
		if slices.Contains(m.Runs, recent[i].ID()) {
			recent = recent[i+1:]
			break
		}
	}
	return base, recent[max(0, len(recent)-most):], gone
}
