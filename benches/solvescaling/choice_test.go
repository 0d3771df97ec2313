package solvescaling

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// solvedBy returns a row of two ranks, solved by cg with a preconditioner.
func solvedBy(pre string, setup, seconds, iterations float64) journal.Row {
	r := newRow(strong, 2, 9000, seconds, iterations)
	r.Point = r.Point.With(precondAxis, point.StringValue(pre))
	r.Metrics["precond_setup_s"], r.Metrics["bytes_model"], r.Metrics["bytes"] = setup, 1e6*seconds/iterations, 1000
	r.Stats = journal.NewObject(map[string]journal.Stat{"solve_time_s": {Min: seconds, Max: 1.02 * seconds}})
	return r
}

// fourTimes returns the rows of four launches each.
func fourTimes(rows []journal.Row) []journal.Row { return slices.Concat(rows, rows, rows, rows) }

// The table of a comparison and the text below it say what the rows support, and nothing else.
func TestComparison(t *testing.T) {
	disturbed := func(r journal.Row) journal.Row { r.Quality = journal.QualityDisturbed; return r }
	failed := solvedBy("amg", 1, 1, 10)
	failed.Status = journal.Failed
	halted := solvedBy("amg", 0, 0.01, 10)
	halted.Conditions = []journal.Condition{{Code: journal.CodeEarlyStop}}
	noisy := solvedBy("gmg", 0.1, 0.4, 10)
	noisy.Stats = noisy.Stats.With("solve_time_s", journal.Stat{Min: 0.4, Max: 3})
	slow, fast := solvedBy("none", 0, 2, 400), solvedBy("gmg", 0.1, 0.4, 10)
	for name, c := range map[string]struct {
		rows []journal.Row // launched four times each
		want []string
		not  string
	}{
		"clear": {[]journal.Row{slow, fast},
			[]string{"Choose cg + gmg: 500 ms to the solution, 0.25 the time of cg, the next.",
				"Why: cg + gmg needs 10 iterations, cg 400; one takes 8 times the time, and moves 8 times the bytes; set-up is " +
					"20 % of its time to the solution."}, "not resolved"},
		"other order": {[]journal.Row{fast, slow}, []string{"Choose cg + gmg"}, "not resolved"},
		"near": {[]journal.Row{slow, solvedBy("jacobi", 0, 1.98, 350)}, []string{"not resolved: their intervals overlap"},
			"Choose"},
		"near, but known": {[]journal.Row{slow, solvedBy("jacobi", 0, 1.8, 350)},
			[]string{"Choose cg + jacobi: 1.8 s to the solution, 0.9 the time of cg"}, "not resolved"},
		"one of three": {[]journal.Row{slow, fast, solvedBy("amg", 0.05, 0.452, 12)},
			[]string{"not resolved among cg + gmg, cg + amg: their"}, "Choose"},
		"noisy":     {[]journal.Row{slow, noisy}, []string{"not resolved: their"}, "Choose"},
		"disturbed": {[]journal.Row{slow, disturbed(fast)}, []string{"not resolved: other programs disturbed the rows"}, "Why"},
		"disturbed once": {[]journal.Row{slow, disturbed(solvedBy("gmg", 9, 9, 10)), fast},
			[]string{"Choose cg + gmg: 500 ms"}, "disturbed"},
		"failed": {[]journal.Row{slow, fast, failed},
			[]string{"Choose cg + gmg", "Failed and not compared: cg + amg."}, "not resolved"},
		"stopped": {[]journal.Row{slow, fast, halted}, []string{"Choose cg + gmg"}, "amg"},
		"many right-hand": {[]journal.Row{slow, solvedBy("gmg", 3, 0.4, 10)},
			[]string{"Choose cg: 2 s", "a solve by cg + gmg takes 400 ms, one by cg 2 s"}, "not resolved"},
	} {
		s := comparisonSections(dataset.All(fourTimes(c.rows)))
		if len(s) != 1 || !s[0].Headline || !strings.Contains(s[0].Title, "on 2 ranks") {
			t.Errorf("%s: %+v", name, s)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(benchtest.Text(s[0]), want) {
				t.Errorf("%s: %s\nwant %s", name, benchtest.Text(s[0]), want)
			}
		}
		if strings.Contains(benchtest.Text(s[0]), c.not) {
			t.Errorf("%s: %s\nis not to say %q", name, benchtest.Text(s[0]), c.not)
		}
	}
	// One launch of each leaves the choice open, however large the difference.
	once := comparisonSections(dataset.All([]journal.Row{slow, fast}))
	if text := benchtest.Text(once[0]); !strings.HasPrefix(text,
		"The fastest way to the solution is not resolved: one launch each.") {
		t.Error(text)
	}
	s := comparisonSections(dataset.All(fourTimes([]journal.Row{slow, fast})))
	if said := s[0].Sentences; len(said) != 2 || said[0].ID != "choice" || len(said[0].Rows) != 8 ||
		!strings.Contains(said[0].Text, "the next.") {
		t.Errorf("the evidence is %+v", said)
	}
	if got := strings.Join(s[0].Table[1], "|"); got != "cg + gmg|10|0.1|0.4|0.5|0.5 to 0.508|40000|20|391Ki|9.77Ki" {
		t.Errorf("the line is %s", got)
	}
	f := comparisonFigure(dataset.All([]journal.Row{slow, disturbed(fast)}))
	if len(f.Panels) != 1 || strings.Join(f.Panels[0].X.Categories, "|") != "cg + gmg|cg" ||
		!f.Panels[0].Series[0].Points[0].Hollow || f.Panels[0].Series[1].Points[0].Y != 1e5 {
		t.Errorf("%+v", f)
	}
	other := fast
	other.Point = other.Point.With(problemAxis, point.StringValue("mesh")) // another problem
	fewer := fast
	one := 1
	fewer.NumRanks = &one
	for name, rows := range map[string][]journal.Row{"one solver": {fast, fast}, "two problems": {slow, other},
		"different ranks": {slow, fewer}, "none": nil} {
		if s := comparisonSections(dataset.All(rows)); len(s) != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
