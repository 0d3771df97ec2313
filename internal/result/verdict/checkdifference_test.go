package verdict

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestCheckDifferences checks that a check lists how the latest run differs from the baseline,
// converts units, and leaves runs on another GPU out unless that is ignored.
func TestCheckDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		plant  func(latest dataset.Named)
		ignore []string
		says   string
		exit   int
	}{
		"kernel": {func(r dataset.Named) { r.Header.Host.Kernel = "6.8.0" }, nil, "differs in kernel: 6.1.0 -> 6.8.0", 0},
		"milliseconds": {func(r dataset.Named) {
			for i := range r.Rows {
				r.Rows[i].Metrics["lat"] /= 1000
				r.Rows[i].Units = map[string]string{"lat": "ms"}
			}
			r.Header.Metrics = []journal.MetricInfo{{Name: "lat", Unit: "ms", Better: "lower"}}
		}, nil, "differs in unit: us -> ms (converted)", 0},
		"another unit": {func(r dataset.Named) {
			for i := range r.Rows {
				r.Rows[i].Units = map[string]string{"lat": "widgets"}
			}
		}, nil, "12 runs with lat in a unit or direction that cannot be compared with the latest: left out", 3},
		"another GPU":         {onAnotherGPU, nil, "differs in gpu: NVIDIA H200 -> NVIDIA L4 (not comparable", 3},
		"another GPU ignored": {onAnotherGPU, []string{"gpu"}, "differs in gpu: NVIDIA H200 -> NVIDIA L4 (ignored)", 0},
	} {
		runs := nights(13)
		for _, r := range runs {
			r.Header.Host.Kernel = "6.1.0"
			r.Header.Metrics = []journal.MetricInfo{{Name: "lat", Unit: "us", Better: "lower"}}
			for i := range r.Rows {
				r.Rows[i].Metrics = map[string]float64{"lat": r.Rows[i].Metrics["time_us"]}
				r.Rows[i].Units = map[string]string{"lat": "us"}
				r.Rows[i].Details = map[string]string{journal.DeviceDetail: "NVIDIA H200"}
			}
		}
		c.plant(runs[12])
		r := must.Get(Check(runs[:12], runs[12:], Options{Metric: "lat", Ignore: c.ignore}))(t)
		var b bytes.Buffer
		must.Do(t, r.Write(&b, "table", "", 0))
		if !strings.Contains(b.String(), c.says) || r.ExitCode() != c.exit {
			t.Errorf("%s: exit %d, want %d and %q in\n%s", name, r.ExitCode(), c.exit, c.says, b.String())
		}
	}
	if _, err := Check(nights(2)[:1], nights(2)[1:], Options{Ignore: []string{"gpuu"}}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "gpu"?`) {
		t.Errorf("an unknown difference gives %v", err)
	}
}

func onAnotherGPU(r dataset.Named) {
	for i := range r.Rows {
		r.Rows[i].Details = map[string]string{journal.DeviceDetail: "NVIDIA L4"}
	}
}
