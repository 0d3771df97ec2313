package gpugemm

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

// measured holds the times of a shape on an H200, by plan.
type measured map[string]float64

func planKey(p plan) string {
	if t, ok := p.(tilePlan); ok {
		return t.kind + strconv.Itoa(t.cols) + " " + strconv.Itoa(int(t.share)) + " " + strconv.Itoa(t.parts)
	}
	return "skinny"
}

func readMeasured(t *testing.T) (shapes [][3]int, times map[[3]int]measured) {
	t.Helper()
	f := must.Get(os.Open("testdata/h200.csv"))(t)
	defer f.Close()
	times = map[[3]int]measured{}
	for _, line := range must.Get(csv.NewReader(f).ReadAll())(t)[1:] {
		var shape [3]int
		for i := range shape {
			shape[i] = must.Get(strconv.Atoi(line[i]))(t)
		}
		key := line[3]
		if line[4] != "" {
			key += line[4] + " " + line[5] + " " + line[6]
		}
		if times[shape] == nil {
			times[shape] = measured{}
			shapes = append(shapes, shape)
		}
		times[shape][key] = must.Get(strconv.ParseFloat(line[7], 64))(t)
	}
	return shapes, times
}

// The model chooses plans that took at most 1 % longer than the fastest on average, and no more than 6 % for any shape.
func TestModelChoosesFastPlans(t *testing.T) {
	d := &device{name: "NVIDIA H200", compute: tileCompute, multiprocessors: 132}
	shapes, times := readMeasured(t)
	sum, known := 0.0, 0
	for _, s := range shapes {
		p := problem{operand: dtype.BF16, m: s[0], n: s[1], k: s[2], ldc: s[1]}
		chosen := choosePlan(p, d)
		us, ok := times[s][planKey(chosen)]
		if !ok {
			t.Logf("%v: %v was not measured", s, chosen)
			continue
		}
		best := math.Inf(1)
		for key, other := range times[s] {
			if key != "torch" && key != "cublaslt" {
				best = min(best, other)
			}
		}
		known++
		if sum += math.Log(us / best); us > 1.06*best {
			t.Errorf("%v: %v took %.2f us, the fastest plan %.2f us", s, chosen, us, best)
		}
	}
	if mean := sum / float64(known); mean > 0.01 || known < len(shapes)*9/10 {
		t.Errorf("%d of %d choices were measured, on average %.2f %% slower than the fastest", known, len(shapes), 100*mean)
	}
}
