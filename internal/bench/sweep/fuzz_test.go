package sweep

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// Any text gives a valid declaration or an error with a position inside the file, never a crash.
func FuzzParse(f *testing.F) {
	archive := must.Get(txtar.ParseFile("testdata/bad.txtar"))(f)
	for _, file := range archive.Files {
		f.Add(file.Data)
	}
	paths, _ := filepath.Glob(filepath.Join(examples, "*.yaml"))
	for _, p := range paths {
		data := must.Get(os.ReadFile(p))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bench, err := Parse("f.yaml", data)
		if err != nil {
			if e, ok := err.(*Error); ok {
				for _, fault := range e.Faults {
					if fault.Line < 1 || fault.Column < 1 || fault.Msg == "" {
						t.Fatalf("fault without a place: %+v", fault)
					}
				}
			} else {
				t.Fatalf("a fault that no line is given for: %v", err)
			}
			return
		}
		must.Do(t, bench.Validate())
		p := bench.Parts[0]
		if len(p.Command.Argv) == 0 || p.Command.Parse == nil || len(p.Metrics) == 0 {
			t.Fatalf("accepted, but incomplete: %+v", p)
		}
		// Whatever was accepted can be substituted at its first point.
		at, ranks := firstPoint(p)
		must.Get(Substitute(p.Command.Argv, at, ranks))(t)
	})
}

// fuzzOutput feeds arbitrary output to the parser of the given metrics. The result must be rows
// with finite samples, or an error.
func fuzzOutput(f *testing.F, metrics ...string) {
	loaded := must.Get(Parse("f.yaml", []byte(withMetrics("[2]", metrics...))))(f)
	parse := loaded.Parts[0].Command.Parse
	f.Fuzz(func(t *testing.T, a, b []byte) {
		rows, err := parse([]decl.RankOutput{{Rank: 0, Stdout: a}, {Rank: 1, Stdout: b}})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		if len(rows) == 0 {
			t.Fatal("neither a row nor an error")
		}
		seen := map[string]bool{}
		for _, r := range rows {
			if id := rowID(r.Extra); seen[id] {
				t.Fatalf("two rows at %v", r.Extra)
			} else {
				seen[id] = true
			}
			for name, samples := range r.Samples {
				if len(samples) == 0 {
					t.Fatalf("%s has no samples", name)
				}
				for _, s := range samples {
					if math.IsNaN(s) || math.IsInf(s, 0) {
						t.Fatalf("%s: %v", name, s)
					}
				}
			}
		}
	})
}

func FuzzRegexOutput(f *testing.F) {
	f.Add([]byte("t=1 t=2"), []byte("t=3 t=4"))
	f.Add([]byte("t=nan"), []byte("t=1e999"))
	fuzzOutput(f, `t: {regex: 't=(\S+)', from: max}`, `u: {regex: 't=(\S+)', from: mean, stream: both}`)
}

func FuzzJSONOutput(f *testing.F) {
	f.Add([]byte(`{"t": [1, 2], "r": {"u": [{"v": 1}]}}`), []byte(`{"t": [1, 2]}`))
	f.Add([]byte("x\n{\"t\": 1e308}\n"), []byte(`{"t": null}`))
	fuzzOutput(f, "t: {json: t, from: max}", "v: {json: 'r.u[0].v'}")
}

func FuzzCSVOutput(f *testing.F) {
	f.Add([]byte("n,a,b\n1,2,3\n"), []byte("n,a,b\n1,2,3\n"))
	f.Add([]byte("a,b\n\"1\",2\n"), []byte("b,a\n1,2\n1,2\n"))
	fuzzOutput(f, "t: {csv: a, from: max}", "u: {csv: b}")
}

func FuzzNCCLOutput(f *testing.F) {
	files, _ := filepath.Glob("testdata/nccl-*.txt")
	for _, path := range files {
		data := must.Get(os.ReadFile(path))(f)
		f.Add(data, data)
	}
	fuzzOutput(f, "t: {nccl_tests: time, from: max}", "w: {nccl_tests: wrong, place: in}")
}
