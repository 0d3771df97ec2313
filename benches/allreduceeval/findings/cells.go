package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// cell is one cell of the parts correctness, contracts and errors.
type cell struct {
	part     string
	row      *journal.Row // nil if the run has no row for it
	at       point.Point  // coordinates of the row, including the number of ranks
	name     string       // size, element type or failure
	status   journal.Status
	reason   string
	required bool // it must run for the matrix to be complete
}

func (c cell) coord(name string) string { return c.at.At(name).String() }

// counts holds the number of cells by outcome.
type counts struct {
	passed, failed, skipped, missing int
	required                         int // missing cells that are required
}

func count(cells []cell) (t counts) {
	for _, c := range cells {
		switch c.status {
		case journal.OK:
			t.passed++
		case journal.Skipped:
			t.skipped++
		case journal.NotExecuted:
			t.missing++
			if c.required {
				t.required++
			}
		default:
			t.failed++
		}
	}
	return t
}

// ran returns the number of cells that were executed.
func (t counts) ran() int { return t.passed + t.failed }

func (t counts) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped, %d not executed", t.passed, t.failed, t.skipped, t.missing)
	if t.required > 0 {
		s += fmt.Sprintf(" (%d of them required)", t.required)
	}
	return s
}

// status returns the worst status in a group of cells.
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

// cellsOf returns the cells of the rows, and the cells of the required tasks that
// have no row. Without the latter, a run over fewer ranks or types would look complete.
func cellsOf(rows dataset.Set, required []plan.Task) []cell {
	var out []cell
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Part != matrix.Correctness && r.Part != matrix.Contracts && r.Part != matrix.Errors {
			continue
		}
		at := r.Point
		if r.NumRanks != nil {
			at = at.With(bench.RanksAxis, point.IntValue(int64(*r.NumRanks)))
		}
		seen[rowKey(r.Part, at)] = true
		out = append(out, rowCells(r, at)...)
	}
	if len(seen) == 0 {
		return nil // imported numbers, not a run of this bench
	}
	for _, t := range required {
		at := t.Point.With(bench.RanksAxis, point.IntValue(int64(t.Ranks)))
		if seen[rowKey(t.Part, at)] || matrix.Find(at.At("algorithm").String()).Hardware != "" {
			continue
		}
		for _, name := range cellNames(t.Part, at) {
			out = append(out, cell{part: t.Part, at: at, name: name, status: journal.NotExecuted,
				reason: "left out of this run", required: true})
		}
	}
	return out
}

// rowKey identifies a row regardless of its set of sizes.
func rowKey(part string, p point.Point) string {
	names := lists.Map(p.Without("sizes"), func(c point.Coord) string { return c.Name + "=" + c.Value.String() })
	slices.Sort(names)
	return part + " " + strings.Join(names, " ")
}

// cellNames returns the cells that a row should have, for rows that record none.
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
		// A row is OK only if everything ran that the backend supports, so cells that did
		// not run in it are not required.
		unsupported := r.Status == journal.OK && status == journal.NotExecuted
		out = append(out, cell{r.Part, r, at, name, status, string(r.Reason), !r.Optional && !unsupported})
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

// decisive returns the rows that a verdict on the cells rests on: the failed ones, or all if none
// failed.
func decisive(cells []cell) (rows dataset.Set) {
	failed := slices.ContainsFunc(cells, func(c cell) bool { return c.status.Bad() })
	for _, c := range cells {
		if c.row != nil && (!failed || c.status.Bad()) {
			rows = append(rows, c.row)
		}
	}
	return rows
}

func inPart(cells []cell, part string) []cell {
	return lists.Filter(cells, func(c cell) bool { return c.part == part })
}

// distinct returns the different values of a property, in the order of the cells.
func distinct(cells []cell, get func(cell) string) []string {
	return lists.NonEmpty(lists.Distinct(lists.Map(cells, get))...)
}

func byCoord(name string) func(cell) string { return func(c cell) string { return c.coord(name) } }

// gridOf arranges cells by algorithm and another property.
func gridOf(cells []cell, column func(cell) string, columns []string) *decl.Grid {
	g := &decl.Grid{Corner: "algorithm", Columns: columns}
	for _, of := range lists.GroupBy(cells, byCoord(g.Corner)) {
		line := decl.GridRow{Name: of.Key}
		for _, col := range columns {
			line.Cells = append(line.Cells, gridCell(lists.Filter(of.Items, func(c cell) bool { return column(c) == col })))
		}
		g.Rows = append(g.Rows, line)
	}
	return g
}

// gridCell summarizes a group of cells: how many passed, or how many of them did not.
func gridCell(cells []cell) decl.GridCell {
	t := count(cells)
	out := decl.GridCell{Status: t.status(), Note: t.String()}
	switch {
	case len(cells) == 0:
		return decl.GridCell{}
	case t.failed > 0:
		out.Text = fmt.Sprintf("%d of %d failed", t.failed, t.ran()+t.required)
	case t.passed > 0 && t.required > 0:
		out.Text = fmt.Sprintf("%d of %d not run", t.required, t.passed+t.required)
	case t.passed > 0:
		out.Text = strconv.Itoa(t.passed)
	case out.Status == journal.Skipped:
		out.Text = "skipped"
	default:
		out.Text = "not run"
	}
	for _, c := range cells {
		if c.status != journal.OK && c.reason != "" && (out.Status != journal.Failed || c.status == journal.Failed) {
			out.Note += ": " + c.reason
			break
		}
	}
	return out
}

// matrixSections shows the correctness matrix twice: by type and ranks, and by size.
func matrixSections(cells []cell) []bench.Section {
	mine := inPart(cells, matrix.Correctness)
	if len(mine) == 0 {
		return nil
	}
	column := func(c cell) string { return c.coord("dtype") + " x " + c.coord(bench.RanksAxis) }
	types := lists.Map(reference.Types, dist.DType.String)
	columns := distinct(slices.SortedStableFunc(slices.Values(mine), func(a, b cell) int {
		return cmp.Or(slices.Index(types, a.coord("dtype"))-slices.Index(types, b.coord("dtype")),
			cmp.Compare(a.at.At(bench.RanksAxis).Int(), b.at.At(bench.RanksAxis).Int()))
	}), column)
	size := func(c cell) string { return c.name }
	return []bench.Section{
		{Title: "Correctness matrix", Lead: true,
			Text: fmt.Sprintf("Cells that passed, by algorithm, element type and number of ranks: %s. "+
				"A cell is one size, in or out of place, with or without epilogue. It makes calls with exact and adversarial "+
				"inputs in every kind of memory and checks every element. "+
				"Green: passed. Red: failed. Yellow: skipped because it does not apply. Grey: not executed.", count(mine)),
			Grid: gridOf(mine, column, columns)},
		{Title: "Correctness by size",
			Text: "The same cells by size in bytes; +1 is one element more, -1 one element fewer.",
			Grid: gridOf(mine, size, distinct(mine, size))},
	}
}

func contractSections(cells []cell) []bench.Section {
	mine := inPart(cells, matrix.Contracts)
	if len(mine) == 0 {
		return nil
	}
	name := func(c cell) string { return matrix.Promise(c.coord("contract")).Title }
	return []bench.Section{{Title: "Contracts on bits",
		Text: fmt.Sprintf("Results that must be equal bit for bit, on inputs for which every order of additions rounds "+
			"differently: %s. Yellow: not promised.", count(mine)),
		Grid: gridOf(mine, name, distinct(mine, name))}}
}

func failureSections(cells []cell) []bench.Section {
	mine := inPart(cells, matrix.Errors)
	table := [][]string{{"mistake or failure", "ranks", "verdict", "noticed after", "error on a rank"}}
	for _, c := range mine {
		f, _ := lists.First(matrix.Failures, func(f matrix.Failure) bool { return f.Name == c.name })
		help, message, after := cmp.Or(f.Help, c.name), c.reason, ""
		if c.row != nil {
			if e := c.row.Details["error"]; e != "" && c.status == journal.OK {
				message = e
			}
			if ms, ok := c.row.Metrics["wall_ms"]; ok {
				after = unit.FormatMicros(ms * 1e3)
			}
		}
		table = append(table, []string{help, c.coord(bench.RanksAxis), string(c.status), after, truncate(message, 160)})
	}
	return tableSection(bench.Section{Title: "Mistakes and failures",
		Text: fmt.Sprintf("One rank causes each of these. Every rank must get an error that says what happened, in time: %s.",
			count(mine)),
		Table: table})
}

// tableSection returns a section with a table, or none if the table has only a heading.
func tableSection(s bench.Section) []bench.Section {
	if len(s.Table) == 1 {
		return nil
	}
	return []bench.Section{s}
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// testSections lists the outcomes, checked elements and duration of each group of tests.
func testSections(cells []cell) []bench.Section {
	table := [][]string{{"part", "group", "what it does", "passed", "failed", "skipped", "not executed",
		"elements checked", "time"}}
	for _, part := range []struct {
		name  string
		group func(cell) string
		help  func(group string) string
	}{
		{matrix.Correctness, byCoord("algorithm"), matrix.Help},
		{matrix.Contracts, byCoord("contract"), func(name string) string { return matrix.Promise(name).Help }},
		{matrix.Errors, func(cell) string { return "all" }, func(string) string { return "an error on every rank, in time" }},
	} {
		for _, g := range lists.GroupBy(inPart(cells, part.name), part.group) {
			t := count(g.Items)
			rows := lists.Distinct(lists.Map(g.Items, func(c cell) *journal.Row { return c.row }))
			rows = lists.Filter(rows, func(r *journal.Row) bool { return r != nil })
			ms, elements := lists.Sum(dataset.Set(rows).Values("wall_ms")), lists.Sum(dataset.Set(rows).Values("elements"))
			table = append(table, []string{part.name, g.Key, part.help(g.Key), strconv.Itoa(t.passed), strconv.Itoa(t.failed),
				strconv.Itoa(t.skipped), strconv.Itoa(t.missing),
				unit.FormatSI(elements), unit.FormatDuration(time.Duration(ms * float64(time.Millisecond)))})
		}
	}
	return tableSection(bench.Section{Detail: true, Title: "Tests", Text: "The tests of this run by group.", Table: table})
}
