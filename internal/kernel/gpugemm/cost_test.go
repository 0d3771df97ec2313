package gpugemm

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
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

// observation is a measured plan. best is the time of the fastest plan for its shape.
type observation struct {
	problem
	plan
	us, best float64
}

func (m *costModel) predict(o observation) float64 {
	if t, ok := o.plan.(tilePlan); ok {
		return m.tiles(t, o.problem, modelMultiprocessors)
	}
	return m.skinny(o.plan.(skinnyPlan), o.problem, modelMultiprocessors)
}

// observe returns the measured plans of some shapes.
func observe(d *device, shapes [][3]int, times map[[3]int]measured) (list []observation) {
	for _, s := range shapes {
		p := problem{operand: dtype.BF16, m: s[0], n: s[1], k: s[2], ldc: s[1]}
		var plans []plan
		for _, t := range tilePlans(p, modelFor(d.name), d.multiprocessors) {
			plans = append(plans, t)
		}
		if s, ok := planSkinny(p, d); ok {
			plans = append(plans, s)
		}
		first, best := len(list), math.Inf(1)
		for _, plan := range plans {
			if us, ok := times[s][planKey(plan)]; ok {
				list, best = append(list, observation{problem: p, plan: plan, us: us}), min(best, us)
			}
		}
		for i := first; i < len(list); i++ {
			list[i].best = best
		}
	}
	return list
}

// fit changes one coefficient after the other as long as the squared relative errors become smaller. Plans that are far
// from the fastest one matter less.
func (m *costModel) fit(list []observation) {
	loss := func() (sum float64) {
		for _, o := range list {
			e := math.Log(m.predict(o) / o.us)
			sum += e * e * math.Pow(o.best/o.us, 6)
		}
		return sum
	}
	coefficients := []*float64{&m.start, &m.turns, &m.column, &m.fetch, &m.pairA, &m.store, &m.storeTurn,
		&m.part, &m.memory, &m.power, &m.skinnyStart, &m.skinnyColumn, &m.skinnyFetch, &m.skinnyPart}
	least := loss()
	for step := 0.3; step > 0.015; step /= 2 {
		for improved := true; improved; {
			improved = false
			for _, c := range coefficients {
				before := *c
				for _, factor := range []float64{1 + step, 1 / (1 + step)} {
					*c = before * factor
					if now := loss(); now < least*0.999 {
						least, improved = now, true
						break
					}
					*c = before
				}
			}
		}
	}
}

// A model that is fitted to every other shape, from coefficients that are half or twice as large as the stored ones,
// predicts the times of the remaining shapes and chooses fast plans for them. Shapes with fewer rows than a tile are
// left out: half of them are too few to fit the coefficients of the kernels for few rows.
func TestModelPredictsUnseenShapes(t *testing.T) {
	d := &device{name: "NVIDIA H200", compute: tileCompute, multiprocessors: modelMultiprocessors}
	shapes, times := readMeasured(t)
	shapes = slices.DeleteFunc(shapes, func(s [3]int) bool { return s[0] < tileRows })
	for half := range 2 {
		var seen, unseen [][3]int
		for i, s := range shapes {
			if i%2 == half {
				seen = append(seen, s)
			} else {
				unseen = append(unseen, s)
			}
		}
		m := models[0]
		for i, c := range []*float64{&m.start, &m.column, &m.fetch, &m.store, &m.part, &m.memory, &m.power, &m.skinnyStart,
			&m.skinnyColumn, &m.skinnyFetch, &m.skinnyPart} {
			*c *= []float64{0.5, 2}[i%2]
		}
		m.fit(observe(d, seen, times))
		var errors, slower []float64
		chosen := map[problem]observation{}
		for _, o := range observe(d, unseen, times) {
			errors = append(errors, math.Abs(m.predict(o)/o.us-1))
			if c, has := chosen[o.problem]; !has || m.predict(o) < m.predict(c) {
				chosen[o.problem] = o
			}
		}
		for _, o := range chosen {
			slower = append(slower, o.us/o.best-1)
		}
		slices.Sort(errors)
		slices.Sort(slower)
		median, ninth := errors[len(errors)/2], errors[len(errors)*9/10]
		worst, mean := slower[len(slower)-1], 0.0
		for _, s := range slower {
			mean += s / float64(len(slower))
		}
		t.Logf("fitted to %d shapes, on the other %d: error of the time %.1f %% (median), %.1f %% (nine of ten); choices "+
			"%.1f %% slower than the fastest plan on average, %.1f %% at most", len(seen), len(unseen), 100*median, 100*ninth,
			100*mean, 100*worst)
		if median > 0.06 || ninth > 0.15 || mean > 0.02 || worst > 0.2 {
			t.Error("the model does not generalise")
		}
	}
}
