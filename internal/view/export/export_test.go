package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func write(t *testing.T, format string, in Input, opts Options) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, format, in, opts))
	return b.String()
}

func TestGolden(t *testing.T) {
	inputs := map[string]Input{"rich": fixture(), "empty": {Header: header()}, "nothing": {}}
	cases := map[string]struct {
		format string
		opts   Options
	}{
		"table80":  {"table", Options{Width: 80}},
		"table":    {"table", Options{Width: 160}},
		"pertrial": {"table", Options{PerTrial: true}},
		"maxrows":  {"table", Options{MaxRows: 3}},
		"csv":      {"csv", Options{}},
		"json":     {"json", Options{}},
		"jsonl":    {"jsonl", Options{}},
		"records":  {"records", Options{}},
		"markdown": {"markdown", Options{MaxRows: 4}},
		"benchfmt": {"benchfmt", Options{}},
		"nccl":     {"nccl-tests", Options{}},
	}
	for inName, in := range inputs {
		for name, c := range cases {
			t.Run(inName+"/"+name, func(t *testing.T) {
				golden.Check(t, inName+"."+name, write(t, c.format, in, c.opts))
			})
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	err := Write(&bytes.Buffer{}, "cvs", Input{}, Options{})
	if err == nil || !strings.Contains(err.Error(), `did you mean "csv"?`) {
		t.Errorf("error %v suggests nothing", err)
	}
}

func TestDefaultFormat(t *testing.T) {
	if write(t, "", fixture(), Options{}) != write(t, Default, fixture(), Options{}) {
		t.Error("no format is not the default one")
	}
}

// TestWriteErrorsAndInput checks that formats do not change the rows and report write errors.
func TestWriteErrorsAndInput(t *testing.T) {
	full := errors.New("disk full")
	for _, f := range Formats.Names() {
		in := fixture()
		if err := Write(failingWriter{full}, f, in, Options{}); !errors.Is(err, full) {
			t.Errorf("%s: error %v is not the writer's", f, err)
		}
		if diff := cmp.Diff(fixture().Rows, in.Rows, cmp.Comparer(func(a, b point.Value) bool {
			return a == b
		})); diff != "" {
			t.Errorf("%s changed its input:\n%s", f, diff)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCSVReadsBack checks that a csv reader returns every value exactly.
func TestCSVReadsBack(t *testing.T) {
	in := fixture()
	records := must.Get(csv.NewReader(strings.NewReader(write(t, "csv", in, Options{}))).ReadAll())(t)
	if len(records) != len(in.Rows)+1 {
		t.Fatalf("%d records for %d rows", len(records), len(in.Rows))
	}
	at := func(i int, name string) string { return records[i+1][slices.Index(records[0], name)] }
	for i, r := range in.Rows {
		for _, c := range r.Point {
			name := c.Name
			if name == "kind" { // a fixed column has the name
				name = "axis.kind"
			}
			if got := at(i, name); got != c.Value.String() {
				t.Errorf("row %d: %s is %q, want %q", i, name, got, c.Value)
			}
		}
		for _, e := range r.Env {
			if got := at(i, "env."+e.Name); got != e.Text() {
				t.Errorf("row %d: %s is %q, want %q", i, e.Name, got, e.Text())
			}
		}
		if v, ok := r.Metrics["busbw"]; ok {
			if got, err := strconv.ParseFloat(at(i, "busbw"), 64); err != nil || got != v {
				t.Errorf("row %d: busbw is %s, want %v", i, at(i, "busbw"), v)
			}
		}
		if at(i, "reason") != string(r.Reason) {
			t.Errorf("row %d: reason is %q, want %q", i, at(i, "reason"), r.Reason)
		}
	}
}

// TestCSVHeadingIsStable checks that the headings do not depend on which values vary or failed.
func TestCSVHeadingIsStable(t *testing.T) {
	heading := func(in Input) string {
		h, _, _ := strings.Cut(write(t, "csv", in, Options{}), "\n")
		return h
	}
	one := fixture()
	one.Rows = dataset.All([]journal.Row{row(1, unset(), 0, 1)})
	bad := Input{one.Header, dataset.All([]journal.Row{row(1, set("x"), 1, 1), failed(row(2, unset(), 0, 0),
		journal.Failed, "r")})}
	if heading(one) != heading(bad) {
		t.Errorf("headings differ:\n%s\n%s", heading(one), heading(bad))
	}
}

func TestJSONIsTheSchema(t *testing.T) {
	in := fixture()
	var fromArray []journal.Row
	must.Do(t, json.Unmarshal([]byte(write(t, "json", in, Options{})), &fromArray))
	var fromLines []journal.Row
	for line := range strings.Lines(write(t, "jsonl", in, Options{})) {
		var r journal.Row
		must.Do(t, json.Unmarshal([]byte(line), &r))
		fromLines = append(fromLines, r)
	}
	want, _ := json.Marshal(in.Rows)
	for name, rows := range map[string][]journal.Row{"json": fromArray, "jsonl": fromLines} {
		if got, _ := json.Marshal(rows); !bytes.Equal(got, want) {
			t.Errorf("%s does not read back as the same rows", name)
		}
	}
	in.Rows[1].Metrics["time_us"] = math.NaN()
	if err := Write(&bytes.Buffer{}, "json", in, Options{}); err == nil || !strings.Contains(err.Error(), "size=64Ki") {
		t.Errorf("a value json cannot hold gives %v, which names no row", err)
	}
}

// TestFailedRowsShowTheirPoint checks that every axis of a failed row is in its line or above
// the table.
func TestFailedRowsShowTheirPoint(t *testing.T) {
	out := write(t, "table", fixture(), Options{Width: 100})
	i := strings.Index(out, "timeout")
	line := out[strings.LastIndex(out[:i], "\n")+1:]
	line, _, _ = strings.Cut(line, "\n")
	for _, want := range []string{"1Mi", "a,b", "  b"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line of the time-out lacks %q: %s", want, line)
		}
	}
	if !strings.Contains(out, "\nb: no answer in 30 s (1 line)\n") {
		t.Errorf("what its mark means is not below the table:\n%s", out)
	}
	if !strings.Contains(out, "dtype=f32") {
		t.Error("the constant dtype is not above the table")
	}
}

func TestTableWidth(t *testing.T) {
	for _, width := range []int{40, 60, 80, 100, 120, 200} {
		out := write(t, "table", fixture(), Options{Width: width})
		for line := range strings.Lines(out) {
			if w := texttab.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("width %d: a line has %d: %s", width, w, line)
			}
		}
	}
}

// Rows without numbers have no kind. The kind of the other rows is shown above the table.
func TestKindOfNumbers(t *testing.T) {
	simulated := row(1, unset(), 0, 10)
	simulated.Kind, simulated.Stats = journal.Simulated, nil
	rows := []journal.Row{failed(row(2, unset(), 0, 0), journal.Skipped, "x"), simulated}
	text := write(t, "table", Input{Rows: dataset.All(rows)}, Options{})
	title, _, _ := strings.Cut(text, "\n")
	if !strings.Contains(title, "kind=simulated") || strings.Count(text, "kind") > 1 {
		t.Errorf("the kind is not lifted above the table:\n%s", text)
	}
}

// A reader who asks for all columns gets all, in a narrow terminal on several lines.
func TestChosenColumnsAreNotDropped(t *testing.T) {
	some := []string{"size", "dtype", "time_us", "±95%", "busbw", "limit.link", "samples"}
	for _, columns := range [][]string{{AllColumns}, some} {
		wide := write(t, "table", fixture(), Options{Columns: columns})
		narrow := write(t, "table", fixture(), Options{Columns: columns, Width: 50})
		if strings.Join(strings.Fields(wide), " ") != strings.Join(strings.Fields(narrow), " ") {
			t.Errorf("the narrow table differs:\n%s\n%s", wide, narrow)
		}
	}
}

func TestControlCharactersStayOut(t *testing.T) {
	const evil = "\x1b]0;title\a\r\n\u202e\u009b"
	r := failed(row(1, set(evil), 0, 0), journal.Failed, evil)
	r.Host, r.Phase, r.Output = evil, evil, evil
	r.Conditions.Add(journal.Remarkf("%s", evil))
	r.Options = point.Point{{Name: "algo", Value: point.StringValue(evil)}}
	r.Point = r.Point.With("kind", point.StringValue(evil))
	good := row(2, set(evil), 0, 5)
	good.Point = good.Point.With("kind", point.StringValue(evil))
	good.Metrics["x"+evil], good.Units["x"+evil] = 1, evil
	for _, f := range []string{"table", "markdown", "benchfmt", "csv"} {
		out := write(t, f, Input{Header: header(), Rows: dataset.All([]journal.Row{r, good})}, Options{})
		if strings.ContainsAny(out, "\x1b\a\r\u009b\u202e") {
			t.Errorf("%s lets control characters through: %q", f, out)
		}
	}
}

// TestCSVHasNoFormulas checks that text that a spreadsheet would run as a formula is escaped.
func TestCSVHasNoFormulas(t *testing.T) {
	for value, want := range map[string]string{
		"=HYPERLINK(1)": "'=HYPERLINK(1)", "@SUM(1)": "'@SUM(1)", "+1+cmd|' /C calc'!A0": "'+1+cmd|' /C calc'!A0",
		"-2+3": "'-2+3",
		"-2.5": "-2.5", "+1e9": "+1e9", "-": "-", "a=b": "a=b", "": "", "\t=1": "'\t=1",
	} {
		if got := csvCell(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	rows := []journal.Row{
		row(1, unset(), 0, 1), row(1, unset(), 1, 1), // one point, two trials
		row(2, unset(), 0, 1), failed(row(2, unset(), 1, 0), journal.Failed, "crashed"), // one trial failed: failed
		failed(row(3, unset(), 0, 0), journal.Skipped, "needs respawn"),
		failed(row(4, unset(), 0, 0), journal.NotExecuted, "no GPU"),
		failed(row(5, unset(), 0, 0), journal.NotExecuted, "no NCCL"),
	}
	want := "5 points: 1 ok, 1 failed (crashed), 1 skipped (needs respawn), 2 not-executed (no GPU; 1 more reason)\n"
	for _, perTrial := range []bool{false, true} {
		out := write(t, "table", Input{nil, dataset.All(rows)}, Options{PerTrial: perTrial})
		if !strings.HasSuffix(out, want) {
			t.Errorf("perTrial %v: summary is not %q:\n%s", perTrial, want, out)
		}
	}
}

func TestTrialsAreAggregated(t *testing.T) {
	var rows []journal.Row
	for trial, us := range []float64{10, 30, 11} {
		rows = append(rows, row(1024, unset(), trial, us), row(2048, unset(), trial, us))
	}
	out := write(t, "table", Input{header(), dataset.All(rows)}, Options{})
	// The median of 10, 11 and 30 is 11; half their range is 10, 90.9 % of it.
	if !strings.Contains(out, "trials=3") || strings.Count(out, " 11 ") != 2 || !strings.Contains(out, "90.9%") {
		t.Errorf("trials are not one line with median and spread:\n%s", out)
	}
}

// TestDisturbedTrials checks that disturbed trials are marked and count only if all are disturbed.
func TestDisturbedTrials(t *testing.T) {
	mark := func(r journal.Row, q journal.Quality) journal.Row { r.Quality = q; return r }
	calm := []journal.Row{mark(row(1024, unset(), 0, 10), journal.QualitySettled),
		mark(row(2048, unset(), 0, 10), journal.QualitySettled)}
	if out := write(t, "table", Input{header(), dataset.All(calm)}, Options{}); strings.Contains(out, "quality") ||
		strings.Contains(out, "settled") {
		t.Errorf("nothing was disturbed, and the table speaks of it:\n%s", out)
	}
	rows := append(calm, mark(row(1024, unset(), 1, 900), journal.QualityDisturbed),
		mark(row(4096, unset(), 0, 700), journal.QualityDisturbed),
		mark(row(4096, unset(), 1, 700), journal.QualityDisturbed))
	out := write(t, "table", Input{header(), dataset.All(rows)}, Options{})
	if !strings.Contains(out, "disturbed 1/2") || strings.Count(out, "disturbed") != 2 || strings.Contains(out, "455") ||
		!strings.Contains(out, "700") {
		t.Errorf("of two trials one is disturbed, and of two others both:\n%s", out)
	}
	if out := write(t, "csv", Input{header(), dataset.All(rows)},
		Options{Columns: []string{"quality", "time_us"}}); !strings.HasPrefix(out,
		"quality,time_us\nsettled,10\nsettled,10\ndisturbed,900\n") {
		t.Errorf("csv:\n%s", out)
	}
}

func manyRows(n int) Input {
	in := Input{Header: header()}
	for i := range n {
		r := row(int64(i), unset(), i%2, float64(i+1))
		if i%100 == 99 {
			r = failed(r, journal.Failed, fmt.Sprint("reason ", i))
		}
		in.Rows = append(in.Rows, &r)
	}
	return in
}

func TestMaxRowsElidesTheMiddle(t *testing.T) {
	out := write(t, "table", manyRows(10_000), Options{MaxRows: 20})
	if n := strings.Count(out, "\n"); n > 30 {
		t.Errorf("%d lines for 20 rows", n)
	}
	if !strings.Contains(out, "9980 lines left out, 99 of them not ok; --format csv shows all") {
		t.Errorf("the gap is not explained:\n%s", out)
	}
	for _, first := range []int{1, 2} { // the edges of the middle
		if out := write(t, "table", manyRows(3), Options{MaxRows: first}); !strings.Contains(out,
			unit.Plural(3-first, "line")+" left out") {
			t.Errorf("MaxRows %d:\n%s", first, out)
		}
	}
}

func BenchmarkWrite10000(b *testing.B) {
	in := manyRows(10_000)
	for _, f := range Formats.Names() {
		b.Run(f, func(b *testing.B) {
			for b.Loop() {
				var out bytes.Buffer
				must.Do(b, Write(&out, f, in, Options{Width: 120}))
			}
		})
	}
}

// TestSkippedTrialsHideNoResult checks that a point with a result is ok even if a trial was skipped.
func TestSkippedTrialsHideNoResult(t *testing.T) {
	in := fixture()
	good := *in.Rows[0]
	for _, status := range []journal.Status{journal.Skipped, journal.NotExecuted} {
		idle := good
		idle.Trial, idle.Status, idle.Reason, idle.Metrics = 1, status, "no time left", nil
		for _, rows := range [][]journal.Row{{good, idle}, {idle, good}} {
			out := write(t, "table", Input{Header: in.Header, Rows: dataset.All(rows)}, Options{})
			if !strings.Contains(out, "ok 1/2") || !strings.Contains(out, "1 point: 1 ok") ||
				!strings.Contains(out, "a: no time left (1 line)") {
				t.Errorf("%s and %s:\n%s", rows[0].Status, rows[1].Status, out)
			}
		}
	}
}

// TestWarningsStandOnce checks that a warning of many lines appears once, with their number.
func TestWarningsStandOnce(t *testing.T) {
	in := fixture()
	var rows []journal.Row
	for i := range 50 {
		r := *in.Rows[0]
		r.Point = point.Point{{Name: "size", Value: point.BytesValue(int64(i))}}
		r.Conditions = []journal.Condition{journal.NewCondition(journal.CodeSteal,
			journal.Named{"share": float64(5+i) / 100})}
		rows = append(rows, r)
	}
	out := write(t, "table", Input{Header: in.Header, Rows: dataset.All(rows)}, Options{})
	if n := strings.Count(out, "steal"); n != 1 ||
		!strings.Contains(out, "a: steal: the hypervisor took 5.0 to 54.0 % of this host's cores away (50 lines)") {
		t.Errorf("the warning stands %d times:\n%s", n, out)
	}
}

// TestTableWork limits the allocations per row of a large table.
func TestTableWork(t *testing.T) {
	const n = 2000
	rows := make([]journal.Row, n)
	for i := range rows {
		rows[i] = row(int64(1024*(i+1)), set("1"), 0, float64(i+1))
	}
	in := Input{Header: header(), Rows: dataset.All(rows)}
	for format, most := range map[string]float64{Default: 30, "csv": 40} {
		work := testing.AllocsPerRun(1, func() {
			must.Do(t, Write(io.Discard, format, in, Options{}))
		})
		if each := work / n; each > most {
			t.Errorf("%s: %.0f allocations for each row, want at most %.0f", format, each, most)
		}
	}
}
