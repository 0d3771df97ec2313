package decl

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestMetrics(t *testing.T) {
	body := func(context.Context, Setting) (Outcome, error) { return Outcome{}, nil }
	metrics := func(names ...string) (out []journal.MetricInfo) {
		for _, n := range names {
			out = append(out, journal.MetricInfo{Name: n, Unit: "own"})
		}
		return out
	}
	derive := func(rows dataset.Set) dataset.Set { return rows }
	for _, c := range []struct {
		name  string
		bench Bench
		want  []string // expected metrics; "own" marks those whose unit the bench declares
		all   bool
	}{
		{"programs", Bench{Parts: []*Part{{Command: &Command{}, Metrics: metrics("a", "b")},
			{Command: &Command{}, Metrics: metrics("b", "c")}}}, []string{"a own", "b own", "c own"}, true},
		{"derived", Bench{Parts: []*Part{{Command: &Command{}, Metrics: metrics("a")}}, Derive: derive},
			[]string{"a own"}, false},
		{"a body", Bench{Parts: []*Part{{Body: body, Metrics: metrics("a", "time_us")}}},
			[]string{"time_us own", "gbps", "algbw", "busbw", "tflops", "a own", "wrong"}, false},
		{"the declared word counts", Bench{Parts: []*Part{{Body: body, Metrics: metrics("wrong")}}},
			[]string{"time_us", "gbps", "algbw", "busbw", "tflops", "wrong own"}, false},
	} {
		infos, all := c.bench.Metrics()
		var got []string
		for _, m := range infos {
			if m.Unit == "own" {
				m.Name += " own"
			}
			got = append(got, m.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || all != c.all {
			t.Errorf("%s: all is %v, metrics (-want +got):\n%s", c.name, all, diff)
		}
	}
	if SpeedMetrics[0].Unit != "us" {
		t.Errorf("a bench changed the harness's own metric to %v", SpeedMetrics[0])
	}
}
