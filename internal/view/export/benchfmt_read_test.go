package export

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestBenchfmtParses reads the output with x/perf: every ok row is there with its values in
// base units and its configuration, without syntax errors.
func TestBenchfmtParses(t *testing.T) {
	in := fixture()
	var want dataset.Set
	for _, r := range in.Rows {
		if r.Status == journal.OK {
			want = append(want, r)
		}
	}
	reader := benchfmt.NewReader(strings.NewReader(write(t, "benchfmt", in, Options{})), "fixture")
	i := 0
	for reader.Scan() {
		switch rec := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			if i == len(want) {
				t.Fatalf("more results than the %d ok rows", len(want))
			}
			checkResult(t, rec, want[i])
			i++
		}
	}
	if err := reader.Err(); err != nil || i != len(want) {
		t.Errorf("%d results for %d ok rows, error %v", i, len(want), err)
	}
	if u := reader.Units().Get("busbw-B/s", "better"); u == nil || u.Value != "higher" {
		t.Errorf("busbw-B/s is not better higher: %v", u)
	}
}

func checkResult(t *testing.T, rec *benchfmt.Result, r *journal.Row) {
	t.Helper()
	if sec, ok := rec.Value("sec/op"); !ok || math.Abs(sec-r.Metrics["time_us"]*1e-6) > 1e-12*sec {
		t.Errorf("%s: %v s/op, want %v us", rec.Name, sec, r.Metrics["time_us"])
	}
	if rate, ok := rec.Value("busbw-B/s"); !ok || math.Abs(rate-r.Metrics["busbw"]*1e9) > 1e-12*rate {
		t.Errorf("%s: busbw %v, want %v GB/s", rec.Name, rate, r.Metrics["busbw"])
	}
	env, want := rec.GetConfig("nccl_min_ctas"), ""
	for _, e := range r.Env {
		if want = e.Text(); want == "" {
			want = `""`
		}
	}
	if env != want {
		t.Errorf("%s: nccl_min_ctas is %q, want %q", rec.Name, env, want)
	}
	_, parts := rec.Name.Parts()
	axes := len(r.Point) + 1 // the part
	if r.NumRanks != nil {
		axes++ // -N
	}
	if len(parts) != axes {
		t.Errorf("%s has %d parts %q, want %d", rec.Name, len(parts), parts, axes)
	}
}

// TestBenchfmtDisturbed checks that benchstat cannot mix disturbed rows with the others.
func TestBenchfmtDisturbed(t *testing.T) {
	in := fixture()
	quiet := *in.Rows[0]
	disturbed := quiet
	quiet.Quality, quiet.Conditions = journal.QualitySettled, nil
	disturbed.Kind, disturbed.Quality = journal.Measured, journal.QualityDisturbed
	disturbed.Conditions = []journal.Condition{journal.NewCondition(journal.CodeForeign, journal.Named{"share": 0.5})}
	in.Rows = dataset.All([]journal.Row{quiet, disturbed, quiet})
	reader := benchfmt.NewReader(strings.NewReader(write(t, "benchfmt", in, Options{})), "fixture")
	var got []string
	for reader.Scan() {
		if rec, ok := reader.Result().(*benchfmt.Result); ok {
			got = append(got, rec.GetConfig("quality"))
		}
	}
	if want := []string{"", "disturbed", ""}; !slices.Equal(got, want) {
		t.Errorf("the qualities are %q, want %q", got, want)
	}
}

// TestBenchstatColumns checks that benchstat can compare the values of an environment variable.
func TestBenchstatColumns(t *testing.T) {
	in := Input{Header: header()}
	for trial := range 8 {
		noise := float64(trial) / 10
		in.Rows = append(in.Rows, dataset.All([]journal.Row{
			row(65536, set("4"), trial, 40+noise), row(65536, set("8"), trial, 20+noise)})...)
	}
	file := filepath.Join(t.TempDir(), "run.txt")
	must.Do(t, os.WriteFile(file, []byte(write(t, "benchfmt", in, Options{})), 0o644))
	out, err := exec.Command("go", "run", "golang.org/x/perf/cmd/benchstat", "-col", "nccl_min_ctas",
		file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"sec/op", "busbw-B/s", "│ 4 ", "│ 8 ", "-49.", "p=0.000 n=8"} {
		if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), strings.TrimSpace(want)) {
			t.Errorf("benchstat does not show %q:\n%s", want, out)
		}
	}
}
