package sweep

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// wallSlack is added to the measured run time of a program. It allows for the resolution of clocks, and for
// a program that started before the measurement did. The kernel also counts processor time in ticks of up
// to 10 ms.
const wallSlack = 10 * time.Millisecond

// timesRow reports whether a metric is the time of its row: the main metric, if that is a time.
func (p *outputParser) timesRow(i int) bool {
	main, _ := dataset.Main(lists.Map(p.metrics, func(m metric) journal.MetricInfo { return m.info }))
	dimension, _ := unit.Known(main.Unit)
	return dimension == "time" && main.Name == p.metrics[i].info.Name
}

// negative returns the reason for failing a row whose time is below zero, or "". Other metrics may be differences of
// times.
func (p *outputParser) negative(samples map[string][]float64) string {
	for i, m := range p.metrics {
		if values := samples[m.info.Name]; p.timesRow(i) && len(values) > 0 && slices.Min(values) < 0 {
			return fmt.Sprintf("%s is %v: no time is below zero", m.info.Name, slices.Min(values))
		}
	}
	return ""
}

// doubt compares the times that a program prints with the time for which it ran, and returns a
// condition about the first impossible one. A time may be longer than the processor time, because a program
// may sleep or wait for a device, but not longer than the wall time. A metric with the word cpu in its name
// is a processor time: it may exceed the wall time, but not the processor time of all ranks. Metrics of a
// simulator are declared as simulated, because it prints times of another machine.
func (p *outputParser) doubt(ranks []decl.RankOutput, samples map[string][]float64) []journal.Condition {
	wallTime, cpuTime := time.Duration(0), time.Duration(0)
	for _, out := range ranks {
		wallTime = max(wallTime, out.Wall)
		cpuTime += out.CPU
	}
	for i, m := range p.metrics {
		values := samples[m.info.Name]
		dimension, _ := unit.Known(m.info.Unit)
		if _, measured := m.single.(wall); dimension != "time" || m.simulated || measured || len(values) == 0 {
			continue
		}
		if slices.Min(values) == 0 && p.timesRow(i) {
			return []journal.Condition{journal.NewCondition(journal.CodeClaimZero, nil, m.info.Name)}
		}
		limit, what := wallTime, "ran_us"
		if slices.Contains(strings.Split(strings.ToLower(m.info.Name), "_"), "cpu") {
			limit, what = cpuTime, "cpu_us"
		}
		perUnit, _ := unit.Conversion(m.info.Unit, "us")
		calls := max(m.calls, 1)
		claimed := slices.Max(values) * perUnit * float64(calls)
		if limit == 0 || claimed <= float64(limit+wallSlack)/float64(time.Microsecond) {
			continue
		}
		claim := journal.Named{"printed": slices.Max(values), "claimed_us": claimed,
			what: float64(limit) / float64(time.Microsecond)}
		if calls > 1 {
			claim["calls"] = float64(calls)
		}
		return []journal.Condition{journal.NewCondition(journal.CodeClaim, claim, m.info.Name)}
	}
	return nil
}
