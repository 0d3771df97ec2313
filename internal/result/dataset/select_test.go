package dataset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

var exprScope = Scope{"size": point.Bytes, "num_ranks": point.Int, "dtype": point.DType, "inplace": point.Bool,
	"alg": point.String,
	"ENV": point.String, "shape": point.Tuple, "x": point.Float, "zero": point.Float}

func exprValues() map[string]Value {
	f32, _ := point.Parse(point.DType, "f32")
	shape, _ := point.Parse(point.Tuple, "qkv=2x3")
	return map[string]Value{
		"size": {Point: point.BytesValue(1 << 20), Has: true}, "num_ranks": {Point: point.IntValue(2), Has: true}, "dtype": {Point: f32, Has: true},
		"inplace": {Point: point.BoolValue(false), Has: true}, "alg": {Point: point.StringValue("two stage"), Has: true},
		"ENV":   {Point: point.StringValue("9"), Has: true},
		"shape": {Point: shape, Has: true}, "x": {Point: point.FloatValue(0.5), Has: true}, "zero": {Point: point.FloatValue(0), Has: true},
	}
}

// at returns the lookup of a map.
func at(values map[string]Value) Lookup { return func(name string) Value { return values[name] } }

func TestExpressions(t *testing.T) {
	for text, want := range map[string]bool{
		"size>=1M && num_ranks==2":           true,
		"size>1M":                            false,
		"size<1Mi||num_ranks!=2":             false,
		"size == 1024K":                      true,
		"dtype==float32":                     true,
		"dtype!=f32":                         false,
		"inplace":                            false,
		"!inplace":                           true,
		"!(inplace || size<1) && dtype==f32": true,
		`alg=="two stage"`:                   true,
		"alg=='two stage'":                   true,
		"ENV<10":                             true, // numbers, not text
		"ENV==9":                             true,
		"ENV==unset":                         false,
		"ENV!=unset":                         true,
		`shape=="qkv=2x3"`:                   true,
		"x<0.6&&x>=0.5":                      true,
		"x<=0.5 && !(x<0.5)":                 true,
		"x>0.5 || x>=0.6":                    false,
		"x && num_ranks":                     true, // numbers other than 0
		"zero":                               false,
	} {
		e, err := Compile(text, exprScope)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := e(at(exprValues())); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	unset := exprValues()
	unset["ENV"] = Value{Has: true, Unset: true}
	for text, want := range map[string]bool{"ENV==unset": true, "ENV!=unset": false, "ENV==9": false, "ENV!=9": true,
		"ENV": false} {
		e, _ := Compile(text, exprScope)
		if e(at(unset)) != want {
			t.Errorf("unset: %s is %v", text, !want)
		}
	}
	// If the part lacks the name, the test is false and not an error.
	e, _ := Compile("size>1", exprScope)
	if e(at(nil)) {
		t.Error("a missing axis passed")
	}
}

func TestBadExpressions(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "want a name",
		"size>=":                   "want a value",
		"size>=1Q":                 "size",
		"(size>1":                  "missing closing",
		`(size>1 ")"`:              "missing closing",
		"size>1 size>2":            "column 8: want &&, || or the end",
		"size=1":                   "unexpected",
		`alg=="open`:               "missing closing",
		"szie>1":                   `did you mean "size"`,
		"&&":                       "want a name",
		strings.Repeat("(", 10000): "deep",
	} {
		if _, err := Compile(text, exprScope); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v, want one with %q", text, err, want)
		}
	}
}

// TestDeepExpressions checks the deepest expression that is allowed, and one that is deeper.
func TestDeepExpressions(t *testing.T) {
	for depth, want := range map[int]string{maxDepth: "", maxDepth + 1: "nested more than 200 deep"} {
		_, err := Compile(strings.Repeat("!", depth-1)+"ENV", exprScope)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, s := range []string{"size>=1M && num_ranks==2", "!(a||b)", `alg=="x"`, "inplace", "((", "ENV!=unset"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Compile(text, exprScope)
		if err == nil {
			e(at(exprValues()))
		}
	})
}

func TestSelect(t *testing.T) {
	var rows []journal.Row
	for i, size := range []int64{1 << 10, 1 << 20, 1 << 20} {
		rows = append(rows, journal.Row{Trial: i, Status: journal.OK,
			Point:   point.Point{{Name: "size", Value: point.BytesValue(size)}},
			Env:     point.Env{{Name: "E", Value: fmt.Sprint(i), Set: i > 0}},
			Metrics: map[string]float64{"time_us": float64(10 * i)}})
	}
	rows[2].Status = journal.Failed
	rows[1].Quality = journal.QualityDisturbed
	for only, want := range map[string]string{
		"size>=1M": "1 2", "size>=1M && status==ok": "1", `quality=="disturbed"`: "1", "time_us<15": "0 1", "E==unset": "0", "trial!=1": "0 2",
		"size==2K": "",
	} {
		got, err := All(rows).Select(only)
		var trials []string
		for _, r := range got {
			trials = append(trials, fmt.Sprint(r.Trial))
		}
		if err != nil || strings.Join(trials, " ") != want {
			t.Errorf("%s keeps %v (%v), want %s", only, trials, err, want)
		}
	}
	if _, err := All(rows).Select("siez>1"); err == nil || !strings.Contains(err.Error(), `"size"`) {
		t.Errorf("an unknown name gives %v", err)
	}
}

// TestCondition checks a condition on metrics: it is false for rows without one of its names.
func TestCondition(t *testing.T) {
	holds, used, err := Condition("time_us<10 || busbw>=2", []string{"time_us", "busbw", "other"})
	if err != nil || strings.Join(used, " ") != "time_us busbw" {
		t.Fatalf("names %q, %v", used, err)
	}
	for _, c := range []struct {
		us, busbw float64
		want      bool
	}{{9, 0, true}, {10, 0, false}, {10, 2, true}} {
		if got := holds(map[string]float64{"time_us": c.us, "busbw": c.busbw, "other": 1}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if holds(map[string]float64{"time_us": 9}) {
		t.Error("a row without busbw passed")
	}
	if _, _, err := Condition("time<10", []string{"time_us"}); err == nil || !strings.Contains(err.Error(), `"time_us"`) {
		t.Errorf("an unknown metric: %v", err)
	}
}

// TestNoMatch checks which stored values the error lists: at most twelve for each name in the expressions.
func TestNoMatch(t *testing.T) {
	rows := make([]journal.Row, 13)
	for i := range rows {
		rows[i] = journal.Row{Bench: "b", Backend: "cpu", Trial: i % 2, Status: journal.OK,
			Point: point.Point{{Name: "size", Value: point.IntValue(int64(i + 1))},
				{Name: "op", Value: point.StringValue("sum")}},
			Env: point.Env{{Name: "E", Value: "1", Set: i == 0}}}
	}
	const twelve = "size=1,2,3,4,5,6,7,8,9,10,11,12"
	for _, c := range []struct {
		rows int
		only []string
		want string
	}{
		{12, []string{"size>20"}, `no row matches --only "size>20" (stored: ` + twelve + ")"},
		{13, []string{"size>20"}, `no row matches --only "size>20" (stored: ` + twelve + " and 1 more)"},
		{13, []string{"op=='size' && E==2", "trial>1"}, "(stored: op=sum; E=1; trial=0,1)"},
		{1, []string{"unknown"}, "(stored: E=1; backend=cpu; bench=b; op=sum; size=1; status=ok; trial=0)"},
	} {
		if err := All(rows[:c.rows]).NoMatch(c.only); !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.only, err, c.want)
		}
	}
}

func TestTruthy(t *testing.T) {
	for text, want := range map[string]bool{"": false, "0": false, "false": false, "x": true, "1": true} {
		if got := truthy(point.StringValue(text)); got != want {
			t.Errorf("%q is %v", text, got)
		}
	}
}
