package export

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The unit of a column of times follows from its middle value, and the digits of a number from its interval.
// Simulated times have all their digits.
func TestScaleAndDigits(t *testing.T) {
	interval := func(r journal.Row, half float64) journal.Row {
		v := r.Metrics["time_us"]
		r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {P50: v, CILow: ptr(v * (1 - half)),
			CIHigh: ptr(v * (1 + half))}})
		return r
	}
	for _, c := range []struct {
		name string
		rows []journal.Row
		want string
	}{
		{"seconds", []journal.Row{row(1, unset(), 0, 1234567)}, "time (s)"},
		{"milliseconds", []journal.Row{row(1, unset(), 0, 2), row(2, unset(), 0, 20034), row(3, unset(), 0, 40e6)},
			"time (ms)"},
		{"nanoseconds", []journal.Row{row(1, unset(), 0, 0.0345)}, "time (ns)"},
		{"12 %", []journal.Row{interval(row(1, unset(), 0, 12.3456), 0.12)}, " 12 "},
		{"4 %", []journal.Row{interval(row(1, unset(), 0, 12.3456), 0.04)}, " 12.3 "},
		{"0.1 %", []journal.Row{interval(row(1, unset(), 0, 12.3456), 0.001)}, " 12.35 "},
		{"simulated", []journal.Row{simulatedRow(18202.28e-3)}, "18.20228"},
	} {
		if got := write(t, "table", Input{Rows: dataset.All(c.rows)}, Options{}); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, got)
		}
	}
}

// Times in other units are scaled too, and rates are not. A declared heading may name the time.
func TestScaleOfOtherTimes(t *testing.T) {
	r := row(1, unset(), 0, 1)
	r.Metrics = map[string]float64{"wire_ns": 11127.28, "setup_s": 0.002, "idle_us": 0, "flops_s": 3e9, "items_per_ms": 7,
		"step_time_us": 3410.01152}
	r.Units, r.Kind, r.Stats = map[string]string{"setup_s": "s"}, journal.Simulated, nil
	h := &journal.Header{Headline: []string{"wire_ns", "setup_s", "idle_us", "flops_s", "items_per_ms",
		"step_time_us=step_us"}}
	got := write(t, "table", Input{Header: h, Rows: dataset.All([]journal.Row{r})}, Options{})
	if want := "wire (µs)  setup (ms)  idle (µs)     flops_s  items_per_ms   step (ms)\n" +
		" 11.12728           2          0  3000000000             7  3.41001152\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func simulatedRow(us float64) journal.Row {
	r := row(1, unset(), 0, us)
	r.Kind, r.Stats = journal.Simulated, nil
	return r
}
