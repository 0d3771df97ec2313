package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// BaselineFile is the name of the file, inside a RUN folder, that lists its baseline runs.
const BaselineFile = "baseline.json"

// Baseline lists the runs of a folder with which later runs are compared. Their rows stay in the
// journal.
type Baseline struct {
	Bench string    `json:"bench"`
	Runs  []string  `json:"runs"` // ids, the oldest first
	Saved time.Time `json:"saved"`
	// Accepted is the last run that was made part of the baseline by hand. Runs after it were
	// added by checks; a step among them is still found. "" means all of them.
	Accepted string `json:"accepted,omitempty"`
}

// MaxBaseline is the largest number of runs that a baseline keeps when checks add runs.
const MaxBaseline = 60

// ErrNoBaseline means that no baseline is saved in a folder.
var ErrNoBaseline = errors.New("no baseline is saved in it")

// ReadBaseline reads the baseline of a RUN folder.
func ReadBaseline(dir string) (Baseline, error) {
	var b Baseline
	text, err := infile.ReadBelow(dir, BaselineFile, infile.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("%s: %w", dir, ErrNoBaseline)
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err == nil && len(b.Runs) == 0 {
		err = errors.New("it names no run")
	}
	if err != nil {
		return b, fmt.Errorf("reading the baseline %s: %w", filepath.Join(dir, BaselineFile), err)
	}
	return b, nil
}

// Write saves the baseline in a RUN folder, replacing the previous one.
func (b Baseline) Write(dir string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return journal.WriteIn(dir, BaselineFile, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// NewBaseline returns a baseline of runs that are accepted by hand.
func NewBaseline(bench string, runs []*journal.Run) Baseline {
	b := Baseline{Bench: bench, Runs: lists.Map(runs, (*journal.Run).ID),
		Saved: time.Now().UTC().Truncate(time.Millisecond)}
	b.Accepted = b.Runs[len(b.Runs)-1]
	return b
}

// Add returns the baseline with additional runs. If it has more than MaxBaseline runs, the oldest are
// dropped.
func (b Baseline) Add(ids []string) Baseline {
	if b.Accepted == "" {
		b.Accepted = b.Runs[len(b.Runs)-1]
	}
	b.Runs = slices.Clone(b.Runs)
	for _, id := range ids {
		if !slices.Contains(b.Runs, id) {
			b.Runs = append(b.Runs, id)
		}
	}
	b.Runs = b.Runs[max(0, len(b.Runs)-MaxBaseline):]
	return b
}

// LastRuns returns the run last and the runs before it of the same bench that have rows, up to most runs.
func LastRuns(j *journal.Journal, last *journal.Run, most int) []*journal.Run {
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

// accepted returns which of the baseline's runs were accepted by hand. At least one counts as
// accepted, even if it is older than MaxBaseline.
func (b Baseline) accepted() []string {
	if b.Accepted == "" {
		return b.Runs
	}
	return b.Runs[:max(1, slices.Index(b.Runs, b.Accepted)+1)]
}

// Select returns the runs for a check of the run last. accepted has the runs of the journal home that were
// accepted by hand. later has the runs that checks have added to the baseline, and then the runs of j since
// the baseline, at most recent of these. gone has the IDs of baseline runs that home no longer has. If an
// accepted run was resumed with other inputs after the baseline was saved, its new build is one of the
// later runs.
func (b Baseline) Select(home, j *journal.Journal, last *journal.Run, recent int) (accepted, later []*dataset.Dataset,
	missing []string) {
	byHand := b.accepted()
	missing = slices.Clone(b.Runs)
	for _, r := range home.Runs {
		if !slices.Contains(b.Runs, r.ID()) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(id string) bool { return id == r.ID() })
		since := dataset.Of(r)
		if slices.Contains(byHand, r.ID()) {
			var saved *dataset.Dataset
			saved, since = b.splitBuilds(r)
			accepted = append(accepted, saved)
		}
		if since != nil && (home != j || !after(j, r, last)) {
			later = append(later, since)
		}
	}
	since := LastRuns(j, last, len(j.Runs))
	for i, r := range slices.Backward(since) {
		if slices.Contains(b.Runs, r.ID()) {
			since = since[i+1:]
			break
		}
	}
	return accepted, append(later, lists.Map(since[max(0, len(since)-recent):], dataset.Of)...), missing
}

// before reports whether a row is older than the baseline.
func (b Baseline) before(r *journal.Row) bool { return !r.Time.After(b.Saved) }

// splitBuilds returns the build that a run had when the baseline was saved. If the current build is another
// one, whose rows all come from after that, it is returned as resumed.
func (b Baseline) splitBuilds(r *journal.Run) (saved, resumed *dataset.Dataset) {
	builds := dataset.Builds(r)
	for i, build := range builds {
		if i == len(builds)-1 || slices.ContainsFunc(build.Rows, b.before) {
			if i > 0 {
				resumed = builds[0]
			}
			return build, resumed
		}
	}
	panic("a run has at least one build")
}

// after reports whether a run of a journal comes after another one.
func after(j *journal.Journal, r, other *journal.Run) bool {
	return slices.Index(j.Runs, r) > slices.Index(j.Runs, other)
}
