package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/verdict"
	"github.com/kernbench/kernbench/internal/view/report"
)

// runInfo is a run's line in the list of runs.
type runInfo struct {
	Run     string    `json:"run"` // FOLDER@ID, its name in addresses
	Folder  string    `json:"folder"`
	ID      string    `json:"id"`
	Bench   string    `json:"bench"`
	Backend string    `json:"backend"`
	Host    string    `json:"host"`
	Commit  string    `json:"commit,omitempty"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds,omitempty"`
	Planned int       `json:"planned"` // points in all trials, 0 if unknown
	OK      int       `json:"ok"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
	Missing int       `json:"missing"`        // planned but not done, or not executed
	Lost    int       `json:"lost,omitempty"` // rows that were recorded and cannot be read
	Outcome string    `json:"outcome"`
	Metrics []string  `json:"metrics"`
	Tags    []string  `json:"tags,omitempty"`
	Notes   []string  `json:"notes,omitempty"` // the user's own comes first

	// Disturbed is the number of ok rows whose times are in doubt. Computed means that no ok row was measured.
	Disturbed int  `json:"disturbed"`
	Computed  bool `json:"computed,omitempty"`

	Number  *report.Number `json:"number,omitempty"`
	Verdict *lastChange    `json:"verdict,omitempty"` // only of the latest run of a bench
}

// lastChange compares the latest run of a bench with the run before it.
type lastChange struct {
	Before  string `json:"before"` // the other run, FOLDER@ID
	Summary string `json:"summary"`
	Worse   bool   `json:"worse,omitempty"`  // some point is slower or lost
	Better  bool   `json:"better,omitempty"` // some point is faster or fixed, and none is worse
}

// The outcomes of a run without an end record.
const (
	running = "running" // a process is working on it
	stopped = "stopped" // no process is working on it
)

func latestFirst(a, b runInfo) int { return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.ID, a.ID)) }

// Limits of what the list says about one run.
const (
	maxNotes      = 3
	maxNote       = 200
	maxJudged     = 5000 // rows of a run that is compared with the one before it
	commitLetters = 12
)

// summarizeAll returns the lines of all runs of a journal. The latest run of each bench is compared with the
// run before it.
func summarizeAll(folder string, j *journal.Journal) []runInfo {
	out := lists.Map(j.Runs, func(r *journal.Run) runInfo { return summarize(folder, dataset.Of(r)) })
	seen := map[string]int{} // number of complete runs by bench
	latest := map[string]int{}
	for i, r := range slices.Backward(j.Runs) {
		if r.End == nil || r.End.Outcome != "complete" || len(r.Rows) > maxJudged {
			continue
		}
		bench := r.Header.Bench
		if seen[bench]++; seen[bench] == 1 {
			latest[bench] = i
		} else if seen[bench] == 2 {
			out[latest[bench]].Verdict = judgeLatest(folder, r, j.Runs[latest[bench]])
		}
	}
	return out
}

// judgeLatest compares two runs of a bench like the compare command does. It returns nil if they cannot be
// compared, for example because they have no time.
func judgeLatest(folder string, before, latest *journal.Run) *lastChange {
	result, err := verdict.Compare(dataset.Named{Dataset: dataset.Of(before)}, dataset.Named{Dataset: dataset.Of(latest)},
		verdict.Options{})
	if err != nil {
		return nil
	}
	worse := result.ExitCode() == 1
	return &lastChange{Before: folder + "@" + before.ID(), Summary: result.Summary(), Worse: worse,
		Better: !worse && result.Counts["faster"]+result.Counts[verdict.Fixed] > 0}
}

// summarize returns a run's line for the list. The caller sets the outcome of a run
// without an end record.
func summarize(folder string, r *dataset.Dataset) runInfo {
	h, end := &r.Header, r.Run().End
	info := runInfo{Run: folder + "@" + r.ID(), Folder: folder, ID: r.ID(), Bench: h.Bench, Backend: h.Backend,
		Host: h.Host.Hostname, Commit: h.Commit[:min(commitLetters, len(h.Commit))], Start: h.Time, Metrics: []string{},
		Tags: h.Tags, Lost: r.Lost()}
	counts, measured := r.Rows.Counts(), 0
	for _, row := range r.Rows.Good() {
		if row.Disturbed() {
			info.Disturbed++
		}
		if row.Kind != journal.Simulated && row.Kind != journal.Modelled {
			measured++
		}
	}
	done, planned := r.Progress()
	info.OK, info.Failed, info.Skipped = counts[journal.OK], counts[journal.Failed]+counts[journal.Timeout],
		counts[journal.Skipped]
	info.Computed = info.OK > 0 && measured == 0
	info.Planned, info.Missing = planned, counts[journal.NotExecuted]+max(0, planned-done)
	for _, m := range h.Metrics {
		info.Metrics = append(info.Metrics, m.Name)
	}
	note := func(text string) {
		if text != "" && len(info.Notes) < maxNotes {
			info.Notes = append(info.Notes, strings.ToValidUTF8(text[:min(len(text), maxNote)], ""))
		}
	}
	note(h.Note)
	for _, n := range r.Notes {
		if len(n.Tuned) == 0 {
			note(string(n.Text))
		}
	}
	if end != nil {
		info.Outcome, info.Seconds = end.Outcome, end.Seconds
		if end.Outcome == "complete" {
			info.Missing = counts[journal.NotExecuted]
		}
	}
	if n, ok := report.NewNumber(h, r.Rows); ok {
		info.Number = &n
	}
	return info
}

// holderEvery is how long the information whether a process works on a run is cached.
const holderEvery = time.Second

// outcome returns the outcome of a run. For a run without an end record, it checks whether a process still works on
// the run or whether it was killed.
func (b *cachedJournal) outcome(id, recorded string) string {
	if recorded != "" {
		return recorded
	}
	b.holdersMu.Lock()
	defer b.holdersMu.Unlock()
	h := b.holders[id]
	if h == nil || time.Since(h.at) > holderEvery {
		held, err := journal.HolderOf(b.path, id)
		h = &holderCheck{held != nil || err != nil, time.Now()}
		b.holders[id] = h
	}
	if h.held {
		return running
	}
	return stopped
}
