package changepoint

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
)

// histories multiplies the number of simulated histories: go test -run Simulation -v -histories 10
// makes the tables of docs/statistics.md.
var histories = flag.Int("histories", 1, "simulate this many times as many histories")

// machine simulates how times vary, as logarithms: launches within a run, and what all points
// of a run have in common.
type machine struct {
	name        string
	launch, run func(*rand.Rand) float64
}

func normal(sd float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 { return sd * rng.NormFloat64() }
}

// heavy is like normal, but one value in eight is far larger.
func heavy(sd float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 {
		v := sd * rng.NormFloat64()
		if rng.IntN(8) == 0 {
			v += 8 * sd * rng.ExpFloat64()
		}
		return v
	}
}

// wandering is like normal, but successive values have a correlation.
func wandering(sd, correlation float64) func(*rand.Rand) float64 {
	v := 0.0
	return func(rng *rand.Rand) float64 {
		v = correlation*v + math.Sqrt(1-correlation*correlation)*sd*rng.NormFloat64()
		return v
	}
}

// usual is the machine of the goals.
var usual = machine{"launches 3 %, runs 1 %", normal(0.03), normal(0.01)}

const trials = 4

// night returns one run of five points.
func (m machine) night(rng *rand.Rand, slower [5]float64) [][]float64 {
	common := m.run(rng)
	out := make([][]float64, len(slower))
	for p := range out {
		for range trials {
			out[p] = append(out[p], common+m.launch(rng)+math.Log1p(slower[p]))
		}
	}
	return out
}

var (
	rule      = Rule{Alpha: DefaultAlpha, Floor: 0.02, Tolerance: 0.05}
	unchanged [5]float64
)

// unchangedNights checks every night of histories without a change. It returns how many nights
// were slower and faster, and how many of those from the fifth on were good.
func (m machine) unchangedNights(seed uint64, histories, nights int) (slower, faster, good, fromFifth int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range histories {
		s := Series{Exact: make([]bool, 5)}
		for n := 1; n <= nights; n++ {
			if s.Runs = append(s.Runs, m.night(rng, unchanged)); n == 1 {
				continue
			}
			v := rule.Check(s, 1).Verdict()
			if n >= 5 {
				fromFifth++
				if v == NoSlowdown || v == Faster {
					good++
				}
			}
			switch v {
			case Slower:
				slower++
			case Faster:
				faster++
			}
		}
	}
	return slower, faster, good, fromFifth
}

// TestSimulationUnchanged checks the goals for histories without a change: at most 1 false alarm in
// 1000 nights, and from the fifth night on at least 95 % of the nights are good.
func TestSimulationUnchanged(t *testing.T) {
	const nights = 40
	count := 500 * *histories
	slower, faster, good, fromFifth := usual.unchangedNights(1, count, nights)
	t.Logf("%d nights: %d slower, %d faster, %.1f %% good from the fifth on", count*nights, slower, faster,
		100*float64(good)/float64(fromFifth))
	if slower > count*nights/1000 || good*100 < 95*fromFifth {
		t.Errorf("%d false alarms in %d nights, %d of %d good", slower, count*nights, good, fromFifth)
	}
}

// TestSimulationOtherMachines checks that machines whose noise is far from what is assumed raise a
// false alarm in at most 1 night in 50.
func TestSimulationOtherMachines(t *testing.T) {
	for _, m := range []machine{
		{"launches 3 %, one in eight far slower; runs 1 %", heavy(0.03), normal(0.01)},
		{"launches 3 %, runs 3 %", normal(0.03), normal(0.03)},
		{"launches 1 %, runs 6 %", normal(0.01), normal(0.06)},
		{"launches 0.5 %, runs 0.1 %", normal(0.005), normal(0.001)},
		{"launches 3 %, runs 1 %, one in eight far slower", normal(0.03), heavy(0.01)},
		{"launches 3 %, runs 1 % with a correlation of 0.5", normal(0.03), wandering(0.01, 0.5)},
	} {
		const nights = 40
		count := 25 * *histories
		slower, faster, good, fromFifth := m.unchangedNights(2, count, nights)
		t.Logf("%s: %d nights: %d slower, %d faster, %.1f %% good from the fifth on", m.name, count*nights, slower, faster,
			100*float64(good)/float64(fromFifth))
		if slower > count*nights/50 {
			t.Errorf("%s: %d false alarms in %d nights", m.name, slower, count*nights)
		}
	}
}

// TestSimulationWandering shows the limit of the method: a machine that becomes slower and faster by itself, over many
// nights, looks like a program that does.
func TestSimulationWandering(t *testing.T) {
	const nights = 40
	m := machine{"launches 3 %, runs 1 % with a correlation of 0.9", normal(0.03), wandering(0.01, 0.9)}
	count := 25 * *histories
	slower, faster, good, fromFifth := m.unchangedNights(2, count, nights)
	t.Logf("%s: %d nights: %d slower, %d faster, %.1f %% good from the fifth on", m.name, count*nights, slower, faster,
		100*float64(good)/float64(fromFifth))
	if slower > count*nights/20 {
		t.Errorf("%d false alarms in %d nights", slower, count*nights)
	}
}

// TestSimulationChange checks that a change after ten unchanged nights is found within three
// nights in at least 90 % of the histories, and that the night is named.
func TestSimulationChange(t *testing.T) {
	for name, slower := range map[string][5]float64{
		"5 % at all points": {0.05, 0.05, 0.05, 0.05, 0.05},
		"10 % at one point": {0, 0, 0.10, 0, 0},
	} {
		rng := rand.New(rand.NewPCG(3, 1))
		count, found, named := 300**histories, [4]int{}, 0
		for range count {
			s := Series{Exact: make([]bool, 5)}
			for range 10 {
				s.Runs = append(s.Runs, usual.night(rng, unchanged))
			}
			for n := 1; n <= 3; n++ {
				s.Runs = append(s.Runs, usual.night(rng, slower))
				r := rule.Check(s, 1)
				if r.Verdict() != Slower {
					continue
				}
				found[n]++
				step := r.AllPoints
				if step.Verdict != Slower {
					step = r.Points[2]
				}
				if step.Verdict == Slower && step.First == 10 {
					named++
				}
				break
			}
		}
		all := found[1] + found[2] + found[3]
		t.Logf("%s: %d of %d histories: %d after the first night, %d after the second, %d after the third; the night "+
			"named in %d",
			name, all, count, found[1], found[2], found[3], named)
		if 100*all < 90*count {
			t.Errorf("%s: found in %d of %d histories", name, all, count)
		}
	}
}
