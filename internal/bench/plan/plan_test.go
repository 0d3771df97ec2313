package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

func nop(context.Context, *bench.State) error { return nil }

func assign(s string) Assign {
	name, text, _ := strings.Cut(s, "=")
	return Assign{name, text}
}

func request(axes, envs []string, zips ...[]string) Request {
	r := Request{Backend: "cpu", Seed: 1, Zips: zips, Trials: 1}
	for _, a := range axes {
		r.Axes = append(r.Axes, assign(a))
	}
	for _, e := range envs {
		r.Envs = append(r.Envs, assign(e))
	}
	return r
}

func make4x4(items ...bench.Clause) *bench.Bench {
	return bench.New("b", nop, append([]bench.Clause{bench.Bytes("size", "1K:4K:x2")}, items...)...)
}

func TestLaunchCounts(t *testing.T) {
	four := []string{"A=1,2,3,-", "B=1,2,3,-"}
	for _, c := range []struct {
		what     string
		bench    *bench.Bench
		req      Request
		points   int
		launches int
	}{
		{"one launch for all sizes", make4x4(), request(nil, nil), 3, 1},
		{"crossed env", make4x4(), request(nil, four), 48, 16},
		{"zipped env", make4x4(), request(nil, four, []string{"A", "B"}), 12, 4},
		{"zipped env and two rank counts", make4x4(bench.Ranks("2,4")), request(nil, four, []string{"A", "B"}), 24, 8},
		{"declared zip", make4x4(bench.Zip(bench.Env("A", "1", "2"), bench.Env("B", "1", bench.Unset))), request(nil, nil),
			6, 2},
		{"figure over an axis of another backend", make4x4(bench.OnlyOn([]string{"cuda"}, bench.Ints("cu", "1,2")),
			bench.Plot("x=cu,y=time_us,by=size")), request(nil, nil), 3, 1},
		{"env zipped with an axis", make4x4(bench.Zip(bench.Env("A", "1", "2"), bench.Ints("cu", "1,2"))), request(nil, nil),
			6, 2},
		{"axes zipped", bench.New("b", nop, bench.Zip(bench.Ints("m", "1,2"), bench.Ints("n", "3,4")),
			bench.Ints("k", "5,6")), request(nil, nil), 4, 1},
		{"ranks zipped with env", make4x4(bench.Zip(bench.Ranks("2,4"), bench.Env("A", "x", "y"))), request(nil, nil), 6, 2},
		{"no axes at all", bench.New("b", nop), request(nil, nil), 1, 1},
		{"ranks by --ranks", make4x4(), request([]string{"num_ranks=1,2,8"}, nil), 9, 3},
	} {
		p, err := Make(c.bench, c.req)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if p.Points != c.points || p.Launches() != c.launches {
			t.Errorf("%s: %d points in %d launches, want %d in %d", c.what, p.Points, p.Launches(), c.points, c.launches)
		}
	}
}

// Axes with one value, their default, are marked. An axis that is set to another value, or swept, is not.
func TestAxesAtDefault(t *testing.T) {
	b := bench.New("b", nop, bench.Strings("op", "sum"), bench.Ints("n", "1"), bench.Ints("m", "1,2"))
	for _, c := range []struct {
		assigned []string
		want     string
	}{
		{nil, "op n"},
		{[]string{"op=max"}, "n"},
		{[]string{"op=sum", "n=1,2"}, "op"},
		{[]string{"m=1"}, "op n"},
	} {
		p, err := Make(b, request(c.assigned, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.AtDefault(), " "); got != c.want {
			t.Errorf("%v: %q at their defaults, want %q", c.assigned, got, c.want)
		}
	}
}

// A misspelt name of a declared variable is an error. Any other undeclared variable is set and
// listed as undeclared.
func TestUndeclaredVariables(t *testing.T) {
	b := make4x4(bench.Env("NCCL_PROTO", "LL", "Simple"))
	_, err := Make(b, request(nil, []string{"NCCL_PORTO=LL"}))
	if err == nil || !strings.Contains(err.Error(),
		`unknown environment variable "NCCL_PORTO", did you mean "NCCL_PROTO"?`) {
		t.Errorf("a slip: %v", err)
	}
	p := must.Get(Make(b, request(nil, []string{"NCCL_PROTO=LL", "NCCL_ALGO=Ring"})))(t)
	if fmt.Sprint(p.Undeclared) != "[NCCL_ALGO]" || fmt.Sprint(p.Envs) != "[NCCL_PROTO NCCL_ALGO]" {
		t.Errorf("not declared: %v of %v", p.Undeclared, p.Envs)
	}
}

// An axis with words accepts these and nothing else, in --skip too.
func TestWords(t *testing.T) {
	b := bench.New("b", nop, bench.Strings("dtype", "float16", "float32"))
	b.Parts[0].Axes[0].Words = map[string]string{"float16": "float16", "fp16": "float16", "float32": "float32"}
	p := must.Get(Make(b, request([]string{"dtype=fp16,float16"}, nil)))(t)
	if p.Points != 1 || p.Groups[0].Tasks[0].Point[0].Value.String() != "float16" {
		t.Errorf("fp16 and float16 are %d points", p.Points)
	}
	if _, err := Make(b, request([]string{"dtype=fp61"}, nil)); err == nil ||
		!strings.Contains(err.Error(), `axis dtype: unknown value "fp61", did you mean "fp16"?`) {
		t.Errorf("an unknown word: %v", err)
	}
	r := request(nil, nil)
	r.Skips = []Assign{{"dtype", "fp16"}}
	if p := must.Get(Make(b, r))(t); p.Points != 1 {
		t.Errorf("%d points without fp16", p.Points)
	}
}

// A program gets its point as arguments, so every point is a separate launch.
func TestProgramsAreLaunchedPerPoint(t *testing.T) {
	b := make4x4()
	b.Parts[0].Body = nil
	b.Parts[0].Command = &decl.Command{Argv: []string{"x"}}
	p, err := Make(b, request(nil, []string{"A=1,2"}))
	if err != nil || p.Launches() != 6 {
		t.Fatalf("%v launches, %v; want 6", p.Launches(), err)
	}
}

// Each part has its own rank counts.
func TestRanksStayWithTheirPart(t *testing.T) {
	s := bench.Suite("s",
		bench.Part("two", nop, bench.Ranks("2")),
		bench.Part("many", nop, bench.Ranks("2,4,8")))
	p := must.Get(Make(s, request(nil, nil)))(t)
	for _, g := range p.Groups {
		if g.Part.Name == "two" && g.Ranks != 2 {
			t.Errorf("part two is launched with %d ranks", g.Ranks)
		}
	}
	if p.Launches() != 4 {
		t.Errorf("%d launches, want 4", p.Launches())
	}
}

func TestBadRequests(t *testing.T) {
	b := func() *bench.Bench {
		return bench.New("b", nop, bench.Bytes("size", "1K,2K"), bench.DTypes("dtype", "f32", "bf16"),
			bench.Env("VAR", "1", "2"),
			bench.Choice("mode", "how", "fast", "safe"))
	}
	with := func(f func(*Request)) Request {
		r := request(nil, nil)
		f(&r)
		return r
	}
	for _, c := range []struct {
		what string
		req  Request
		want []string
	}{
		{"axis typo", request([]string{"sise=1"}, nil), []string{`unknown axis "sise"`, `did you mean "size"`, "dtype"}},
		{"reserved variable", request(nil, []string{"RANK=0,1"}), []string{"environment variable RANK cannot be swept"}},
		{"bad value", request([]string{"dtype=f31"}, nil), []string{"axis dtype", "f31"}},
		{"axis and env clash", request(nil, []string{"size=1"}), []string{"size", "clashes"}},
		{"unequal zip", request(nil, nil, []string{"size", "VAR", "dtype"}).withAxis("size=1,2,3"),
			[]string{"zip", "3 values", "equally many"}},
		{"zip typo", request(nil, nil, []string{"VAR", "sise"}), []string{"zip", `"sise"`}},
		{"zip of nothing known", request(nil, nil, []string{"x", "y"}), []string{"--zip", "size"}},
		{"env name", request(nil, []string{"1A=2"}), []string{"1A"}},
		{"skip typo", with(func(r *Request) {
			r.Skips = []Assign{{"dtpye", "f32"}}
		}), []string{"--skip", `did you mean "dtype"`}},
		{"skip of nothing", with(func(r *Request) {
			r.Skips = []Assign{{"dtype", "f64"}}
		}), []string{"drops nothing", "f32,bf16"}},
		{"only typo", with(func(r *Request) {
			r.Only = []string{"szie>1"}
		}), []string{`unknown name "szie"`, `did you mean "size"`}},
		{"empty selection", with(func(r *Request) {
			r.Only = []string{"size>1G"}
		}), []string{"empty selection", "size>1G", "size=1Ki,2Ki"}},
		{"option typo", with(func(r *Request) {
			r.Options = []Assign{{"mdoe", "fast"}}
		}), []string{"unknown option", `did you mean "mode"`}},
		{"option choice", with(func(r *Request) {
			r.Options = []Assign{{"mode", "fats"}}
		}), []string{"option mode", `did you mean "fast"`}},
		{"ranks below one", request([]string{"num_ranks=0"}, nil), []string{"at least one rank"}},
		{"too many points", request([]string{"size=1:1000000:+11", "dtype=f32,f16,bf16,f64"}, []string{"VAR=1,2,3,4"}),
			[]string{"more than 1000000 points"}},
	} {
		_, err := Make(b(), c.req)
		if err == nil {
			t.Errorf("%s: no error", c.what)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", c.what, err, w)
			}
		}
	}
}

func (r Request) withAxis(s string) Request {
	r.Axes = append(r.Axes, assign(s))
	return r
}

// A value that Drop rejects as unknown at every point is an error, even in a list with known
// values. A value that some point can use is not.
func TestUnknownValues(t *testing.T) {
	knows := map[string][]string{"sum": {"ring", "tree"}, "copy": {"ring"}}
	b := bench.New("b", nop, bench.Strings("op", "sum"), bench.Strings("algorithm", "ring"),
		bench.Drop(func(p point.Point) error {
			op := p.At("op")
			algorithm := p.At("algorithm")
			if !slices.Contains(knows[op.String()], algorithm.String()) {
				return fmt.Errorf("%s: %w", op, suggest.Unknown("algorithm", algorithm.String(), knows[op.String()]))
			}
			return nil
		}))
	const tre = `axis algorithm: unknown algorithm "tre", did you mean "tree"? (known: ring, tree)`
	for _, c := range []struct {
		axes []string
		want string
	}{
		{[]string{"algorithm=tre"}, tre},
		{[]string{"algorithm=ring,tre"}, tre},
		{[]string{"op=copy", "algorithm=ring,tree"}, `axis algorithm: unknown algorithm "tree" (known: ring)`},
		{[]string{"op=sum,copy", "algorithm=ring,tree"}, ""},
	} {
		_, err := Make(b, request(c.axes, nil))
		if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) {
			t.Errorf("%v: %s, want %q", c.axes, got, c.want)
		}
	}
}

func TestDropRecordsItsReason(t *testing.T) {
	asked := 0
	b := bench.New("b", nop, bench.Ranks("1,2"), bench.Ints("n", "1,2"), bench.Drop(func(p point.Point) error {
		asked++
		ranks := p.At(bench.RanksAxis)
		if p.At("n").Int() < ranks.Int() {
			return errors.New("fewer elements than ranks")
		}
		return nil
	}))
	p, err := Make(b, request(nil, nil))
	if err != nil || p.Points != 3 || len(p.Dropped) != 1 || p.Dropped[0].Reason != "fewer elements than ranks" {
		t.Fatalf("%+v, %v", p, err)
	}
	if p.Rows() != 4 {
		t.Errorf("%d rows planned, want 4: a dropped point is recorded", p.Rows())
	}
	if asked != 4 { // in Python, each question is a round trip
		t.Errorf("the function was asked %d times about 4 points", asked)
	}
}

// Refuse rejects the whole request because of an option, alone or together with a point.
func TestRefuse(t *testing.T) {
	b := bench.New("b", nop, bench.Ints("n", "1,2"), bench.Option("limit", point.Int, "5", "h"),
		bench.Refuse(func(p, options point.Point) error {
			n := p.At("n")
			limit := options.At("limit")
			if n.Int() > limit.Int() {
				return fmt.Errorf("--limit %s: below n=%s", limit, n)
			}
			return nil
		}))
	for text, want := range map[string]string{"5": "", "1": "--limit 1: below n=2", "-1": "--limit -1: below n=1"} {
		_, err := Make(b, Request{Backend: "cpu", Options: []Assign{{"limit", text}}})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("--limit %s: %v, want %q", text, err, want)
		}
	}
}

func TestAllDroppedSaysWhy(t *testing.T) {
	b := bench.New("b", nop, bench.Ints("n", "1,2"), bench.Drop(func(point.Point) error {
		return errors.New("never on a Sunday")
	}))
	if _, err := Make(b, request(nil, nil)); err == nil ||
		!strings.Contains(err.Error(), "all 2 points are dropped: never on a Sunday") {
		t.Errorf("%v", err)
	}
	b = bench.New("b", nop, bench.Ints("n", "1,2,3,4,5"), bench.Drop(func(p point.Point) error {
		return fmt.Errorf("not %s", p.At("n"))
	}))
	if _, err := Make(b, request(nil, nil)); err == nil ||
		!strings.Contains(err.Error(), "all 5 points are dropped: not 1; not 2; not 3; and 2 more reasons") {
		t.Errorf("%v", err)
	}
}

func TestTrialsAreInterleavedAndRepeatable(t *testing.T) {
	req := request(nil, []string{"A=1,2,3,4,5,6,7,8"})
	req.Trials = 3
	order := func(seed uint64) (out []string) {
		req.Seed = seed
		p := must.Get(Make(make4x4(), req))(t)
		for _, g := range p.Groups {
			out = append(out, fmt.Sprint(g.Trial, g.Env))
		}
		return out
	}
	a := order(1)
	if len(a) != 24 || !slices.Equal(a, order(1)) {
		t.Error("the same seed gave another order")
	}
	if slices.Equal(a, order(2)) {
		t.Error("another seed gave the same order")
	}
	for i, s := range a {
		if want := fmt.Sprint(i / 8); s[:1] != want {
			t.Errorf("launch %d belongs to trial %s: trials are not interleaved", i, s[:1])
		}
	}
}

func TestDeclarationIsNotChanged(t *testing.T) {
	b := make4x4(bench.Env("A", "1"))
	before := fmt.Sprint(b.Parts[0].Axes, b.Parts[0].Envs)
	must.Get(Make(b, request([]string{"size=7"}, []string{"A=9", "B=1"})))(t)
	if after := fmt.Sprint(b.Parts[0].Axes, b.Parts[0].Envs); after != before {
		t.Errorf("the declaration became %s", after)
	}
}

// The product contains every combination exactly once.
func TestProductAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.IntRange(1, 5).Draw(t, "a"), rapid.IntRange(1, 5).Draw(t, "b"), rapid.IntRange(1, 5).Draw(t, "c")
		spec := func(n int) string { return fmt.Sprintf("1:%d:+1", n) }
		bench := bench.New("x", nop, bench.Ints("a", spec(a)), bench.Zip(bench.Ints("b", spec(b)), bench.Ints("z", spec(b))),
			bench.Ints("c", spec(c)))
		p := must.Get(Make(bench, request(nil, nil)))(t)
		var want, got []string
		for i := range a {
			for j := range b {
				for k := range c {
					want = append(want, fmt.Sprintf("a=%d b=%d z=%d c=%d", i+1, j+1, j+1, k+1))
				}
			}
		}
		keys := map[string]bool{}
		for _, task := range p.Groups[0].Tasks {
			got = append(got, task.Point.String())
			keys[task.Key] = true
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if len(keys) != len(want) {
			t.Fatalf("%d keys for %d points", len(keys), len(want))
		}
	})
}

// An axis may have other values on a backend. Values from the command line win.
func TestOtherValuesOnABackend(t *testing.T) {
	b := make4x4(bench.Ints("i", "1,2"), bench.Backends("cpu", "toy"), bench.On("toy", bench.Ints("i", "7")))
	for _, c := range []struct {
		backend, asked string
		want           []string
	}{
		{"cpu", "", []string{"1", "2"}}, {"toy", "", []string{"7"}}, {"toy", "i=3,4", []string{"3", "4"}},
	} {
		req := request([]string{"size=1K"}, nil)
		if c.asked != "" {
			req.Axes = append(req.Axes, assign(c.asked))
		}
		req.Backend = c.backend
		p := must.Get(Make(b, req))(t)
		var got []string
		for _, task := range p.Groups[0].Tasks {
			got = append(got, task.Point.At("i").String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.backend, c.asked, got, c.want)
		}
	}
	for _, wrong := range []bench.Clause{bench.On("toy", bench.Ints("j", "1")), bench.On("toy", bench.Strings("i", "a"))} {
		if _, err := Make(make4x4(bench.Ints("i", "1"), wrong), request(nil, nil)); err == nil ||
			!strings.Contains(err.Error(), "on backend toy") {
			t.Errorf("other values of what is no such axis: %v", err)
		}
	}
}

// The estimate uses the earlier duration of each point, or the mean of its part. Without any
// earlier durations there is no estimate.
func TestEstimateFrom(t *testing.T) {
	req := request(nil, nil)
	req.Trials = 2
	p := must.Get(Make(make4x4(), req))(t)
	key := func(i int) string { return p.Groups[0].Tasks[i].Key }
	for _, c := range []struct {
		took  map[string]time.Duration
		total time.Duration
		known int
	}{
		{nil, 0, 0},
		{map[string]time.Duration{"of another point": time.Hour}, 0, 0},
		{map[string]time.Duration{key(0): time.Second, key(1): 3 * time.Second, key(2): 5 * time.Second}, 18 * time.Second,
			3},
		{map[string]time.Duration{key(0): time.Second, key(1): 3 * time.Second}, 12 * time.Second, 2},
	} {
		if total, known := p.EstimateFrom(c.took); total != c.total || known != c.known {
			t.Errorf("%v: %v from %d points, want %v from %d", c.took, total, known, c.total, c.known)
		}
	}
}

// Planning makes few allocations per point, and an outline holds few bytes per point.
func TestPlanWork(t *testing.T) {
	body := bench.New("b", nop, bench.Ints("m", "1:100:+1"), bench.Ints("n", "1:100:+1"), bench.Strings("op", "x", "y"))
	program := *body
	program.Parts = []*decl.Part{{Axes: body.Parts[0].Axes, Command: &decl.Command{Argv: []string{"prog"}}}}
	req := request(nil, nil)
	for name, b := range map[string]*bench.Bench{"body": body, "program": &program} {
		points := 0
		n := testing.AllocsPerRun(1, func() {
			p := must.Get(Make(b, req))(t)
			points = p.Points
		})
		if each := n / float64(points); points != 20_000 || each > 9 { // a program has a launch for each
			t.Errorf("%s: %.1f allocations for each of %d points", name, each, points)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p := must.Get(Outline(b, req))(t)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(p.Points); each > 32 {
			t.Errorf("%s: an outline holds %.0f bytes of each point", name, each)
		}
	}
}

// Outline yields the same groups and tasks as Make, except for the keys.
func TestOutline(t *testing.T) {
	small := bench.Drop(func(p point.Point) error {
		if m := p.At("m"); m.Int() > 2 {
			return fmt.Errorf("%d is too much", m.Int())
		}
		return nil
	})
	two := bench.Suite("b", bench.Part("one", nop, bench.Ranks("1,2"), bench.Ints("m", "1:4:+1"),
		bench.Env("E", "x", "-"), small),
		bench.Part("two", nop, bench.Ints("n", "1,2,3")))
	for _, trials := range []int{0, 1, 3} {
		req := request(nil, nil)
		req.Trials = trials
		held := must.Get(Make(two, req))(t)
		p := must.Get(Outline(two, req))(t)
		if p.Groups != nil || p.Dropped != nil || p.Points != held.Points || p.Trials != held.Trials ||
			p.Launches() != held.Launches() {
			t.Errorf("%d points in %d trials and %d launches, want %d, %d, %d", p.Points, p.Trials, p.Launches(), held.Points,
				held.Trials, held.Launches())
		}
		text := func(p *Plan) string {
			var b strings.Builder
			for g, tasks := range p.all(true) {
				fmt.Fprintln(&b, g.Part.Name, g.Trial, g.Ranks, g.Env, g.Threads, g.Bind, slices.Collect(tasks))
			}
			fmt.Fprintln(&b, slices.Collect(p.AllDropped()))
			return b.String()
		}
		if got, want := text(p), text(held); got != want || len(held.Groups) == 0 || len(held.Dropped) == 0 {
			t.Errorf("%d trials: derived is\n%s\nnot\n%s", trials, got, want)
		}
		took := map[string]time.Duration{held.Groups[0].Tasks[0].Key: time.Second}
		for name, f := range map[string]func(*Plan) []any{
			"estimate": func(p *Plan) []any { a, b := p.Estimate(); return []any{a, b, p.RunsPrograms()} },
			"foresee":  func(p *Plan) []any { a, b := p.EstimateFrom(took); return []any{a, b} },
		} {
			if a, b := f(p), f(held); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %v, want %v", name, a, b)
			}
		}
	}
}

// KnownValues finds the values that Drop and Refuse accept, even if the values of one axis depend
// on another axis.
func TestKnownValues(t *testing.T) {
	algorithms := map[string][]string{"sum": {"ring", "tree"}, "max": {"direct"}}
	b := bench.New("b", nop, bench.Strings("op", "sum"), bench.Strings("how", "ring"), bench.Strings("free", "x"),
		bench.DTypes("dtype", "f32"), bench.Ints("m", "1,2"),
		bench.Option("strict", point.Bool, "true", "an option"),
		bench.Refuse(func(p, options point.Point) error {
			op := p.At("op")
			if options.At("strict").Bool() && algorithms[op.String()] == nil {
				return bench.Unknown("op", op.String(), []string{"sum", "max"})
			}
			return nil
		}),
		bench.Drop(func(p point.Point) error {
			op := p.At("op")
			if how := p.At("how"); !slices.Contains(algorithms[op.String()], how.String()) {
				return bench.Unknown("algorithm", how.String(), algorithms[op.String()])
			}
			if p.At("dtype").String() == "f64" {
				return errors.New("not here")
			}
			return nil
		}))
	got := KnownValues(b, b.Parts[0])
	if fmt.Sprint(got["op"], got["how"], got["free"]) != "[max sum] [direct ring tree] []" {
		t.Errorf("%v", got)
	}
	if d := got["dtype"]; !slices.Contains(d, "bf16") || slices.Contains(d, "f64") {
		t.Errorf("dtypes %v", d)
	}
	if len(b.Parts[0].Axes[0].Values) != 1 {
		t.Error("the declaration is changed")
	}
}
