package predict

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// runOn returns the times of a cluster with other factors, as a run of nccl-tests would measure them, with
// errors of some per cent that differ between sizes and runs.
func runOn(t *testing.T, truth Calibration, op string, nodes, seed int) (points []Point) {
	t.Helper()
	c := must.Get(Find("h100-8x1"))(t)
	for i, bytes := 0, int64(1<<10); bytes <= 1<<30; i, bytes = i+1, bytes*4 {
		p := Point{Op: op, Nodes: nodes, Ranks: 8 * nodes, Bytes: bytes}
		p.US = c.calibrated(&truth, p).plain(op, Best, Best, bytes).US * (1 + 0.03*math.Sin(float64(7*i+seed)))
		points = append(points, p)
	}
	return points
}

// The factors of a cluster are found from its times, also with noise. Predictions for other node counts and
// collectives are near the truth, and their intervals widen with the distance. The file keeps all of it.
func TestCalibrate(t *testing.T) {
	truth := Calibration{Latency: 1.3, Rate: 0.8, NetworkLatency: 1.5, NetworkRate: 0.7}
	base := must.Get(Find("h100-8x1"))(t)
	runs := [][]Point{runOn(t, truth, AllReduce, 1, 1), runOn(t, truth, AllReduce, 2, 2), runOn(t, truth, AllReduce, 4, 3)}
	k := must.Get(Calibrate(base, runs))(t)
	for i, got := range k.factors(true) {
		if want := *truth.factors(true)[i]; math.Abs(*got/want-1) > 0.1 {
			t.Errorf("factor %d is %v, want %v", i, *got, want)
		}
	}
	if k.Errors.By != "cross-validation over 3 runs" || k.Errors.Points != 33 || k.Errors.Median > 0.1 || k.MaxNodes != 4 {
		t.Errorf("%+v", k)
	}
	base.Calibration = k
	file := must.Get(Parse("mine.yaml", []byte(base.YAML())))(t)
	last := 0.0
	for _, n := range []int{4, 8, 16} {
		file.Nodes = n
		p := Point{Nodes: n, Ranks: 8 * n}
		for _, op := range []string{AllReduce, AllGather} {
			got := must.Get(file.Predict(op, Best, Best, 64<<20))(t).US
			if want := file.calibrated(&truth, p).plain(op, Best, Best, 64<<20).US; math.Abs(got/want-1) > 0.1 {
				t.Errorf("%s on %d nodes: %v, want %v", op, n, got, want)
			}
		}
		v, other := file.Validate(AllReduce, 64<<20, true), file.Validate(AllGather, 64<<20, true)
		if !v.Known() || v.P90 <= last || other.P90 <= v.P90 || !strings.Contains(v.By, "cross-validation over 3 runs") {
			t.Errorf("%d nodes: %v, another collective %v", n, v, other)
		}
		last = v.P90
	}
	if file.Nodes = 256; file.Validate(AllReduce, 64<<20, true).Known() {
		t.Error("256 nodes count as validated by 4")
	}
}

// The error of a fit is large if the runs contradict each other, and one run alone is validated within itself.
func TestCalibrationErrorShows(t *testing.T) {
	base := must.Get(Find("h100-8x1"))(t)
	slow := Calibration{Latency: 5, Rate: 0.2, NetworkLatency: 1, NetworkRate: 1}
	same := Calibration{Latency: 1, Rate: 1, NetworkLatency: 1, NetworkRate: 1}
	k := must.Get(Calibrate(base, [][]Point{runOn(t, same, AllReduce, 1, 1), runOn(t, slow, AllReduce, 1, 2)}))(t)
	if k.Errors.Median < 0.5 {
		t.Errorf("runs that differ by a factor of 5 give an error of %+v", k.Errors)
	}
	one := must.Get(Calibrate(base, [][]Point{runOn(t, same, AllReduce, 1, 1)}))(t)
	if one.Errors.By != "every second time of one run" || one.Errors.Median > 0.1 {
		t.Errorf("%+v", one.Errors)
	}
	if _, err := Calibrate(base, [][]Point{runOn(t, same, AllReduce, 1, 1)[:2]}); err == nil {
		t.Error("two times were enough")
	}
}
