package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/nccltable"
)

// places returns a run of two operations, out of place and in place, with one place that was
// not run and one that failed.
func places() Input {
	of := func(op string, size int64, inPlace bool, us float64) journal.Row {
		r := row(size, unset(), 0, us)
		r.Bench, r.Part, r.Env = "collectives", "", nil
		r.Point = point.Point{{Name: "op", Value: point.StringValue(op)},
			{Name: "dtype", Value: point.DTypeValue(mustDType("bf16"))},
			{Name: "reduction", Value: point.StringValue("max")}, {Name: "size", Value: point.BytesValue(size)},
			{Name: "inplace", Value: point.BoolValue(inPlace)}}
		r.Metrics = map[string]float64{"time_us": us, "algbw": float64(size) / us / 1e3, "busbw": float64(size) / us / 1e3,
			"wrong": 0}
		return r
	}
	bad := failed(of("allreduce", 1<<20, true, 0), journal.Failed, "3 wrong elements, first: element 7 is 1, want 2")
	bad.Metrics = map[string]float64{"wrong": 3}
	return Input{Header: header(), Rows: dataset.All([]journal.Row{
		of("allreduce", 1<<10, false, 2.5), of("allreduce", 1<<10, true, 2.25),
		of("allreduce", 1<<20, false, 123.4), bad,
		of("allreduce", 1<<26, false, 12345.6),
		of("allgather", 1<<20, false, 100), of("broadcast", 1<<20, false, 100),
	})}
}

func TestNCCLTestsPlaces(t *testing.T) {
	golden.Check(t, "places.nccl", write(t, "nccl-tests", places(), Options{}))
}

// Element types that nccl-tests lacks fill their column too. A blank one would shift the numbers of the line.
func TestNCCLTestsTypes(t *testing.T) {
	for _, d := range append(dtype.All(), dtype.Products()...) {
		in := places()
		in.Rows = in.Rows[:1]
		in.Rows[0].Point[1].Value = point.DTypeValue(d)
		for _, l := range must.Get(nccltable.Read(write(t, "nccl-tests", in, Options{})))(t) {
			if l.Row != nil && (l.Row.Key("type") == "" || l.Row.Key("redop") != "max") {
				t.Errorf("%v: type %q, redop %q", d, l.Row.Key("type"), l.Row.Key("redop"))
			}
		}
	}
}

// TestNCCLTestsReadsBack reads the output with package nccltable and checks every number.
func TestNCCLTestsReadsBack(t *testing.T) {
	in := places()
	in.Rows = in.Rows[:4]
	file := filepath.Join(t.TempDir(), "sweep.yaml")
	text := "name: nccl\ncommand: [cat]\nmetrics:\n  time_us: {nccl_tests: time}\n  in_us: {nccl_tests: time, place: " +
		"in}\n  busbw: {nccl_tests: busbw}\n  wrong: {nccl_tests: wrong}\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	b := must.Get(sweep.Load(file))(t)
	rows := must.Get(b.Parts[0].Command.Parse([]decl.RankOutput{{Stdout: []byte(write(t, "nccl-tests", in,
		Options{}))}}))(t)
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	small := rows[0]
	if got := small.Extra.String(); !strings.Contains(got, "size=1Ki") || !strings.Contains(got, "type=bfloat16") ||
		!strings.Contains(got, "redop=max") {
		t.Errorf("the first line is read as %s", got)
	}
	for metric, want := range map[string]float64{"time_us": 2.5, "in_us": 2.25, "busbw": 0.41, "wrong": 0} {
		if got := small.Samples[metric]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	if got := rows[1].Samples["in_us"]; len(got) != 0 {
		t.Errorf("the failed place has a time: %v", got)
	}
}

// TestNCCLTestsReduction checks that the name of the bench gives the operation if there is no
// axis for it, and that the reduction is shown.
func TestNCCLTestsReduction(t *testing.T) {
	in := places()
	in.Rows = in.Rows[:1]
	in.Rows[0].Bench, in.Rows[0].Point = "allreduce-eval", point.Point{in.Rows[0].Point[1], in.Rows[0].Point[3]}
	got := write(t, "nccl-tests", in, Options{})
	for _, want := range []string{"# Collective test starting: all_reduce_perf\n", "  bfloat16     sum      -1 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestNCCLTestsUnchecked checks that the footer calls results right only if some were checked.
func TestNCCLTestsUnchecked(t *testing.T) {
	for _, c := range []struct {
		unchecked, rows int
		want            string
	}{{0, 2, "0 OK"}, {1, 2, "0 OK"}, {2, 2, "N/A"}, {0, 0, "N/A"}, {2, 4, "3 FAILED"}} {
		in := places()
		in.Rows = in.Rows[:c.rows]
		for i := range c.unchecked {
			delete(in.Rows[i].Metrics, "wrong")
		}
		if got := write(t, "nccl-tests", in, Options{}); !strings.Contains(got, "\n# Out of bounds values : "+c.want+"\n") {
			t.Errorf("%d of %d rows unchecked: want the footer %q in\n%s", c.unchecked, c.rows, c.want, got)
		}
	}
}

// Disturbed rows are marked, because the table has no column for their quality.
func TestNCCLTestsDisturbed(t *testing.T) {
	in := places()
	in.Rows = in.Rows[:1]
	in.Rows[0].Kind, in.Rows[0].Quality = journal.Measured, journal.QualityDisturbed
	in.Rows[0].Conditions = []journal.Condition{journal.NewCondition(journal.CodeForeign,
		journal.Named{"share": 0.5})}
	if got := write(t, "nccl-tests", in, Options{}); !strings.Contains(got, "-place: disturbed\n") {
		t.Errorf("the table does not say what was disturbed:\n%s", got)
	}
}

// Modelled rows are marked, because their times look like measured ones.
func TestNCCLTestsModelled(t *testing.T) {
	in := places()
	in.Rows = in.Rows[:2]
	in.Rows[0].Kind, in.Rows[1].Kind = journal.Modelled, journal.Modelled
	in.Rows[1].Details = map[string]string{journal.ValidatedByDetail: "8 ranks left out"}
	got := write(t, "nccl-tests", in, Options{})
	for _, want := range []string{"# modelled, not measured: 1 row, validated by: 8 ranks left out\n",
		"# modelled, not measured: 1 row, not validated\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestNCCLTestsRanks checks that hosts unknown to the journal are N/A and long lists of ranks
// are cut.
func TestNCCLTestsRanks(t *testing.T) {
	in := places()
	in.Header.Launcher = "srun"
	in.Rows = in.Rows[:1]
	in.Rows[0].NumRanks = ptr(70)
	got := write(t, "nccl-tests", in, Options{})
	for want, n := range map[string]int{"on      node1 device": 1, "on        N/A device": 63, "#  and 6 more\n": 1} {
		if strings.Count(got, want) != n {
			t.Errorf("%q is there %d times, want %d, in\n%s", want, strings.Count(got, want), n, got)
		}
	}
}

func TestNCCLTestsStep(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		want  string
	}{{[]int64{8}, "N/A"}, {[]int64{8, 16}, "2(factor)"}, {[]int64{8, 32, 128}, "4(factor)"},
		{[]int64{8, 12, 16}, "4(bytes)"}, {[]int64{8, 12, 18}, "N/A"}, {[]int64{8, 16, 64}, "N/A"},
		{[]int64{0, 8}, "8(bytes)"}} {
		if got := ncclStep(c.sizes); got != c.want {
			t.Errorf("%v: %s, want %s", c.sizes, got, c.want)
		}
	}
}
