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
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// gridOf lays cells out by their algorithm and another property.
func gridOf(cells []cell, column func(cell) string, columns []string) *bench.Grid {
	g := &bench.Grid{Corner: "algorithm", Columns: columns}
	algorithm := byCoord(g.Corner)
	for _, name := range values(cells, algorithm) {
		line := bench.GridRow{Name: name}
		for _, col := range columns {
			mine := lists.Filter(cells, func(c cell) bool { return algorithm(c) == name && column(c) == col })
			line.Cells = append(line.Cells, gridCell(mine))
		}
		g.Rows = append(g.Rows, line)
	}
	return g
}

// gridCell words a group of cells: how many of those that ran have passed.
func gridCell(cells []cell) bench.GridCell {
	t := countOf(cells)
	out := bench.GridCell{Status: t.status(), Note: t.String()}
	switch {
	case len(cells) == 0:
		return bench.GridCell{}
	case t.ran() > 0 && t.passed == t.ran() && t.required == 0:
		out.Text = strconv.Itoa(t.passed)
	case t.ran() > 0:
		out.Text = fmt.Sprintf("%d of %d", t.passed, t.ran()+t.required)
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

func byCoord(name string) func(cell) string { return func(c cell) string { return c.coord(name) } }

// matrixSections show the correctness matrix twice: over types and ranks, and
// over sizes.
func matrixSections(cells []cell) []bench.Section {
	mine := lists.Filter(cells, inPart(matrix.Correctness))
	if len(mine) == 0 {
		return nil
	}
	column := func(c cell) string { return c.coord("dtype") + " x " + c.coord(bench.RanksAxis) }
	columns := values(mine, column)
	types := lists.Map(reference.Types, dist.DType.String)
	slices.SortStableFunc(columns, func(a, b string) int { // by type as declared, then by ranks
		typeA, ranksA, _ := strings.Cut(a, " x ")
		typeB, ranksB, _ := strings.Cut(b, " x ")
		if typeA != typeB {
			return slices.Index(types, typeA) - slices.Index(types, typeB)
		}
		x, _ := strconv.Atoi(ranksA)
		y, _ := strconv.Atoi(ranksB)
		return x - y
	})
	size := func(c cell) string { return c.name }
	return []bench.Section{
		{Title: "Correctness matrix", Lead: true,
			Text: fmt.Sprintf("Cells that passed, by algorithm, element type and number of ranks: %s. "+
				"A cell is one size, in or out of place, with or without epilogue; it makes calls with exact and adversarial "+
				"inputs in every kind of memory and checks every element. "+
				"Green has passed, red has failed, yellow was skipped because it makes no sense, grey was not executed.",
				countOf(mine)),
			Grid: gridOf(mine, column, columns)},
		{Title: "Correctness by size",
			Text: "The same cells by size; + and - count elements beside the bytes.",
			Grid: gridOf(mine, size, values(mine, size))},
	}
}

func contractSections(cells []cell) []bench.Section {
	mine := lists.Filter(cells, inPart(matrix.Contracts))
	if len(mine) == 0 {
		return nil
	}
	name := func(c cell) string { return matrix.ContractTitle[c.coord("contract")] }
	return []bench.Section{{Title: "Contracts on bits",
		Text: fmt.Sprintf("Results that must be equal bit for bit, on inputs for which every order of additions rounds "+
			"differently: %s. Yellow is not promised.", countOf(mine)),
		Grid: gridOf(mine, name, values(mine, name))}}
}

func failureSections(cells []cell) []bench.Section {
	mine := lists.Filter(cells, inPart(matrix.Errors))
	if len(mine) == 0 {
		return nil
	}
	table := [][]string{{"mistake or failure", "ranks", "verdict", "noticed after", "what a rank is told"}}
	for _, c := range mine {
		f, _ := lists.First(matrix.Failures, func(f matrix.Failure) bool { return f.Name == c.name })
		help, told, after := cmp.Or(f.Help, c.name), c.reason, ""
		if c.row != nil {
			if e := c.row.Details["error"]; e != "" && c.status == journal.OK {
				told = e
			}
			if ms, ok := c.row.Metrics["wall_ms"]; ok {
				after = unit.FormatMicros(ms * 1e3)
			}
		}
		table = append(table, []string{help, c.coord(bench.RanksAxis), string(c.status), after, shortened(told, 160)})
	}
	return []bench.Section{{Title: "Mistakes and failures",
		Text: fmt.Sprintf("Each is made by one rank; every rank must get an error that says what happened, in time: %s.",
			countOf(mine)),
		Table: table}}
}

func shortened(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// testTable counts the four outcomes and the time of each group.
func testTable(cells []cell) []bench.Section {
	table := [][]string{{"part", "group", "what it does", "passed", "failed", "skipped", "not executed",
		"elements checked", "time"}}
	group := func(c cell) string {
		switch c.part {
		case matrix.Correctness:
			return c.coord("algorithm")
		case matrix.Contracts:
			return c.coord("contract")
		}
		return "all"
	}
	for _, part := range []string{matrix.Correctness, matrix.Contracts, matrix.Errors} {
		mine := lists.Filter(cells, inPart(part))
		for _, name := range values(mine, group) {
			in := lists.Filter(mine, func(c cell) bool { return group(c) == name })
			t := countOf(in)
			text := "an error on every rank, in time"
			switch part {
			case matrix.Correctness:
				text = matrix.Help(name)
			case matrix.Contracts:
				text = matrix.ContractHelp[name]
			}
			var took, elements float64
			counted := map[*journal.Row]bool{}
			for _, c := range in {
				if c.row != nil && !counted[c.row] {
					counted[c.row] = true
					took += c.row.Metrics["wall_ms"]
					elements += c.row.Metrics["elements"]
				}
			}
			table = append(table, []string{part, name, text, strconv.Itoa(t.passed), strconv.Itoa(t.failed),
				strconv.Itoa(t.skipped), strconv.Itoa(t.missing),
				unit.FormatSI(elements), unit.FormatDuration(time.Duration(took * float64(time.Millisecond)))})
		}
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{Detail: true, Title: "Tests", Text: "What ran, group by group.", Table: table}}
}
