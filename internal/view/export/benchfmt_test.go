package export

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestBenchfmtGrammar checks, for random names and values, that a row is one line which the
// format's grammar splits into the original parts, and that a setting is one line with a
// valid key.
func TestBenchfmtGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("aB/-%=7: \n\"(\u2028é"))),
			rapid.Just("(unset)"), rapid.Just("\xff/"))
		r := row(1, set(text.Draw(t, "env")), 0, 1)
		r.Env[0].Name = text.Draw(t, "variable")
		r.Bench = text.Draw(t, "bench")
		r.Point = point.Point{{Name: text.Draw(t, "axis"), Value: point.StringValue(text.Draw(t, "value"))}}
		if rapid.Bool().Draw(t, "own ranks") {
			r.NumRanks = nil
		}
		var b strings.Builder
		must.Do(t, writeBenchfmt(&b, Input{Rows: dataset.All([]journal.Row{r})}, Options{}))
		benchmarks := 0
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			name, isBenchmark := strings.CutPrefix(line, "Benchmark")
			if !isBenchmark {
				checkSetting(t, line)
				continue
			}
			benchmarks++
			fields := strings.Fields(name)
			if len(fields) != 6 { // name, iterations, two values with units
				t.Fatalf("%d fields in %q", len(fields), line)
			}
			checkBenchName(t, fields[0], &r)
		}
		if benchmarks != 1 {
			t.Fatalf("%d lines of results in %q", benchmarks, b.String())
		}
	})
}

func checkSetting(t *rapid.T, line string) {
	key, value, ok := strings.Cut(line, ":")
	if !ok || key == "" || !unicode.IsLower(firstRune(key)) || strings.ContainsFunc(key, func(r rune) bool {
		return unicode.IsUpper(r) || unicode.IsSpace(r)
	}) {
		t.Fatalf("%q is no setting", line)
	}
	if strings.TrimSpace(value) == "" {
		t.Fatalf("%q takes the setting back", line)
	}
}

func checkBenchName(t *rapid.T, name string, r *journal.Row) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 { // bench, part=, axis=
		t.Fatalf("%q has %d parts", name, len(parts))
	}
	number := name[len(strings.TrimRight(name, "0123456789")):]
	if numbered := number != "" &&
		strings.HasSuffix(strings.TrimSuffix(name, number), "-"); numbered != (r.NumRanks != nil) ||
		numbered && number != "2" {
		t.Fatalf("%q ends in -%s, ranks are %v", name, number, r.NumRanks)
	}
}

// TestBenchfmtKeysStayApart checks that variables that differ only in case, or are named like a
// fixed key, have different keys.
func TestBenchfmtKeysStayApart(t *testing.T) {
	r := row(1, set("a"), 0, 1)
	r.Env = nil
	for _, name := range []string{"proxy", "PROXY", "HOST", "_X"} {
		r.Env = append(r.Env, point.EnvVar{Name: name, Value: "of " + name, Set: true})
	}
	out := write(t, "benchfmt", Input{Rows: dataset.All([]journal.Row{r})}, Options{})
	for _, want := range []string{"\nproxy: of proxy\n", "\nenv.proxy: of PROXY\n", "\nenv.host: of HOST\n",
		"\nenv._x: of _X\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestBenchfmtUnits(t *testing.T) {
	for _, c := range []struct {
		name, unit, want string
		factor           float64
	}{
		{"time_us", "us", "ns/op", 1e3},
		{"busbw", "GB/s", "busbw-B/s", 1e9},
		{"rate", "MB/s", "rate-B/s", 1e6},
		{"gemm", "TFLOP/s", "gemm-FLOP/s", 1e12},
		{"p99_us", "us", "p99_us", 1},
		{"errors", "", "errors", 1},
		{"share", "% of peak", "share-%_of_peak", 1},
	} {
		if got := newBenchMetric(c.name, c.unit); got.unit != c.want || got.factor != c.factor {
			t.Errorf("%s in %s is %+v, want %s times %v", c.name, c.unit, got, c.want, c.factor)
		}
	}
}
