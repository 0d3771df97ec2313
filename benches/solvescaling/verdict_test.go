package solvescaling

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// setShares gives a row the shares of its timed solves: work, imbalance and waiting, each with half its range.
func setShares(r *journal.Row, samples int, parts [3][2]float64) {
	r.Samples = samples
	r.Stats = r.Stats.With("time_us", journal.Stat{Min: r.Metrics["time_us"], Max: 1.05 * r.Metrics["time_us"]})
	for i, name := range []string{workShare, imbalanceShare, waitingShare} {
		r.Metrics[name] = parts[i][0]
		r.Stats = r.Stats.With(name, journal.Stat{Min: parts[i][0] - parts[i][1], Max: parts[i][0] + parts[i][1]})
	}
}

// A cause is named only if the parts of the timed solves show it, with their range. The trace has no say in it.
func TestCauseNeedsItsRange(t *testing.T) {
	for name, c := range map[string]struct {
		samples   int
		parts     [3][2]float64
		disturbed bool
		want      string
	}{
		"messages": {3, [3][2]float64{{0.3, 0.02}, {0.1, 0.02}, {0.6, 0.04}}, false,
			"ranks wait for 0.6 (0.56 to 0.64) of its 1.01 ms"},
		"wide": {3, [3][2]float64{{0.3, 0.2}, {0.1, 0.1}, {0.6, 0.4}}, false,
			"not resolved: ranks wait for 0.6 (0.2 to 1) of it"},
		"two losses": {3, [3][2]float64{{0.2, 0}, {0.38, 0.05}, {0.42, 0.05}}, false,
			"not resolved: ranks wait for 0.42 (0.37 to 0.47)"},
		"imbalance": {3, [3][2]float64{{0.7, 0}, {0.25, 0.02}, {0.05, 0}}, false,
			"the slowest works 0.25 (0.23 to 0.27) of it longer"},
		"some imbalance": {3, [3][2]float64{{0.7, 0}, {0.2, 0.15}, {0.1, 0}}, false,
			"not resolved: the slowest rank works 0.2 (0.05 to 0.35)"},
		"work":      {3, [3][2]float64{{0.95, 0}, {0.02, 0}, {0.03, 0}}, false, "bound by memory bandwidth"},
		"one solve": {1, [3][2]float64{{0.3, 0}, {0.1, 0}, {0.6, 0}}, false, "not resolved: one timed solve gives no range"},
		"disturbed": {3, [3][2]float64{{0.3, 0}, {0.1, 0}, {0.6, 0}}, true, "not resolved: the row was disturbed"},
		"varying work": {3, [3][2]float64{{0.7, 0.3}, {0.08, 0}, {0.22, 0.2}}, false,
			"not resolved: ranks work for 0.7 (0.4 to 1) of it and wait for 0.22 (0.02 to 0.42)"},
	} {
		r := newRow(weak, 2, 2000, 0.101, 100)
		r.Metrics["traced_us"], r.Metrics["communication_us"] = 12000, 900
		setShares(&r, c.samples, c.parts)
		if c.disturbed {
			r.Quality = journal.QualityDisturbed
		}
		if got := causeOf(&r).sentence; !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// Causes that the numbers of a row seem to show are not named if something else explains them.
func TestFalseCauses(t *testing.T) {
	working := [3][2]float64{{0.9, 0}, {0.05, 0}, {0.05, 0}}
	waiting := [3][2]float64{{0.3, 0}, {0.1, 0}, {0.6, 0.1}}
	uneven := [3][2]float64{{0.7, 0}, {0.25, 0.02}, {0.05, 0}}
	for name, c := range map[string]struct {
		parts      [3][2]float64
		change     func(r *journal.Row)
		cause, not string
	}{
		"two ranks on one core": {waiting, func(r *journal.Row) {
			r.Conditions = []journal.Condition{{Code: journal.CodeCrowded}}
		}, "shared cores", "bound by"},
		"in the caches": {working, func(r *journal.Row) {
			r.Metrics["working_set_bytes"], r.Metrics["cache_bytes"] = 1e6, 2e6
		}, "not resolved", "bound by memory"},
		"half of the waiting": {waiting, func(r *journal.Row) {
			r.Metrics["communication_us"] = 0.3 * r.Metrics["time_us"]
		}, "waiting", "bound by messages"},
		"another rank is slow": {uneven, func(r *journal.Row) {
			r.Metrics["row_imbalance"] = 1.6
			r.Details[slowRankDetail] = `{"Rank":1,"Core":5,"Rows":0.9,"OnCore":1.4}`
		}, "a slow rank", "bound by imbalance"},
	} {
		r := newRow(weak, 2, 2000, 0.101, 100)
		setShares(&r, 3, c.parts)
		c.change(&r)
		if got := causeOf(&r); got.name != c.cause || strings.Contains(got.sentence, c.not) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An efficiency is stated with its interval. It is not resolved if the solves differ too much or a row
// was disturbed, and more than 100 % is explained by the caches or flagged.
func TestEfficiencyText(t *testing.T) {
	for name, c := range map[string]struct {
		seconds, spread  float64
		set, one, caches float64 // bytes
		disturbed        int     // number of ranks of the disturbed row
		want             string
	}{
		"shared cores": {0.55, 1.02, 0, 0, 0, 3, "is not resolved: ranks share cores"},
		"plain": {0.55, 1.02, 0, 0, 0, 0,
			"2 ranks keep 0.909 (0.89 to 0.93) of one rank's efficiency: 1 by the number"},
		"wide": {0.33, 10, 0, 0, 0, 0,
			"not resolved: the solves differ too much. By the time of an iteration it is about 1.52 (0.15 to 15)"},
		"disturbed":      {0.55, 1.02, 0, 0, 0, 2, "is not resolved: the row of 2 ranks was disturbed"},
		"disturbed base": {0.55, 1.02, 0, 0, 0, 1, "is not resolved: the row of 1 rank was disturbed"},
		"cached": {0.2, 1.02, 4e6, 8e6, 5e6, 0,
			"More than 1 is explained by the caches: they hold 100 % of the working set"},
		"too good":       {0.2, 1.02, 8e6, 8e6, 5e6, 0, "More than 1 is not explained by the caches, which hold 62 %"},
		"unknown caches": {0.2, 1.02, 0, 0, 0, 0, "not explained: the working set and the caches are not known"},
	} {
		rows := []journal.Row{newRow(strong, 1, 1000, 1, 100), newRow(strong, 2, 1000, c.seconds, 100)}
		for i := range rows {
			m := rows[i].Metrics
			rows[i].Stats = journal.NewObject(map[string]journal.Stat{"time_us": {Min: m["time_us"],
				Max: c.spread * m["time_us"]}})
			if m["working_set_bytes"] = []float64{c.one, c.set}[i]; c.caches > 0 {
				m["cache_bytes"] = c.caches
			}
			switch {
			case c.disturbed == i+1:
				rows[i].Quality = journal.QualityDisturbed
			case c.disturbed > 2:
				rows[i].Conditions = []journal.Condition{{Code: journal.CodeCrowded}}
			}
		}
		got := derive(dataset.All(rows))
		if text := efficiencyText(got[1]).text; !strings.Contains(text, c.want) {
			t.Errorf("%s: %s\nwant %s", name, text, c.want)
		}
	}
}

// A row of MPI on one host is compared with the row of one rank of another backend, and says so. Rows
// of several hosts, or on another host, are not.
func TestBaselineOfAnotherBackend(t *testing.T) {
	for name, c := range map[string]struct {
		hosts, host string
		served      bool
	}{"one host": {"1", "vm", true}, "two hosts": {"2", "vm", false}, "another host": {"1", "other", false},
		"unknown": {"", "vm", false}} {
		rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 3, 3000, 1, 100)}
		rows[1].Backend, rows[1].Host = "mpi", c.host
		rows[1].Details = map[string]string{hostsDetail: c.hosts}
		r := derive(dataset.All(rows))[1]
		if _, has := r.Metrics["efficiency"]; has != c.served || (r.Details[baselineDetail] != "") != c.served {
			t.Errorf("%s: efficiency %v, baseline %q", name, r.Metrics["efficiency"], r.Details[baselineDetail])
		}
	}
}

// Swapping the cores of two ranks shows whether the core or the rows of a slow rank are the reason.
func TestSlowReason(t *testing.T) {
	for want, c := range map[string][2]float64{"core 5 is slow": {1.02, 1.5}, "the rows of rank 1 are slow": {1.5, 0.98},
		"the cause is gone": {1, 1}, "not resolved": {1.3, 1.3}} {
		if got := (slowRank{1, 5, c[0], c[1]}).String(); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

// docs/solve-scaling.md shows what a report says about a slow core and about slow rows.
func TestDocumentedSlowRank(t *testing.T) {
	var lines []string
	for _, facts := range []string{`{"Rank":1,"Core":1,"Rows":0.41,"OnCore":1.62}`,
		`{"Rank":0,"Core":0,"Rows":1.75,"OnCore":1.03}`} {
		r := newRow(weak, 2, 2000, 0.101, 100)
		r.Details[slowRankDetail] = facts
		for _, s := range verdict(&curve{rows: []*journal.Row{&r}}, nil) {
			if strings.HasPrefix(s.text, "One rank ") {
				lines = append(lines, s.text)
			}
		}
	}
	golden.Shown(t, "slow-rank", strings.Join(lines, "\n"))
}

// Other programs can make a rank slow, or delay a reduction. The verdict on a disturbed row says neither.
func TestVerdictOfDisturbedRow(t *testing.T) {
	for quality, want := range map[journal.Quality]int{"": 2, journal.QualityDisturbed: 0} {
		r := newRow(weak, 2, 2000, 0.101, 100)
		r.Quality, r.Details[slowRankDetail] = quality, `{"Rank":1,"Core":1,"Rows":0.41,"OnCore":1.62}`
		r.Metrics["allreduce_blocking_us"], r.Metrics["allreduce_traced_us"] = 10, 4
		text := fmt.Sprint(verdict(&curve{rows: []*journal.Row{&r}}, nil))
		if got := strings.Count(text, "One rank was slow") + strings.Count(text, "are hidden behind"); got != want {
			t.Errorf("quality %q: %s", quality, text)
		}
	}
}
