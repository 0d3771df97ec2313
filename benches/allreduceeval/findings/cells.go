package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// cell is one cell of the correctness parts, as the rows tell it.
type cell struct {
	part   string
	row    *journal.Row // nil for a cell that is in no row of the run
	at     point.Point  // its row's coordinates, with the number of ranks
	name   string       // size, element type or mistake
	status journal.Status
	reason string
	needed bool // it should have run
}

func (c cell) coord(name string) string { return c.at.At(name).String() }

// counts are numbers of cells by what became of them.
type counts struct {
	passed, failed, skipped, missing int
	required                         int // of the missing ones
}

func countOf(cells []cell) (t counts) {
	for _, c := range cells {
		switch c.status {
		case journal.OK:
			t.passed++
		case journal.Skipped:
			t.skipped++
		case journal.NotExecuted:
			t.missing++
			if c.needed {
				t.required++
			}
		default:
			t.failed++
		}
	}
	return t
}

// ran is how many cells were executed.
func (t counts) ran() int { return t.passed + t.failed }

func (t counts) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped, %d not executed", t.passed, t.failed, t.skipped, t.missing)
	if t.required > 0 {
		s += fmt.Sprintf(" (%d of them required)", t.required)
	}
	return s
}

// status is one for a group of cells: the worst that is in it.
func (t counts) status() journal.Status {
	switch {
	case t.failed > 0:
		return journal.Failed
	case t.required > 0, t.passed == 0 && t.missing > 0:
		return journal.NotExecuted
	case t.passed > 0:
		return journal.OK
	case t.skipped > 0:
		return journal.Skipped
	}
	return ""
}

// cellsOf takes the cells out of the rows, and adds those of the declared rows
// that are not among them: a run over fewer ranks or types must not look like one
// over all.
func cellsOf(rows []journal.Row, declared []plan.Task) []cell {
	var out []cell
	seen := map[string]bool{}
	own := false // a run of this bench, not imported numbers
	for i := range rows {
		r := &rows[i]
		if r.Part != matrix.Correctness && r.Part != matrix.Contracts && r.Part != matrix.Errors {
			continue
		}
		own = true
		at := r.Point
		if r.NumRanks != nil {
			at = at.With(bench.RanksAxis, point.IntValue(int64(*r.NumRanks)))
		}
		seen[rowKey(r.Part, at)] = true
		out = append(out, rowCells(r, at)...)
	}
	if !own {
		return out
	}
	for _, t := range declared {
		at := t.Point.With(bench.RanksAxis, point.IntValue(int64(t.Ranks)))
		if seen[rowKey(t.Part, at)] || matrix.Find(at.At("algorithm").String()).Hardware != "" {
			continue
		}
		for _, name := range cellNames(t.Part, at) {
			out = append(out, cell{part: t.Part, at: at, name: name, status: journal.NotExecuted,
				reason: "it was left out of this run", needed: true})
		}
	}
	return out
}

// rowKey names a row whatever its sizes.
func rowKey(part string, p point.Point) string {
	names := lists.Map(p.Without("sizes"), func(c point.Coord) string { return c.Name + "=" + c.Value.String() })
	slices.Sort(names)
	return part + " " + strings.Join(names, " ")
}

// cellNames are the cells of a row of which nothing is recorded.
func cellNames(part string, at point.Point) []string {
	switch part {
	case matrix.Correctness:
		sizes, _ := matrix.Sizes(at.At("sizes").String())
		return lists.Map(sizes, matrix.Size.String)
	case matrix.Contracts:
		return lists.Map(matrix.FloatTypes, dist.DType.String)
	}
	return []string{at.At("mistake").String()}
}

func rowCells(r *journal.Row, at point.Point) (out []cell) {
	add := func(name string, status journal.Status) {
		// A good row has run all that the backend has.
		lacking := r.Status == journal.OK && status == journal.NotExecuted
		out = append(out, cell{r.Part, r, at, name, status, r.Reason, !r.Optional && !lacking})
	}
	recorded := matrix.ParseOutcomes(r.Details["cells"])
	if len(recorded) == 0 || r.Status != journal.OK && r.Status != journal.Failed && r.Status != journal.NotExecuted {
		for _, name := range cellNames(r.Part, at) {
			add(name, r.Status)
		}
		return out
	}
	for _, o := range recorded {
		add(o.Cell, journal.Status(o.Status))
	}
	return out
}

func inPart(part string) func(cell) bool { return func(c cell) bool { return c.part == part } }

// values lists what a coordinate takes, in the order of the cells.
func values(cells []cell, get func(cell) string) []string {
	return lists.NonEmpty(lists.Distinct(lists.Map(cells, get))...)
}
