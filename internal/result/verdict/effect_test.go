package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// timed returns a good row in an environment, with an interval of +-spread.
func timed(env string, i int64, us, spread float64) journal.Row {
	low, high := us*(1-spread), us*(1+spread)
	ranks := 2
	r := journal.Row{Status: journal.OK, NumRanks: &ranks, Point: point.Point{{Name: "i", Value: point.IntValue(i)}},
		Env: point.Env{{Name: "E", Value: env, Set: true}}, Metrics: map[string]float64{"time_us": us}}
	if spread > 0 {
		r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {CILow: &low, CIHigh: &high}})
	}
	return r
}

// swept makes rows of a variable E with the given values. Each launch has a random factor, and each value a
// factor at each point.
func swept(rng *rand.Rand, trials, points int, spread float64, factor func(value, point int) float64,
	values ...string) []journal.Row {
	var rows []journal.Row
	for v, value := range values {
		for trial := range trials {
			luck := math.Exp(spread * rng.NormFloat64())
			for i := range points {
				r := timed(value, int64(i), 100*float64(i+1)*luck*factor(v, i), 0.001)
				r.Trial, r.Kind, r.Samples = trial, journal.Measured, 100
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func TestEffects(t *testing.T) {
	none := func(int, int) float64 { return 1 }
	ten := func(v, _ int) float64 { return 1 - 0.1*float64(min(v, 1)) }
	crossed := func(v, p int) float64 { return 1 - 0.2*float64(v*(1-p)) + 0.05*float64(v*p) }
	exact := func(us ...float64) (rows []journal.Row) {
		for i, v := range us {
			r := timed(fmt.Sprint(i), 1, v, 0)
			r.Kind, r.Samples = journal.Simulated, 1
			rows = append(rows, r)
		}
		return rows
	}
	failed := exact(100, 100)
	failed[1].Status = journal.Failed
	apart := exact(100, 100)
	apart[1].Point = point.Point{{Name: "i", Value: point.IntValue(9)}}
	without := exact(100, 100)
	without[0].Env, without[1].Env = nil, nil
	bandwidth := exact(5, 10)
	for i := range bandwidth {
		bandwidth[i].Metrics = map[string]float64{"gbps": bandwidth[i].Metrics["time_us"], "wrong": 0}
	}
	// The main metric is the only time, although another metric comes first in the alphabet.
	training := exact(10, 20)
	for i := range training {
		training[i].Metrics = map[string]float64{"loss": 3, "time_s": training[i].Metrics["time_us"]}
		training[i].Units = map[string]string{"time_s": "s"}
	}
	zip := func(rows []journal.Row, second func(first string) string) []journal.Row {
		for i := range rows {
			first, _ := rows[i].Env.Get("E")
			rows[i].Env = append(rows[i].Env, point.EnvVar{Name: "F", Value: second(first.Value), Set: true})
		}
		return rows
	}
	same := func(first string) string { return first }
	double := func(first string) string { return first + first }
	split := swept(rand.New(rand.NewPCG(5, 6)), 6, 1, 0.01, ten, "1", "2") // zipped with the axis i
	for i := range split {
		value, _ := split[i].Env.Get("E")
		split[i].Point = point.Point{{Name: "i", Value: point.StringValue(value.Value)}}
	}
	disturbed := swept(rand.New(rand.NewPCG(1, 1)), 6, 2, 0.001, ten, "1", "2")
	for i := range disturbed {
		disturbed[i].Quality = journal.QualityDisturbed
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		rows []journal.Row
		want string // the only note; "" for none
	}{
		{"nothing", nil, ""},
		{"no variable", without, ""},
		{"one value left", failed, ""},
		{"no point in common", apart, "E: effect not resolved: no point was measured with two of its values"},
		{"exact, equal", exact(100, 100, 101),
			"E: no visible effect: time_us of its 3 values is equal within 2 % at the only point (95 % intervals " +
				"+0.0 to +1.0 %)"},
		{"exact, apart", exact(100, 90, 90),
			"E: best is 1: time_us -10.0 % against 0 (95 % interval -10.0 to -10.0 %); not separated from it: 2 " +
				"(+0.0 to +0.0 %)"},
		{"a time beside another metric", training, "E: lowest is 0: time_s -50.0 % against 1"},
		{"higher is better", bandwidth, "E: best is 1: gbps +100.0 % against 0"},
		{"one launch a value, equal", swept(rng, 1, 5, 0.001, none, "1", "2"), "E: effect not resolved: fewer than 4"},
		{"one launch a value, apart", swept(rng, 1, 5, 0.001, ten, "1", "2"), "E: effect not resolved: fewer than 4"},
		{"quiet, equal", swept(rng, 6, 5, 0.002, none, "1", "2", "3"), "E: no visible effect: time_us of its 3 values"},
		{"10 % in 10 % of noise", swept(rng, 6, 5, 0.1, ten, "1", "2"), "E: effect not resolved: "},
		{"equal in 10 % of noise", swept(rng, 6, 5, 0.1, none, "1", "2"), "E: effect not resolved: "},
		{"10 % in 1 % of noise", swept(rng, 6, 5, 0.01, ten, "1", "2"), "E: best is 2: time_us -"},
		{"12 values, one verdict", swept(rng, 6, 1, 0.002, none, strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12")...),
			"E: no visible effect: time_us of its 12 values"},
		{"depends on the point", swept(rng, 6, 2, 0.005, crossed, "1", "2"), "E: best is 2: time_us -"},
		{"zipped", zip(swept(rng, 6, 5, 0.01, ten, "1", "2"), same), "E and F: best is 2: time_us -"},
		{"zipped, other values", zip(swept(rng, 6, 5, 0.01, ten, "1", "2"), double), "E and F: best is 2 and 22: time_us -"},
		{"zipped with an axis", split, "E: effect not resolved: no point was measured with two of its values"},
		{"all disturbed", disturbed, "E: best is 2: time_us -10.0 % against 1 (95 % interval "},
	} {
		notes := Effects(dataset.All(c.rows), []journal.MetricInfo{{Name: "gbps", Better: "higher"}})
		if c.want == "" && len(notes) == 0 {
			continue
		}
		if len(notes) != 1 || c.want == "" || !strings.HasPrefix(notes[0], c.want) {
			t.Errorf("%s: %q, want %q", c.name, notes, c.want)
		}
		if c.name == "all disturbed" && !strings.HasSuffix(notes[0], "; 24 of 24 rows were disturbed, and count") {
			t.Errorf("%s: %q", c.name, notes)
		}
		if c.name == "depends on the point" && !strings.Contains(notes[0], "it depends on the point") {
			t.Errorf("%s: %q", c.name, notes)
		}
	}
}

// A tuning study has effects of its axes, its variables and its number of ranks. They are judged within
// rounds, and nothing is advised that a study cannot do.
func TestEffectsOfAStudy(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	var rows dataset.Set
	for round := range 6 {
		for axis := range int64(3) {
			for ranks := 1; ranks <= 2; ranks++ {
				r := timed("x", axis, 100*math.Exp(0.01*rng.NormFloat64()-0.3*float64(axis%2)), 0.001)
				r.NumRanks, r.Trial, r.Kind, r.Samples = &ranks, round, journal.Measured, 100
				rows = append(rows, &r)
			}
		}
	}
	metric := journal.MetricInfo{Name: "time_us", Better: "lower"}
	variables := [][]string{{"i"}, {"num_ranks"}, {"E"}}
	notes := EffectsOf(variables, rows, metric)
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "i: best is 1: time_us -") ||
		!strings.HasPrefix(notes[1], "num_ranks: ") || strings.Contains(notes[1], "best") {
		t.Errorf("%q", notes)
	}
	few := EffectsOf(variables, rows[:6], metric)
	if !strings.HasSuffix(few[0], "fewer than 4 launches of each value do not show how much launches differ") {
		t.Errorf("%q", few)
	}
}

// Of two hundred sweeps over a variable without effect, at most 18 report a best value.
func TestEffectsOfNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, values := range [][]string{{"1", "2"}, {"1", "2", "3", "4", "5", "6"}} {
		wrong := 0
		for range 200 {
			notes := Effects(dataset.All(swept(rng, 6, 3, 0.03, func(int, int) float64 { return 1 }, values...)), nil)
			if strings.Contains(notes[0], "best") {
				wrong++
			}
		}
		if wrong > 18 {
			t.Errorf("%d of 200 sweeps over %d equal values have a best one", wrong, len(values))
		}
	}
}
