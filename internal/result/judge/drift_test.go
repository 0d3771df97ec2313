package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// interleaved makes the rows of interleaved trials: settings times trials launches, each with some points. The time
// of a launch is scaled by the factor for its place in the run, from 0 to 1, and by noise of 2 %.
func interleaved(r *rand.Rand, settings, trials, points int,
	factor func(setting int, at float64) float64) (rows dataset.Set) {
	for trial := range trials {
		for k, setting := range r.Perm(settings) {
			n := trial*settings + k
			luck := math.Exp(0.02*r.NormFloat64()) * factor(setting, float64(n)/float64(settings*trials-1))
			for i := range points {
				rows = append(rows, &journal.Row{Bench: "b", Status: journal.OK, Kind: journal.Measured, Trial: trial,
					Launch: fmt.Sprint(n), Time: time.Unix(int64(n), 0),
					Point:   point.Point{{Name: "i", Value: point.IntValue(int64(i))}},
					Env:     point.Env{{Name: "E", Value: fmt.Sprint(setting), Set: true}},
					Metrics: map[string]float64{"time_us": 100 * float64(1+i+setting) * luck}})
			}
		}
	}
	return rows
}

func TestTrialDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	steady := func(int, float64) float64 { return 1 }
	rising := func(_ int, at float64) float64 { return 1 + 0.3*at }
	second := func(setting int, at float64) float64 { return 1 - 0.5*at*float64(setting/3) }
	for _, c := range []struct {
		name                     string
		settings, trials, points int
		factor                   func(int, float64) float64
		want                     string
	}{
		{"a sweep that slows down", 3, 4, 5, rising, "time_us rose by 1"},
		{"a program that slows down", 1, 300, 1, rising, "time_us rose by 1"},
		{"one setting of four becomes faster", 4, 20, 1, second, "at b i=0 E=3, time_us fell by "},
		{"four launches are too few", 1, 4, 5, rising, ""},
		{"nothing", 3, 6, 2, steady, ""},
	} {
		found := Drifts(interleaved(r, c.settings, c.trials, c.points, c.factor), "time_us")
		if text := strings.Join(lists.Map(found, Drift.String), "; "); !strings.HasPrefix(text, c.want) ||
			(c.want == "") != (text == "") {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
	found := 0
	for range 500 {
		rows := interleaved(r, 3, 6, 2, steady)
		for i := range rows { // differences that are large enough to be reported
			rows[i].Metrics["time_us"] = math.Pow(rows[i].Metrics["time_us"], 5)
		}
		found += len(Drifts(rows, "time_us"))
	}
	if found > 10 { // 5 are expected at most
		t.Errorf("%d notes about 500 runs without drift", found)
	}
}
