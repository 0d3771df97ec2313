package tune

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// toy returns a bench with 2 sizes, 3 chunks and 3 values of a variable. The default is the first
// chunk with the variable unset, which is not part of the sweep.
func toy(clauses ...bench.Clause) *bench.Bench {
	return bench.New("toy", func(context.Context, *bench.State) error { return nil }, append([]bench.Clause{
		bench.Bytes("size", "1K,1M"), bench.Ints("chunk", "1,2,4"), bench.Env("A", "1", "2", "3"),
		bench.Metric("time_us", "us", "lower"),
	}, clauses...)...)
}

// study plans the bench and its default as the command line does.
func study(t *testing.T, b *bench.Bench, goal Goal, cfg Config, req plan.Request) (*Study, error) {
	t.Helper()
	req.Backend, req.Trials = "cpu", 1
	p := must.Get(plan.Make(b, req))(t)
	for _, v := range Swept(p, slices.Concat(goal.Over, goal.Per)) {
		if v.Env {
			req.Envs = append(slices.Clone(req.Envs), plan.Assign{Name: v.Name, Text: "-"})
		} else {
			req.Axes = append(slices.Clone(req.Axes), plan.Assign{Name: v.Name, Text: v.First})
		}
	}
	base := must.Get(plan.Make(b, req))(t)
	return NewStudy(p, base, goal, cfg)
}

// textOf returns a value of a task as text, "-" for an unset variable.
func textOf(t plan.Task, name string) string {
	text, _, unset, _ := value(t, name)
	if unset {
		return "-"
	}
	return text
}

// rowOf returns a successful row of a task, one second after the previous row.
func rowOf(t plan.Task, us float64, nth int) journal.Row {
	return journal.Row{Bench: "toy", Point: t.Point, Env: t.Env, Trial: t.Trial, Key: t.Key, NumRanks: &t.Ranks,
		Status: journal.OK, Metrics: map[string]float64{"time_us": us}, Units: map[string]string{"time_us": "us"},
		Time: epoch.Add(time.Duration(nth+1) * time.Second)}
}

var epoch = time.Unix(1e9, 0)

// conduct runs a study with given results. It starts with existing rows, and stops when the study
// ends or has a given number of rows.
func conduct(s *Study, rows []journal.Row, most int, measure func(plan.Task, int) []journal.Row) []journal.Row {
	have := map[taskTrial]bool{}
	for _, r := range rows {
		have[taskTrial{r.TaskKey(), r.Trial}] = true
	}
	starts := []time.Time{epoch}
	for groups := s.Next(rows, starts); len(groups) > 0; groups = s.Next(rows, starts) {
		for _, g := range groups {
			for _, task := range g.Tasks {
				if len(rows) >= most {
					return rows
				}
				if at := (taskTrial{task.Key, task.Trial}); !have[at] {
					rows, have[at] = append(rows, measure(task, len(rows))...), true
				}
			}
		}
	}
	return rows
}

const all = math.MaxInt

// steady adds noise of a few thousandths, the same in every study.
func steady(us func(plan.Task) float64) func(plan.Task, int) []journal.Row {
	return func(t plan.Task, nth int) []journal.Row {
		wobble := 1 + 0.001*float64((t.Trial*7+len(t.Key)+int(t.Key[0]))%5)
		return []journal.Row{rowOf(t, us(t)*wobble, nth)}
	}
}

// cost is lowest at chunk 2 with A=3; the default, A unset, costs as much as A=1.
func cost(t plan.Task) float64 {
	us := map[string]float64{"1": 130, "2": 100, "4": 150}[textOf(t, "chunk")]
	us *= map[string]float64{"-": 1.2, "1": 1.2, "2": 1.1, "3": 1}[textOf(t, "A")]
	if textOf(t, "size") == "1048576" {
		us *= 50
	}
	return us
}

// best describes the best setting of a finding.
func best(r Result, i int) string {
	f := r.Findings[i]
	if f.Answer.Best < 0 {
		return "none"
	}
	var parts []string
	for v, l := range f.Levels[f.Answer.Best] {
		for n, name := range r.Variables[v].Names {
			parts = append(parts, name+"="+r.Variables[v].Values[l][n])
		}
	}
	return strings.Join(parts, " ")
}

func TestStudyOverASize(t *testing.T) {
	s := must.Get(study(t, toy(), Goal{Metric: "time_us", Over: []string{"size"}}, Config{}, plan.Request{}))(t)
	rows := conduct(s, nil, all, steady(cost))
	r := s.Result(rows, []time.Time{epoch})
	f := r.Findings[0]
	if best(r, 0) != "A=3 chunk=2" || !f.Answer.Done || f.Size != 10 || f.Cells != 2 {
		t.Errorf("best %s of %d settings, by %d cells: %+v", best(r, 0), f.Size, f.Cells, f.Answer)
	}
	want := math.Log(100.0 / (130 * 1.2))
	if c := f.Answer.Confirmed; c == nil || !c.Known || c.Low > want+0.005 || c.High < want-0.005 {
		t.Errorf("gain %+v, want %v", c, want)
	}
	if r.Unit != "us" || r.Seconds != float64(len(rows)) || f.Answer.Launches*2 != len(rows) || f.Answer.Full != 60 {
		t.Errorf("%+v, %d rows", r, len(rows))
	}
	// Settings that differ only in axes share processes; another value of the variable needs new ones.
	again, _ := study(t, toy(), Goal{Metric: "time_us", Over: []string{"size"}}, Config{}, plan.Request{})
	groups := again.Next(nil, nil)
	if len(groups) != 4 {
		t.Errorf("%d launches for 4 values of the variable", len(groups))
	}
	for _, g := range groups {
		for _, task := range g.Tasks {
			if g.Env.String() != task.Env.String() || len(g.Tasks) != 6 && textOf(task, "A") != "-" {
				t.Errorf("a launch of %v", g.Tasks)
			}
		}
	}
}

// The geometric mean over sizes weighs all sizes equally: four times faster at a small size
// outweighs twice slower at a size that takes most of the time.
func TestStudyTakesTheGeometricMean(t *testing.T) {
	for _, maximise := range []bool{false, true} {
		s := must.Get(study(t, toy(), Goal{Metric: "time_us", Maximise: maximise, Over: []string{"size"}}, Config{},
			plan.Request{Envs: []plan.Assign{{Name: "A", Text: "-"}}, Axes: []plan.Assign{{Name: "chunk", Text: "1,2"}}}))(t)
		rows := conduct(s, nil, all, steady(func(task plan.Task) float64 {
			switch textOf(task, "chunk") + " " + textOf(task, "size") {
			case "1 1024":
				return 4
			case "2 1024":
				return 1
			case "1 1048576":
				return 1000
			default:
				return 2000
			}
		}))
		want := map[bool]string{false: "chunk=2", true: "chunk=1"}[maximise]
		r := s.Result(rows, []time.Time{epoch})
		if best(r, 0) != want {
			t.Errorf("maximise %v: best %s", maximise, best(r, 0))
		}
		if c := r.Findings[0].Answer.Confirmed; !maximise && (c == nil || math.Abs(c.Mid-math.Log(0.5)/2) > 0.005) {
			t.Errorf("gain %+v: want the root of 1/4 times 2", c)
		}
	}
}

// Each size has its own winner, the points of all sizes and settings share launches, and zipped names
// are one variable.
func TestStudyPerSize(t *testing.T) {
	fresh := func() *Study {
		s := must.Get(study(t, toy(bench.Ints("depth", "10,20,40")), Goal{Metric: "time_us", Per: []string{"size"}}, Config{},
			plan.Request{Zips: [][]string{{"chunk", "depth"}}}))(t)
		return s
	}
	tasks := 0
	groups := fresh().Next(nil, nil)
	for _, g := range groups {
		tasks += len(g.Tasks)
	}
	if len(groups) != 4 || tasks != 20 {
		t.Fatalf("%d launches of %d tasks, want one for each value of the variable, of 10 settings at two sizes", len(groups),
			tasks)
	}
	s := fresh()
	rows := conduct(s, nil, all, steady(func(task plan.Task) float64 {
		us := cost(task)
		if textOf(task, "size") == "1024" && textOf(task, "chunk") == "4" {
			us /= 3
		}
		return us
	}))
	r := s.Result(rows, []time.Time{epoch})
	if small, large := best(r, 0), best(r, 1); small != "A=3 chunk=4 depth=40" || large != "A=3 chunk=2 depth=20" ||
		r.Findings[0].Per != "size=1024" {
		t.Errorf("%s and %s: %+v", small, large, r.Findings)
	}
}

// The description counts the settings of every race. Races are smaller if some points lack a value.
func TestStudyDescribes(t *testing.T) {
	b := toy(bench.Drop(func(p bench.Point) error {
		if p.At("chunk").Int() == 4 {
			if p.At("size").Int() == 1024 {
				return errors.New("larger than the whole")
			}
		}
		return nil
	}))
	s := must.Get(study(t, b, Goal{Metric: "time_us", Per: []string{"size"}}, Config{}, plan.Request{}))(t)
	want := "7 to 10 settings of 2 variables in each of 2 races: at most 126 launches; the full sweep at 6 " +
		"trials takes 102"
	if text := s.Describe(); !strings.Contains(text, want) {
		t.Error(text)
	}
}

// A killed and resumed study ends like an uninterrupted one. An interrupted study reports the best so
// far as not confirmed.
func TestStudyResumes(t *testing.T) {
	for _, c := range []struct {
		goal Goal
		cfg  Config
	}{
		{Goal{Metric: "time_us", Over: []string{"size"}}, Config{Launches: 60, Seed: 3}},
		{Goal{Metric: "time_us", Over: []string{"size"}}, Config{Seconds: 90}},
		{Goal{Metric: "time_us", Per: []string{"size"}}, Config{Launches: 120}},
	} {
		fresh := func() *Study {
			return must.Get(study(t, toy(), c.goal, c.cfg,
				plan.Request{Axes: []plan.Assign{{Name: "chunk", Text: "1,2,4,8,16"}}}))(t)
		}
		measure := steady(func(task plan.Task) float64 { return max(cost(task), 90) }) // chunks above 4 are the best
		s := fresh()
		rows := conduct(s, nil, all, measure)
		want, _ := json.Marshal(s.Result(rows, []time.Time{epoch}))
		if c.cfg.Seconds > 0 && (len(rows) > 100 || len(rows) < 60) {
			t.Errorf("%+v: %d rows of a second each", c.cfg, len(rows))
		}
		for killed := 1; killed < len(rows); killed += 1 + killed/3 {
			cut := fresh()
			some := conduct(cut, nil, killed, measure)
			if a := cut.Result(some, []time.Time{epoch}).Findings[0].Answer; a.Done && c.goal.Per == nil {
				t.Errorf("%+v: reported as confirmed after %d of %d rows", c, killed, len(rows))
			}
			s := fresh()
			whole := conduct(s, slices.Clone(some), all, measure)
			if got, _ := json.Marshal(s.Result(whole, []time.Time{epoch})); string(got) != string(want) {
				t.Fatalf("%+v: resumed after %d of %d rows\n%s\nwithout\n%s", c, killed, len(rows), got, want)
			}
		}
	}
}

// A setting that fails in any way is excluded with the reason, however fast it was.
func TestStudyLeavesOutWhatFails(t *testing.T) {
	ends := func(status journal.Status, reason string) func(*journal.Row) {
		return func(r *journal.Row) { r.Status, r.Reason = status, journal.Text(reason) }
	}
	takes := func(us float64) func(*journal.Row) { return func(r *journal.Row) { r.Metrics["time_us"] = us } }
	for reason, spoil := range map[string]func(*journal.Row){
		"failed: 3 wrong elements":         ends(journal.Failed, "3 wrong elements\nin rank 2"),
		"timeout: not finished within 3s":  ends(journal.Timeout, "not finished within 3s"),
		"skipped: not here":                ends(journal.Skipped, "not here"),
		"the row has no such metric":       func(r *journal.Row) { r.Metrics = nil },
		"time_us is 0":                     takes(0),
		"time_us is -5":                    takes(-5),
		"time_us is NaN":                   takes(math.NaN()),
		"time_us is +Inf":                  takes(math.Inf(1)),
		"no row for num_ranks=1 size=1024": func(r *journal.Row) { r.Point = nil }, // such as a table without a line
	} {
		s := must.Get(study(t, toy(), Goal{Metric: "time_us"}, Config{},
			plan.Request{Axes: []plan.Assign{{Name: "size", Text: "1K"}}}))(t)
		launched := 0
		rows := conduct(s, nil, all, func(task plan.Task, nth int) []journal.Row {
			row := rowOf(task, cost(task), nth)
			if textOf(task, "chunk") == "2" && textOf(task, "A") == "3" {
				row.Metrics["time_us"] = 1
				if launched++; launched > 2 { // the fastest by far at first
					spoil(&row)
				}
			}
			return []journal.Row{row}
		})
		r := s.Result(rows, []time.Time{epoch})
		out := r.Findings[0].Answer.Failed
		if best(r, 0) != "A=2 chunk=2" || len(out) != 1 || !strings.HasPrefix(out[0].Reason, reason) ||
			strings.Contains(out[0].Reason, "in rank 2") {
			t.Errorf("%s: best is %s, out: %+v", reason, best(r, 0), out)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
}

// The first row shows whether an undeclared metric exists. If not, nothing more is launched.
func TestStudyOfAnUndeclaredMetric(t *testing.T) {
	for metric, whole := range map[string]bool{"time_us": true, "seconds": true, "secunds": false} {
		s := must.Get(study(t, toy(), Goal{Metric: metric, Over: []string{"size"}}, Config{}, plan.Request{}))(t)
		launches := 0
		rows := conduct(s, nil, all, func(task plan.Task, nth int) []journal.Row {
			row := rowOf(task, cost(task), nth)
			if launches++; launches == 1 && metric != "time_us" {
				row.Status, row.Reason = journal.Failed, "this one says nothing"
			}
			row.Metrics["seconds"] = row.Metrics["time_us"] / 1e6
			return []journal.Row{row}
		})
		r := s.Result(rows, []time.Time{epoch})
		// a launch that fails, and one of two sizes
		if f := r.Findings[0].Answer; whole != (best(r, 0) != "none") || !whole && len(rows) > 4 {
			t.Errorf("%s: best is %s after %d rows: %+v", metric, best(r, 0), len(rows), f.Failed)
		} else if !whole && !slices.ContainsFunc(f.Failed, func(x Failure) bool {
			return strings.Contains(x.Reason, `unknown metric "secunds"`)
		}) {
			t.Errorf("%s: %+v", metric, f.Failed)
		}
	}
}

// If the sweep does not list "unset", the default has levels that no other setting has, and its
// speed says nothing about any single one of them.
func TestStudyOfAConfoundedDefault(t *testing.T) {
	b := bench.New("toy", func(context.Context, *bench.State) error {
		return nil
	}, bench.Env("A", "1", "2", "3"), bench.Env("B", "1", "2", "3"),
		bench.Env("C", "1", "2", "3"), bench.Metric("time_us", "us", "lower"))
	s := must.Get(study(t, b, Goal{Metric: "time_us"}, Config{}, plan.Request{}))(t)
	rows := conduct(s, nil, all, steady(func(task plan.Task) float64 {
		return map[string]float64{"-": 500, "1": 130, "2": 120, "3": 100}[textOf(task, "A")]
	}))
	a := s.Result(rows, []time.Time{epoch}).Findings[0].Answer
	if a.Confirmed == nil || math.Abs(a.Confirmed.Mid-math.Log(0.2)) > 0.01 {
		t.Errorf("gain %+v: want the gain from 500 to 100", a.Confirmed)
	}
}

// The reported disturbance is the strongest one, and no number in a remark counts.
func TestStudyReportsTheStrongestDisturbance(t *testing.T) {
	s := must.Get(study(t, toy(), Goal{Metric: "time_us", Over: []string{"size"}}, Config{}, plan.Request{}))(t)
	rows := conduct(s, nil, all, func(task plan.Task, nth int) []journal.Row {
		row := rowOf(task, cost(task), nth)
		if nth%2 == 0 {
			row.Quality, row.Conditions = journal.QualityDisturbed, []journal.Condition{journal.Remarkf("99 of them"),
				journal.NewCondition(journal.CodeSteal, journal.Named{"share": []float64{0.094, 0.704, 0.12}[nth/2%3]})}
		}
		return []journal.Row{row}
	})
	if f := s.Result(rows, []time.Time{epoch}).Findings[0]; f.Disturbed == 0 ||
		f.DisturbedBy.Code != journal.CodeSteal || f.DisturbedBy.Values.Get("share") != 0.704 {
		t.Errorf("%d disturbed, most by %+v", f.Disturbed, f.DisturbedBy)
	}
}

// Invalid requests are errors that name a valid one.
func TestStudyRefuses(t *testing.T) {
	one := []plan.Assign{{Name: "chunk", Text: "1"}}
	for want, c := range map[string]struct {
		goal Goal
		cfg  Config
		req  plan.Request
	}{
		"size is in --over and in --per": {goal: Goal{Metric: "time_us", Over: []string{"size"}, Per: []string{"size"}}},
		`--per: unknown axis "sise"`:     {goal: Goal{Metric: "time_us", Per: []string{"sise"}}},
		`--over: unknown axis "sise"`:    {goal: Goal{Metric: "time_us", Over: []string{"sise"}}},
		"nothing to tune": {goal: Goal{Metric: "time_us", Over: []string{"size"}},
			req: plan.Request{Axes: one, Envs: []plan.Assign{{Name: "A", Text: "-"}}}},
		"--launches 20 are too few at size=1024: 2 races": {goal: Goal{Metric: "time_us", Per: []string{"size"}},
			cfg: Config{Launches: 20}},
		"size is zipped with": {goal: Goal{Metric: "time_us", Over: []string{"size"}},
			req: plan.Request{Axes: []plan.Assign{{Name: "chunk", Text: "1,2"}}, Zips: [][]string{{"size", "chunk"}}}},
	} {
		if _, err := study(t, toy(), c.goal, c.cfg, c.req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, have %v", want, err)
		}
	}
}
