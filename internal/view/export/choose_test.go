package export

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func sizes(us ...float64) (rows []journal.Row) {
	for i, v := range us {
		r := journal.Row{Bench: "b", Status: journal.OK,
			Point: point.Point{{Name: "size", Value: point.BytesValue(int64(i))}}}
		if v > 0 {
			r.Metrics = map[string]float64{"time_us": v}
		}
		rows = append(rows, r)
	}
	return rows
}

func TestSort(t *testing.T) {
	rows := sizes(30, 0, 9, 100)
	for by, want := range map[string]string{"time_us": "[2 0 3 1]", "-time_us": "[3 0 2 1]", "-size": "[3 2 1 0]"} {
		got, err := Sort(nil, dataset.All(rows), []string{by})
		var order []int64
		for _, r := range got {
			order = append(order, r.Point.At("size").Int())
		}
		if err != nil || fmt.Sprint(order) != want {
			t.Errorf("by %s: %v (%v), want %s", by, order, err, want)
		}
	}
	if _, err := Sort(nil, dataset.All(rows), []string{AllColumns}); err == nil || !strings.Contains(err.Error(), `column "all"`) {
		t.Errorf("sorting by all columns gives %v", err)
	}
	if _, err := Sort(nil, dataset.All(rows), []string{"tim_us"}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "time_us"?`) {
		t.Errorf("an unknown column gives %v", err)
	}
}

// TestCellOrder checks that cells are ordered by a total order, whatever they contain: numbers, then
// texts, then empty cells.
func TestCellOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.SampledFrom([]string{"2", "10", "1a", "1", "1.0", "1e1", "-3", "NaN", "inf", "0x10", "a", "10b", "",
			" 2"})
		a, b, c := cell.Draw(t, "a"), cell.Draw(t, "b"), cell.Draw(t, "c")
		descending := rapid.Bool().Draw(t, "descending")
		ab, bc, ac := compareCells(a, b, descending), compareCells(b, c, descending), compareCells(a, c, descending)
		if ab != -compareCells(b, a, descending) {
			t.Fatalf("%q and %q have no order", a, b)
		}
		if ab <= 0 && bc <= 0 && (ac > 0 || ac == 0 && (ab < 0 || bc < 0)) {
			t.Fatalf("%q <= %q <= %q, but not %q <= %q (%d %d %d)", a, b, c, a, c, ab, bc, ac)
		}
	})
	for _, c := range []struct{ by, want string }{{"tag", "[2 10 1a]"}, {"-tag", "[1a 10 2]"}} {
		var rows []journal.Row
		for _, tag := range []string{"10", "1a", "2"} {
			rows = append(rows, journal.Row{Bench: "b", Point: point.Point{{Name: "tag", Value: point.StringValue(tag)}}})
		}
		var got []string
		for _, r := range must.Get(Sort(nil, dataset.All(rows), []string{c.by}))(t) {
			got = append(got, r.Point.At("tag").String())
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("by %s: %v, want %s", c.by, got, c.want)
		}
	}
}

func TestColumnsByChoice(t *testing.T) {
	in := Input{Rows: dataset.All(sizes(30, 9))}
	if got := write(t, "csv", in, Options{Columns: []string{"time_us", "size"}}); got != "time_us,size\n30,0\n9,1\n" {
		t.Errorf("csv has\n%s", got)
	}
	// A chosen column is shown even if it is constant.
	got := write(t, "table", in, Options{Columns: []string{"status", "size"}})
	if !strings.Contains(got, "status  size\nok         0\nok         1\n") {
		t.Errorf("the table is\n%s", got)
	}
	if err := Write(&strings.Builder{}, "table", in, Options{Columns: []string{"siez"}}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "size"?`) {
		t.Errorf("an unknown column gives %v", err)
	}
}

// A bench that declares headline columns has a table of these, with the interval of a number and details of the rows.
// Other numbers are counted, and the reader can still name them.
func TestHeadlineColumns(t *testing.T) {
	rows := sizes(30, 9)
	for i := range rows {
		rows[i].Metrics["gain"], rows[i].Metrics["gain_low"], rows[i].Metrics["gain_high"] = 0.5, 0.4, 0.6
		rows[i].Details = map[string]string{"verdict": "slow"}
	}
	in := Input{Header: &journal.Header{Headline: []string{"gain=of all", "verdict", "nothing"}}, Rows: dataset.All(rows)}
	got := write(t, "table", in, Options{})
	if !strings.Contains(got, "size            of all  verdict\n   0  0.5 (0.4 to 0.6)  slow\n") ||
		!strings.Contains(got, "3 more columns: show --columns all") {
		t.Errorf("the table is\n%s", got)
	}
	if got := write(t, "table", in, Options{Columns: []string{"time_us"}}); !strings.Contains(got,
		"time (µs)\n       30\n") {
		t.Errorf("a chosen column gives\n%s", got)
	}
	if got := write(t, "csv", in, Options{}); !strings.Contains(got, "gain_high") {
		t.Errorf("csv has only\n%s", got)
	}
}

// TestHeadingsByChoice checks that every heading of a table can be chosen, also if lines are
// several trials.
func TestHeadingsByChoice(t *testing.T) {
	in := Input{header(), dataset.All([]journal.Row{row(1024, unset(), 0, 10), row(1024, unset(), 1, 30)})}
	got := write(t, "table", in, Options{Columns: []string{"size", "trials", "time_us", "±trials"}})
	if !strings.Contains(got, "trials") || !strings.Contains(got, "±trials") || !strings.Contains(got, " 2 ") {
		t.Errorf("the table is\n%s", got)
	}
}

// TestQuantilesByChoice checks that csv has the quantiles and the reason why sampling ended, and
// tables only if they are chosen.
func TestQuantilesByChoice(t *testing.T) {
	in := Input{header(), dataset.All([]journal.Row{row(1024, unset(), 0, 10), row(1024, unset(), 1, 30)})}
	for i := range in.Rows {
		in.Rows[i].Sampling = &journal.Sampling{Stopped: "max-time"}
	}
	if got := write(t, "csv", in, Options{Columns: []string{"time_us_p50", "p90", "time_us_p99", "min", "max",
		"stopped"}}); got != "time_us_p50,time_us_p90,time_us_p99,time_us_min,time_us_max,stopped\n10,11,12,9,20,max-time\n30,33,36,27,60,max-time\n" {
		t.Errorf("csv has\n%s", got)
	}
	if got := write(t, "table", in, Options{Columns: []string{"size", "p90", "max", "stopped"}}); !strings.Contains(got,
		"  22   40  max-time") {
		t.Errorf("the median of the trials' quantiles is not shown:\n%s", got)
	}
	if got := write(t, "table", in, Options{}); strings.Contains(got, "p90") || strings.Contains(got, "stopped") {
		t.Errorf("nobody asked for quantiles:\n%s", got)
	}
}

// The line above a table omits axes at their defaults. Readers can still choose them.
func TestDefaultsAreLeftOut(t *testing.T) {
	in := Input{Header: header(), Rows: dataset.All([]journal.Row{row(1, unset(), 0, 1), row(2, unset(), 0, 2)})}
	in.Header.Axes[1].AtDefault = true
	if got := write(t, "table", in, Options{}); strings.Contains(got, "dtype") {
		t.Errorf("the default of dtype is shown:\n%s", got)
	}
	in.Header.Axes[1].AtDefault = false
	if got := write(t, "table", in, Options{}); !strings.Contains(got, "dtype=f32") {
		t.Errorf("dtype is not shown:\n%s", got)
	}
}
