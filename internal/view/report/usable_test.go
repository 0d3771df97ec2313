package report

import (
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The verdict calls times usable only if they neither have two modes nor drift over the trials.
func TestTimesUsable(t *testing.T) {
	launches := func(factor func(trial int) float64) (rows []journal.Row) {
		for trial := range 24 {
			for _, size := range sizes[:2] {
				r := fixtureRow(coords{size, "f32", 2, "Ring", 0})
				us := r.Metrics["time_us"] * factor(trial) * (1 + 0.001*float64(trial%3))
				r.Trial, r.Launch, r.Time = trial, string(rune('a'+trial)), time.Unix(int64(trial), 0)
				r.Metrics = map[string]float64{"time_us": us}
				r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {CILow: ptr(us * .99), CIHigh: ptr(us * 1.01)}})
				rows = append(rows, r)
			}
		}
		return rows
	}
	steady := func(int) float64 { return 1 }
	split := launches(steady)
	modes := []stats.Mode{{Center: 5, Share: 0.9}, {Center: 7, Share: 0.1}}
	split[3].Stats = journal.NewObject(map[string]journal.Stat{"time_us": {Modes: modes, CILow: ptr(5.), CIHigh: ptr(5.)}})
	keyless := launches(steady)
	for i := range keyless {
		keyless[i].Key = ""
	}
	for name, c := range map[string]struct {
		rows []journal.Row
		want string
	}{
		"steady": {launches(steady), "- **Times usable:** nothing is known to have disturbed them."},
		"drift": {launches(func(trial int) float64 { return 1 + 0.3*float64(trial)/24 }),
			"- **Times usable with care:** time_us rose by 1"},
		"two modes of the launches": {launches(func(trial int) float64 { return 1 + 6.7*float64(trial%2) }),
			"- **Times usable with care:** the launches of 2 points have two modes."},
		"two modes of the samples":              {split, "- **Times usable with care:** the samples of 1 row have two modes."},
		"rows of another program, without keys": {keyless, "- **Times usable:** nothing is known to have disturbed them."},
	} {
		in := Input{Data: dataset.Of(&journal.Run{Header: *fixtureHeader(), Rows: c.rows})}
		if got := opening(in, dataset.All(c.rows)).Text; !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
