package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// runInfo is a run's line in the list of runs.
type runInfo struct {
	Run     string    `json:"run"` // FOLDER@ID, its name in addresses
	Folder  string    `json:"folder"`
	ID      string    `json:"id"`
	Bench   string    `json:"bench"`
	Backend string    `json:"backend"`
	Host    string    `json:"host"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds,omitempty"`
	Planned int       `json:"planned"` // points in all trials, 0 if unknown
	OK      int       `json:"ok"`
	Failed  int       `json:"failed"`
	Skipped int       `json:"skipped"`
	Missing int       `json:"missing"` // planned but not done, or not executed
	Outcome string    `json:"outcome"`
	Metrics []string  `json:"metrics"`
}

// The outcomes of a run without an end record.
const (
	underWay = "running" // a process is working on it
	stopped  = "stopped" // no process is working on it
)

// runList is the list of all runs in the folder, the latest first.
type runList struct {
	Dir      string    `json:"dir"`
	Runs     []runInfo `json:"runs"`
	Problems []string  `json:"problems,omitempty"`
	Cut      bool      `json:"cut,omitempty"` // not all journals are shown
}

func (s *Server) runs(*http.Request) (any, error) { return s.store.runs() }

func (s *store) runs() (runList, error) {
	out := runList{Dir: s.dir, Runs: []runInfo{}}
	books, cut, err := s.list()
	if err != nil {
		return out, err
	}
	out.Cut = cut
	for _, b := range books {
		infos, err := s.infos(b)
		if err != nil {
			out.Problems = append(out.Problems, b.folder+": "+err.Error())
		}
		out.Runs = append(out.Runs, infos...)
	}
	slices.SortStableFunc(out.Runs, func(a, b runInfo) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.ID, a.ID))
	})
	return out, nil
}

// infos returns the runs of a journal. They stay in memory when its rows do not.
func (s *store) infos(b *book) ([]runInfo, error) {
	b.mu.Lock()
	now, err := b.now()
	known := b.infos != nil && b.stamp == now
	name, _, kept := s.index.of(b, "runs")
	if made, ok := s.index.get(name, now); err == nil && !known && kept && ok && json.Unmarshal(made, &b.infos) == nil {
		b.stamp, known = now, true
	}
	b.mu.Unlock()
	if err == nil && !known {
		err = s.use(b, func(j *journal.Journal) error {
			b.infos, b.stamp = make([]runInfo, len(j.Runs)), now
			for i, r := range j.Runs {
				b.infos[i] = newInfo(b.folder, r)
			}
			if made, err := json.Marshal(b.infos); err == nil && kept {
				s.index.put(name, now, made)
			}
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(b.infos)
	for i := range out {
		out[i].Outcome = b.outcome(out[i].ID, out[i].Outcome)
	}
	return out, nil
}

// newInfo summarizes a run. The outcome of a run without an end is set by outcome.
func newInfo(folder string, r *journal.Run) runInfo {
	h := &r.Header
	info := runInfo{Run: folder + "@" + r.ID(), Folder: folder, ID: r.ID(), Bench: h.Bench, Backend: h.Backend,
		Host: h.Host.Hostname, Start: h.Time, Metrics: []string{}}
	done, planned := r.Progress()
	counts := r.Counts()
	info.OK, info.Failed, info.Skipped = counts[journal.OK], counts[journal.Failed]+counts[journal.Timeout],
		counts[journal.Skipped]
	info.Planned, info.Missing = planned, counts[journal.NotExecuted]+max(0, planned-done)
	for _, m := range h.Metrics {
		info.Metrics = append(info.Metrics, m.Name)
	}
	if r.End != nil {
		info.Outcome, info.Seconds = r.End.Outcome, r.End.Seconds
		if r.End.Outcome == "complete" {
			info.Missing = counts[journal.NotExecuted]
		}
	}
	return info
}

// holderEvery is how long the knowledge whether a process works on a run is valid.
const holderEvery = time.Second

// outcome tells a running run from one that was killed.
func (b *book) outcome(id, recorded string) string {
	if recorded != "" {
		return recorded
	}
	h := b.holders[id]
	if h == nil || time.Since(h.at) > holderEvery {
		held, err := journal.HolderOf(b.path, id)
		h = &holder{held != nil || err != nil, time.Now()}
		b.holders[id] = h
	}
	if h.is {
		return underWay
	}
	return stopped
}
