package sweep

import (
	"fmt"
	"slices"
	"strconv"
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

// doubt compares the times that a program prints with the time for which it ran, and returns a warning
// about the first impossible one, or "". A time may be longer than the processor time, because a program
// may sleep or wait for a device, but not longer than the wall time. A metric with the word cpu in its name
// is a processor time: it may exceed the wall time, but not the processor time of all ranks. Metrics of a
// simulator are declared as simulated, because it prints times of another machine.
func (p *outputParser) doubt(ranks []decl.RankOutput, samples map[string][]float64) string {
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
			return fmt.Sprintf("claim: the program printed %s=0, but every call takes some time", m.info.Name)
		}
		limit, what := wallTime, fmt.Sprintf("it ran for %s", unit.FormatDuration(wallTime))
		if slices.Contains(strings.Split(strings.ToLower(m.info.Name), "_"), "cpu") {
			limit, what = cpuTime, fmt.Sprintf("it used %s of processor time", unit.FormatDuration(cpuTime))
		}
		perUnit, _ := unit.Conversion(m.info.Unit, "us")
		calls := max(m.calls, 1)
		claimed := slices.Max(values) * perUnit * float64(calls)
		if limit == 0 || claimed <= float64(limit+wallSlack)/float64(time.Microsecond) {
			continue
		}
		printed := strconv.FormatFloat(slices.Max(values), 'f', -1, 64)
		text := fmt.Sprintf("claim: the program printed %s=%s", m.info.Name, printed)
		if calls > 1 {
			text += fmt.Sprintf(" for each of %d calls", calls)
		}
		return fmt.Sprintf("%s, which is %s, but %s (declare simulated: true for times of another machine)", text,
			unit.FormatMicros(claimed), what)
	}
	return ""
}
