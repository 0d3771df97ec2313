package sweep

import (
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// headline is the name of the metric that every timed row has.
const headline = "time_us"

// wallSlack allows for the resolution of clocks and for a program that started before we looked.
const wallSlack = 10 * time.Millisecond

// doubt holds the times that a program claims against the time it ran, and returns the first that is
// impossible, or "". A simulator prints times of another machine, so its metrics are declared
// simulated.
func (p *outputParser) doubt(ranks []decl.RankOutput, samples map[string][]float64) string {
	ran := time.Duration(0)
	for _, out := range ranks {
		ran = max(ran, out.Wall)
	}
	for i, m := range p.metrics {
		values := samples[m.info.Name]
		dimension, _ := unit.Known(m.info.Unit)
		if _, measured := m.single.(wall); dimension != "time" || m.simulated || measured || len(values) == 0 {
			continue
		}
		perUnit, _ := unit.Conversion(m.info.Unit, "us")
		if slices.Min(values) == 0 && (m.info.Name == headline || i == 0) {
			return fmt.Sprintf("claim: the program printed %s=0: no call takes no time", m.info.Name)
		}
		calls := max(m.calls, 1)
		claimed := slices.Max(values) * perUnit * float64(calls)
		if ran == 0 || claimed <= float64(ran+wallSlack)/float64(time.Microsecond) {
			continue
		}
		text := fmt.Sprintf("claim: the program printed %s=%v", m.info.Name, slices.Max(values))
		if calls > 1 {
			text += fmt.Sprintf(" for each of %d calls", calls)
		}
		return fmt.Sprintf("%s, which is %s, but it ran for %s (declare simulated: true for times of another machine)",
			text, unit.FormatMicros(claimed), unit.FormatDuration(ran))
	}
	return ""
}
