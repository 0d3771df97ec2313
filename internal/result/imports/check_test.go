package imports

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	ncclLine = "     1048576        262144     float     sum      -1    100.0   10.49   15.73      0    100.0   " +
		"10.49   15.73      0\n"
	ncclFooter = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 15.73\n#\n"
)

// TestContradictions plants errors in a clean log. Each must give a failed row or a warning
// with the line number.
func TestContradictions(t *testing.T) {
	clean := ncclHead + ncclLine + ncclFooter
	with := func(old, replacement string) string { return strings.Replace(clean, old, replacement, 1) }
	for _, c := range []struct {
		name, format, text string
		failed             int    // rows
		want               string // in a reason or a warning
	}{
		{"clean", "nccl-tests", clean, 0, ""},
		{"wrong values nobody owns up to", "nccl-tests", with("values : 0 OK", "values : 7 FAILED"), 2,
			"line 5: Out of bounds values : 7 FAILED, and no row says which"},
		{"time and algbw", "nccl-tests", with("100.0", "200.0"), 1,
			"line 4: algbw is 10.49 GB/s, but 1048576 bytes in 200 µs give 5.243 GB/s"},
		{"algbw and busbw", "nccl-tests", with("15.73      0\n", "25.73      0\n"), 1, "line 4: busbw is 25.73 GB/s"},
		{"time 0", "nccl-tests", with("100.0", "0.00"), 1, "line 4: the time is 0"},
		{"a unit too small", "nccl-tests",
			strings.NewReplacer("100.0", " 0.10", "10.49", "10486", "15.73", "15729").Replace(clean), 0,
			"line 4: 13110 GB/s for each rank is more than any known link carries (nvlink-b200"},
		{"a CSV of two minds", "csv", "ranks,size,time_us,algbw\n4,1M,100,20\n", 1, "line 2: algbw is 20 GB/s"},
		{"a CSV without time", "csv", "ranks,size,time_us\n4,1M,0\n", 1, "line 2: the time is 0"},
		{"OSU without time", "osu", "# OSU MPI Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n1024   0.00\n", 1,
			"line 3: the time is 0"},
		{"JSON with wrong values", "nccl-tests", strings.Replace(ncclJSONFull, `"nwrong":3.000000`, `"nwrong":0.000000`, 1),
			3, "out_of_bounds has a count of 3"},
	} {
		f := read(t, c.format, c.text, Given{Ranks: 4})
		failed, said := 0, ""
		for _, r := range f.Records {
			if r.Status.Bad() {
				failed++
			}
			said += r.Reason + "\n" + strings.Join(r.Remarks.Sentences(), "\n")
		}
		if failed != c.failed || !strings.Contains(said, c.want) || c.want == "" && strings.TrimSpace(said) != "" {
			t.Errorf("%s: %d rows failed, %q; want %d and %q", c.name, failed, said, c.failed, c.want)
		}
		for _, r := range Rows(f.Records, Source{}, 0, map[string]int{}) {
			if c.want != "" && c.failed == 0 && len(r.Conditions) == 0 {
				t.Errorf("%s: the warning is lost on the way to the row", c.name)
			}
		}
	}
}

// TestGaveUp reads a log that ends in a failure: the row that was being printed has failed, and
// the rows above warn that the tool gave no verdict on them.
func TestGaveUp(t *testing.T) {
	const why = "gpu-1: Test NCCL failure common.cu:298 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '\n"
	const passed = " .. gpu-1 pid 77: Test failure common.cu:402\n"
	f := read(t, "nccl-tests", ncclHead+ncclLine+"     2097152        524288     float     sum      -1"+why+passed,
		Given{})
	if len(f.Records) != 3 {
		t.Fatalf("%d records, want two good and the one that failed: %+v", len(f.Records), f.Records)
	}
	last := f.Records[2]
	if last.Status != journal.Failed || last.Size != 2<<20 || last.Ranks != 4 ||
		!strings.HasPrefix(last.Reason, "line 5: the run ended in a failure (Test NCCL failure common.cu:298") {
		t.Errorf("the row that was begun: %+v", last)
	}
	for _, text := range []string{ncclHead + ncclLine + why, ncclHead + ncclLine + passed} {
		f := read(t, "nccl-tests", text, Given{})
		for _, r := range f.Records {
			if len(r.Remarks) != 1 || !strings.HasPrefix(r.Remarks[0].Sentence(), "line 5: the run ended in a failure") {
				t.Errorf("warnings %q", r.Remarks.Sentences())
			}
		}
		if len(f.Notes) == 0 || !strings.Contains(strings.Join(f.Notes, "\n"), "line 5: the run ended") {
			t.Errorf("notes %q", f.Notes)
		}
	}
}

// TestTags checks that the prefixes of launchers are removed.
func TestTags(t *testing.T) {
	want := read(t, "nccl-tests", ncclFull, Given{}).Records
	for _, tag := range []string{"[1,0]<stdout>:", "[1,0]<stdout>: ", "[prterun-gpu-1-4711@1,0]<stdout>: "} {
		var b strings.Builder
		for line := range strings.Lines(ncclFull) {
			b.WriteString(tag + line)
		}
		got := read(t, "nccl-tests", b.String(), Given{}).Records
		if len(got) != len(want) || got[3].Status != journal.Failed || got[0].Ranks != 4 || got[2].Line != want[2].Line {
			t.Errorf("%q: %+v", tag, got)
		}
	}
}

// TestIterations checks that the columns of -I become metrics of their place.
func TestIterations(t *testing.T) {
	f := read(t, "nccl-tests", `#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)
     1048576        524288  bfloat16     sum      -1    31.25   33.55   50.33       0    30.10    40.00    39.00     2.10    30.75   34.10   51.15       0    29.90    38.00    37.00     1.90
`, Given{})
	for i, want := range []map[string]float64{{"min_us": 30.1, "max_us": 40, "p99_us": 39, "cv_pct": 2.1},
		{"min_us": 29.9, "max_us": 38, "p99_us": 37, "cv_pct": 1.9}} {
		for name, v := range want {
			if f.Records[i].Metrics[name] != v {
				t.Errorf("record %d: %s is %v, want %v", i, name, f.Records[i].Metrics[name], v)
			}
		}
	}
}

// TestDoubledRows checks that a repeated point becomes two trials with a note, and that the
// merged row does not contradict itself.
func TestDoubledRows(t *testing.T) {
	f := read(t, "csv", "ranks,size,time_us,algbw\n2,1M,100,10.49\n2,1M,300,3.5\n", Given{})
	if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "on lines 2 and 3") {
		t.Errorf("notes %q", f.Notes)
	}
	m := dataset.All(Rows(f.Records, Source{}, 0, map[string]int{})).MergeTrials()[0].Metrics
	if m["time_us"] != 200 || math.Abs(m["algbw"]-5.243) > 0.01 {
		t.Errorf("merged to %v", m)
	}
}

// TestDamagedText checks the notes about unfilled templates and wrong encodings.
func TestDamagedText(t *testing.T) {
	const table = "size,time_us,num_ranks\n1M,10,2\n"
	for text, want := range map[string]string{
		"# Date: $(date)\n" + table:        `line 1: "$(date)" was never filled in`,
		table + "# on ${HOSTNAME}\n":       `line 3: "${HOSTNAME}" was never filled in`,
		"# 2 ‚Äì 4 GPUs\n" + table:         `line 1: "‚Ä" is text in a wrong encoding`,
		"#\n# 2\ufffd4\n" + table:          "line 2: \"\ufffd\" is text in a wrong encoding",
		"# 2 × 4 – 8, $5 (each)\n" + table: "",
	} {
		f := must.Get(Read("csv", "f.csv", text, Given{}))(t)
		if got := strings.Join(f.Notes, "\n"); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: notes %q, want %q", text, got, want)
		}
	}
}
