package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/inputs"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestEstimate(t *testing.T) {
	own := bench.DefaultMeasure()
	own.Stop.MinTime, own.Stop.MaxTime, own.Warmup.MaxTime = time.Second, 3*time.Second, 2*time.Second
	p := must.Get(Make(make4x4(bench.Measure(own)), request(nil, nil)))(t)
	const start = 20 * time.Millisecond
	if least, most := p.Estimate(); least != start+3*time.Second || most != start+3*5*time.Second {
		t.Errorf("3 points: %v to %v", least, most)
	}
	b := make4x4()
	b.Parts[0].Body, b.Parts[0].Timeout = nil, 7*time.Second
	b.Parts[0].Command = &decl.Command{Argv: []string{"x"}, Warmup: 1}
	p = must.Get(Make(b, request(nil, nil)))(t)
	if least, most := p.Estimate(); least != 3*start || most != 3*(start+2*7*time.Second) {
		t.Errorf("3 programs: %v to %v", least, most)
	}
	// A single known point of a part stands for the others of that part, but not for points of another part.
	s := bench.Suite("s", bench.Part("a", nop, bench.Ints("i", "1,2")), bench.Part("b", nop, bench.Ints("i", "1,2,3")))
	p = must.Get(Make(s, request(nil, nil)))(t)
	took := map[string]time.Duration{}
	for _, g := range p.Groups {
		took[g.Tasks[0].Key] = map[string]time.Duration{"a": time.Second, "b": time.Minute}[g.Part.Name]
	}
	if total, known := p.EstimateFrom(took); total != 2*time.Second+3*time.Minute || known != 2 {
		t.Errorf("%v from %d points", total, known)
	}
	// A part without a known point takes as long as the points of the other part.
	maps.DeleteFunc(took, func(_ string, d time.Duration) bool { return d == time.Minute })
	if total, known := p.EstimateFrom(took); total != 5*time.Second || known != 1 {
		t.Errorf("%v from one known point, %d", total, known)
	}
}

// A program with a single point is a launch of its own, and its own ranks are no coordinate.
func TestOneProgram(t *testing.T) {
	b := bench.New("b", nop)
	b.Parts[0].Body = nil
	b.Parts[0].Command = &decl.Command{Argv: []string{"x"}}
	p := must.Get(Make(b, Request{Backend: "cpu", Trials: 1}))(t)
	if len(p.Groups) != 1 || len(p.Groups[0].Tasks) != 1 {
		t.Fatalf("%+v", p.Groups)
	}
	if label := (Task{Point: point.Point{{Name: "i", Value: point.IntValue(1)}}}).Label(); label != "i=1" {
		t.Errorf("a task with its own ranks is %q", label)
	}
}

// The functions of a bench see the backend and the number of ranks with a point, and the rows have no column for them.
func TestDropSeesBackend(t *testing.T) {
	var seen []string
	b := bench.New("b", nop, bench.Ints("n", "1"), bench.Ranks("2"), bench.Drop(func(p point.Point) error {
		seen = append(seen, p.String())
		return nil
	}))
	p := must.Get(Make(b, request(nil, nil)))(t)
	if !slices.Contains(seen, "n=1 num_ranks=2 backend=cpu") {
		t.Errorf("seen: %q", seen)
	}
	if len(p.Axes) != 1 || p.Axes[0].Name != "n" {
		t.Errorf("columns %+v", p.Axes)
	}
}

func TestOneDroppedPointSaysWhy(t *testing.T) {
	b := bench.New("b", nop, bench.Ints("n", "1"), bench.Drop(func(point.Point) error { return errors.New("too warm") }))
	_, err := Make(b, request(nil, nil))
	if err == nil || !strings.Contains(err.Error(), "the only point is dropped: too warm") {
		t.Error(err)
	}
}

func TestSkip(t *testing.T) {
	req := request(nil, []string{"A=x,y"})
	req.Skips = []Assign{{"size", "2K"}, {"A", "y"}}
	words, _ := tasks(must.Get(Make(make4x4(), req))(t))
	if got := strings.Join(words, "; "); got != "size=1Ki ranks=1 A=x; size=4Ki ranks=1 A=x" {
		t.Error(got)
	}
}

// A variable that is not swept is part of the rows' identity. A swept one is a coordinate.
func TestVariablesAreInputs(t *testing.T) {
	req := request(nil, []string{"A=1,2"})
	req.Environ = map[string]string{"A": "1", "B": "2"}
	p := must.Get(Make(make4x4(), req))(t)
	in := p.Fingerprints[p.Groups[0].Tasks[0].Inputs]
	if _, has := in["variable A"]; has || in["variable B"] != "2" {
		t.Errorf("inputs %v", in)
	}
}

func TestChangedContents(t *testing.T) {
	sums := map[string]string{"a": "1", "b": "2"}
	b := bench.New("b", nop, bench.Ints("n", "1"))
	b.Content = func(p, options point.Point) map[string]string { return sums }
	p := must.Get(Make(b, request(nil, nil)))(t)
	task := p.Groups[0].Tasks[0]
	if names := p.ChangedContents(task); len(names) > 0 {
		t.Errorf("%v changed", names)
	}
	sums = map[string]string{"a": "1", "b": "3", "c": "4"}
	if names := p.ChangedContents(task); fmt.Sprint(names) != "[b c]" {
		t.Errorf("%v changed, want b and c", names)
	}
}

func TestUntracked(t *testing.T) {
	b := make4x4(bench.Env("PATH", "/a", "/b"))
	b.Parts[0].Body = nil
	b.Parts[0].Command = &decl.Command{Argv: []string{"prog"}, Setup: []string{"make"}}
	p := must.Get(Make(b, request(nil, nil)))(t)
	if list := p.Untracked(); list != nil {
		t.Errorf("a bench of this program: %q", list)
	}
	b.Tracked = &inputs.Set{Inputs: journal.Inputs{}, Unknown: []string{"a pipe"}}
	p = must.Get(Make(b, request(nil, nil)))(t)
	b.Parts = append(b.Parts, &decl.Part{Name: "in Go"}, &decl.Part{Name: "empty", Command: &decl.Command{}})
	if list := p.Untracked(); len(list) != 3 || list[0] != "a pipe" || !strings.Contains(list[1], "setup may build it") ||
		!strings.Contains(list[2], "depends on PATH") {
		t.Errorf("%q", list)
	}
}

func TestParseNoise(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "0%": 0, "1%": 0.01, "0.5": 0.5, "1": -1, "100%": -1, "-1%": -1,
		"x": -1} {
		if got, err := ParseNoise(text); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%s is %g, %v", text, got, err)
		}
	}
}

// TestSingleRank checks that one rank is a number of ranks, and that a program that starts its own has none.
func TestSingleRank(t *testing.T) {
	for ranks, label := range map[int]string{0: "p ", 1: "p  ranks=1", 2: "p  ranks=2"} {
		task := Task{Part: "p", Ranks: ranks}
		_, has := task.withRanks().Get(bench.RanksAxis)
		if got := task.Label(); got != label || has != (ranks > 0) {
			t.Errorf("%d ranks: %q, coordinate %v", ranks, got, has)
		}
		if got := ranksPtr(ranks); (got != nil) != (ranks > 0) || got != nil && *got != ranks {
			t.Errorf("%d ranks: another number is in the key", ranks)
		}
		if got := (&Plan{}).Processes(&Group{Ranks: ranks}); got != max(ranks, 1) {
			t.Errorf("%d ranks: %d processes", ranks, got)
		}
		if got := (&Plan{InProcess: true}).Processes(&Group{Ranks: ranks, Part: &decl.Part{}}); got != 1 {
			t.Errorf("%d ranks in one process: %d processes", ranks, got)
		}
		for virtual, want := range map[bool]int{false: ranks, true: 1} {
			if got := (&Plan{Virtual: virtual}).BodyRanks(&Group{Ranks: ranks}); got != want {
				t.Errorf("%d ranks, virtual %v: %d execute the body", ranks, virtual, got)
			}
		}
	}
}

func TestPreferredBackend(t *testing.T) {
	p := must.Get(Make(make4x4(), request(nil, nil)))(t)
	for want, prefer := range map[string]func(point.Point) string{
		"mpi": func(point.Point) string { return "mpi" },
		"": func(q point.Point) string {
			return map[bool]string{true: "cpu", false: "mpi"}[q.At("size").Int() > 2048]
		},
	} {
		p.Bench.Prefer = prefer
		if got := p.PreferredBackend(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNotesAreNotRepeated(t *testing.T) {
	var p Plan
	for _, text := range []string{"a", "b", "a"} {
		must.Do(t, p.refuse(decl.Note(text)))
	}
	if !slices.Equal(p.Notes, []string{"a", "b"}) {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestVersionIsAnInput(t *testing.T) {
	p := Plan{Bench: &bench.Bench{}}
	for _, version := range []string{"", "2"} {
		in := p.newPartInputs(&decl.Part{}, Request{}, version).common
		if got, has := in["version"]; has != (version != "") || got != version {
			t.Errorf("version %q: inputs %v", version, in)
		}
	}
}

func TestBadOption(t *testing.T) {
	for text, sweepable := range map[string]bool{"1,x": true, "x": false} {
		if v, err := parseOption(decl.Option{Name: "n", Kind: point.Int, Sweepable: sweepable}, text); err == nil {
			t.Errorf("%s gives %v", text, v)
		}
	}
}

// TestIdentity checks that only options that cannot change a result have their default in rows.
func TestIdentity(t *testing.T) {
	number := point.IntValue
	p := Plan{Bench: &bench.Bench{Options: []decl.Option{{Name: "format", Output: true, Default: number(1)},
		{Name: "seed", Default: number(1)}, {Name: "colour", Output: true, Default: number(1)}}}}
	p.Options = p.Options.With("format", number(2)).With("seed", number(2))
	if got := p.Identity().String(); got != "format=1 seed=2" {
		t.Errorf("the options are %s", got)
	}
}

// TestTimeOfOneLaunch checks that a limit of time is refused where it changes nothing.
func TestTimeOfOneLaunch(t *testing.T) {
	for _, s := range []Sampling{{MinTime: 1}, {MaxTime: 1}} {
		if _, err := s.launches("b", measure.Stop{}); err == nil || !strings.Contains(err.Error(), "once per point") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := (Sampling{MaxSamples: 1}).launches("b", measure.Stop{}); err != nil {
		t.Error(err)
	}
}

// TestMostPoints checks that a sweep may have a million points, and not one more.
func TestMostPoints(t *testing.T) {
	axis := func(name string, n int) decl.Axis {
		return decl.Axis{Name: name, Kind: point.Int, Values: make([]point.Value, n)}
	}
	for n, good := range map[int]bool{1000: true, 1001: false} {
		product, err := newProduct(&decl.Part{Axes: []decl.Axis{axis("m", 1000), axis("n", n)}})
		if (err == nil) != good || good && product.total != 1000*n {
			t.Errorf("1000 times %d points: %d, %v", n, product.total, err)
		}
	}
}
