package tune

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Result is what a study found, as the journal keeps it: everything that tables,
// figures and lines to paste are made of.
type Result struct {
	Metric    string     `json:"metric"`
	Unit      string     `json:"unit,omitempty"`
	Maximise  bool       `json:"maximise,omitempty"`
	Over      []string   `json:"over,omitempty"`
	Per       []string   `json:"per,omitempty"`
	Variables []Variable `json:"variables"`
	Findings  []Finding  `json:"findings"` // one for every value of Per
	Seconds   float64    `json:"seconds"`  // of all launches
}

// Finding is the answer of one race.
type Finding struct {
	Per     string        `json:"per,omitempty"` // such as "size=4096"
	Default int           `json:"default"`
	Cells   int           `json:"cells"`  // rows that one launch of a setting is judged by
	Levels  map[int][]int `json:"levels"` // of the settings that the answer names
	Size    int           `json:"settings"`
	Each    int           `json:"each,omitempty"` // launches that a setting takes; 0: one
	Answer  Answer        `json:"answer"`

	Rows        int    `json:"rows,omitempty"`
	Disturbed   int    `json:"disturbed,omitempty"`    // of the rows, while they were measured
	DisturbedBy string `json:"disturbed_by,omitempty"` // most
}

// Result tells what is known by the rows so far.
func (s *Study) Result(rows []journal.Row, starts []time.Time) Result {
	s.take(rows, starts)
	times := secondsOf(rows, starts)
	out := Result{Metric: s.goal.Metric, Unit: s.unit, Maximise: s.goal.Maximise, Over: s.goal.Over, Per: s.goal.Per,
		Variables: s.variables}
	for _, t := range times {
		out.Seconds += t
	}
	for _, f := range s.fields {
		if f.pending { // an interrupted round: what there is of it
			s.settle(f, times)
			f.pending = false
		}
		a := f.race.Answer()
		found := Finding{Per: f.per, Default: f.space.Default, Cells: max(1, len(f.cells)), Levels: map[int][]int{},
			Size: len(f.space.Settings), Each: f.launches}
		s.disturbed(f, &found)
		failed := lists.Map(a.Failed, func(x Failure) int { return x.Setting })
		named := slices.Concat([]int{f.space.Default}, a.Raced, a.Open, failed)
		if a.Best >= 0 {
			named = append(named, a.Best)
		}
		for _, n := range named {
			found.Levels[n] = f.space.Settings[n]
		}
		found.Answer = a
		out.Findings = append(out.Findings, found)
	}
	return out
}

// disturbed counts the rows of a race that something disturbed.
func (s *Study) disturbed(f *field, found *Finding) {
	keys := map[string]bool{}
	for _, tasks := range f.tasks {
		for _, t := range tasks {
			keys[t.task.Key] = true
		}
	}
	for at, rows := range s.rows {
		if !keys[at.key] {
			continue
		}
		for i := range rows {
			found.Rows++
			if why := rows[i].Disturbed(); why != "" {
				found.Disturbed++
				if a, b := firstNumber(why), firstNumber(found.DisturbedBy); a > b || a == b && why > found.DisturbedBy {
					found.DisturbedBy = why // the strongest, whatever the order of the map
				}
			}
		}
	}
}

// firstNumber is the first of a text, such as the share of the time that was stolen.
func firstNumber(text string) float64 {
	n, _ := strconv.ParseFloat(anyNumber.FindString(text), 64)
	return n
}

var anyNumber = regexp.MustCompile(`[0-9][0-9.]*`)
