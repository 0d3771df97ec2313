package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// hashOf returns a stand-in for the SHA-256 of a text.
func hashOf(text string) string { return strings.Repeat(fmt.Sprintf("%x", text), 32)[:64] }

// machines returns a bench whose machine is described by a file. One of the files has 4 ranks.
func machines(clauses ...bench.Clause) *bench.Bench {
	return bench.New("b", nop, append([]bench.Clause{bench.Sweepable(bench.FileOption("topology", "", "")),
		bench.Ints("i", "1,2"), bench.Ranks("2"),
		bench.DefaultRanks(func(p, options point.Point) int {
			return map[string]int{"four.yaml": 4, "two.yaml": 2}[bench.FilePath(p, options, "topology")]
		})}, clauses...)...)
}

func withTopology(text string, files map[string]string) Request {
	return Request{Backend: "cpu", Options: []Assign{{"topology", text}}, Files: files}
}

// tasks lists the points of a plan with their keys.
func tasks(p *Plan) (words, keys []string) {
	for _, g := range p.Groups {
		for _, t := range g.Tasks {
			words, keys = append(words, t.Label()), append(keys, t.Key)
		}
	}
	return words, keys
}

// A sweepable option with several values becomes an axis. Files with equal content count as one
// value, and a note says so.
func TestSweptFiles(t *testing.T) {
	files := map[string]string{"a.yaml": hashOf("a"), "b.yaml": hashOf("b"), "copy.yaml": hashOf("a")}
	const a, b = "a.yaml#616161616161", "b.yaml#626262626262"
	for _, c := range []struct {
		text  string
		want  []string // values of the axis; empty if it stays an option
		one   string
		notes int
	}{
		{"a.yaml", nil, "a.yaml", 0},
		{"built-in", nil, "", 0},
		{"", nil, "", 0},
		{"a.yaml,b.yaml", []string{a, b}, "", 0},
		{"built-in,b.yaml", []string{"built-in", b}, "", 0},
		{"a.yaml,copy.yaml", nil, "a.yaml", 1},
		{"a.yaml,b.yaml,copy.yaml", []string{a, b}, "", 1},
		{"a.yaml,a.yaml", nil, "a.yaml", 0},
	} {
		// The defaults of other options need no note.
		p := must.Get(Make(machines(bench.Option("mode", point.String, "fast", ""),
			bench.Sweepable(bench.Option("depth", point.String, "3", ""))), withTopology(c.text, files)))(t)
		var got []string
		for _, task := range p.Groups[0].Tasks {
			if v, has := task.Point.Get("topology"); has && !slices.Contains(got, v.String()) {
				got = append(got, v.String())
			}
		}
		option, isOption := p.Options.Get("topology")
		if !slices.Equal(got, c.want) || isOption != (c.want == nil) || option.String() != c.one || len(p.Notes) != c.notes {
			t.Errorf("%q: values %v, option %v, notes %v; want %+v", c.text, got, option, p.Notes, c)
		}
		if c.one != "" && p.Inputs["topology"] != files[c.one] ||
			c.want != nil && p.Files()["topology b.yaml"] != files["b.yaml"] {
			t.Errorf("%q: inputs %v", c.text, p.Files())
		}
		if c.notes > 0 && !strings.Contains(p.Notes[0], "copy.yaml has the same content as a.yaml") {
			t.Errorf("%q: notes %v", c.text, p.Notes)
		}
	}
}

// TestOtherOptionsAreNoSweptFiles checks that the word for no file, and equal contents, matter to swept files only.
func TestOtherOptionsAreNoSweptFiles(t *testing.T) {
	files := map[string]string{"a.yaml": hashOf("a"), "copy.yaml": hashOf("a")}
	b := machines(bench.FileOption("probe", "", ""), bench.Sweepable(bench.Option("mode", point.String, "", "")))
	for _, option := range []string{"probe", "mode"} {
		p := must.Get(Make(b, Request{Backend: "cpu", Options: []Assign{{option, point.NoFile}}}))(t)
		if got := p.Options.At(option).String(); got != point.NoFile {
			t.Errorf("--%s %s is %q", option, point.NoFile, got)
		}
	}
	p := must.Get(Make(b, Request{Backend: "cpu", Options: []Assign{{"mode", "a.yaml,copy.yaml"}}, Files: files}))(t)
	if p.Points != 4 || len(p.Notes) > 0 {
		t.Errorf("two texts and two values of i are %d points: %q", p.Points, p.Notes)
	}
	for option, want := range map[string]string{"topology": "b.yaml", "probe": "built-in", "mode": ""} {
		given := []Assign{{"topology", "built-in,b.yaml"}, {"probe", "built-in"}, {"other", "c.yaml"}}
		if got := must.Get(FilesOf(b, "cpu", option, given))(t); strings.Join(got, " ") != want {
			t.Errorf("files of %s: %q, want %q", option, got, want)
		}
	}
}

// Editing a file makes a different point; moving it does not.
func TestSweptFilesAreKeyedByContent(t *testing.T) {
	keysOf := func(text string, files map[string]string) []string {
		p := must.Get(Make(machines(), withTopology(text, files)))(t)
		_, keys := tasks(p)
		return keys
	}
	before := keysOf("a.yaml,b.yaml", map[string]string{"a.yaml": hashOf("a"), "b.yaml": hashOf("b")})
	edited := keysOf("a.yaml,b.yaml", map[string]string{"a.yaml": hashOf("A"), "b.yaml": hashOf("b")})
	moved := keysOf("old/a.yaml,b.yaml", map[string]string{"old/a.yaml": hashOf("a"), "b.yaml": hashOf("b")})
	if !slices.Equal(before, moved) {
		t.Errorf("moved: %v, %v", before, moved)
	}
	for i := range before {
		if same := before[i] == edited[i]; same != (i >= 2) {
			t.Errorf("point %d of the edited file has the same key: %v", i, same)
		}
	}
}

// Without --ranks, each machine gets its own number of ranks, and the built-in machine gets the
// numbers of the others. An explicit --ranks wins.
func TestMachineRanks(t *testing.T) {
	files := map[string]string{"two.yaml": hashOf("2"), "four.yaml": hashOf("4")}
	for _, c := range []struct {
		text, ranks string
		want        string
	}{
		{"four.yaml", "", "i=1 ranks=4; i=2 ranks=4"},
		{"built-in", "", "i=1 ranks=2; i=2 ranks=2"},
		{"four.yaml", "3", "i=1 ranks=3; i=2 ranks=3"},
		{"two.yaml,four.yaml", "", "two i=1 ranks=2; two i=2 ranks=2; four i=1 ranks=4; four i=2 ranks=4"},
		{"built-in,four.yaml", "", "built-in i=1 ranks=4; built-in i=2 ranks=4; four i=1 ranks=4; four i=2 ranks=4"},
	} {
		req := withTopology(c.text, files)
		if c.ranks != "" {
			req.Axes = []Assign{{bench.RanksAxis, c.ranks}}
		}
		p := must.Get(Make(machines(), req))(t)
		words, _ := tasks(p)
		got := strings.NewReplacer("topology=", "", ".yaml#"+hashOf("2")[:12], "", ".yaml#"+hashOf("4")[:12],
			"").Replace(strings.Join(words, "; "))
		if got != c.want || len(p.Dropped) > 0 {
			t.Errorf("%s, ranks %q: %s, %d dropped; want %s", c.text, c.ranks, got, len(p.Dropped), c.want)
		}
	}
}

// An option may have another default on a backend. If the default is a file, a note names it.
func TestOptionsOnBackends(t *testing.T) {
	b := machines(bench.On("ahbm", bench.FileOption("topology", "four.yaml", "")))
	for backend, want := range map[string]string{"ahbm": "four.yaml", "cpu": ""} {
		p := must.Get(Make(b, Request{Backend: backend, Files: map[string]string{"four.yaml": hashOf("4")}}))(t)
		if v := p.Options.At("topology"); v.String() != want || (len(p.Notes) == 1) != (want != "") ||
			p.Inputs["topology"] != map[string]string{"four.yaml": hashOf("4")}[want] {
			t.Errorf("%s: %v, notes %v, inputs %v", backend, v, p.Notes, p.Inputs)
		}
	}
	if _, err := Make(machines(bench.On("ahbm", bench.FileOption("typology", "x", ""))),
		Request{Backend: "cpu"}); err == nil || !strings.Contains(err.Error(), `no option "typology"`) {
		t.Errorf("%v", err)
	}
}

func TestAllowedNumbers(t *testing.T) {
	positive, nonNegative, share := decl.Between(0, math.Inf(1)), decl.AtLeast(0), decl.Between(0, 1)
	for number, want := range map[float64][3]bool{-1e-9: {}, 0: {false, true, false}, 1e-9: {true, true, true},
		1: {true, true, false}, math.NaN(): {}, math.Inf(1): {false, true, false}} {
		for i, r := range []decl.Range{positive, nonNegative, share} {
			if err := allowed(decl.Option{Range: &r}, point.FloatValue(number)); (err == nil) != want[i] {
				t.Errorf("%v of %v: %v", number, r, err)
			}
		}
	}
}
