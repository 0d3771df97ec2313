package solvescaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// sizeAxis returns the axis that sets the size of the problem in a mode.
func sizeAxis(mode string) string {
	if mode == strong {
		return totalAxis
	}
	return perRankAxis
}

// The details of a row that describe where it ran. Rows that differ in the CPU or the version belong to different
// configurations. Threads are the threads that a rank may use. There are more of them if a host has fewer ranks, but
// the arithmetic of a rank uses only one.
const (
	threadsDetail = "threads"
	cpuDetail     = "cpu"
	versionDetail = "version"
	gpuDetail     = "gpu"
	rhsDetail     = "rhs_sha256" // of a right-hand side from a file
	// nullSpaceDetail names the null space that was projected out of the solve of a singular matrix.
	nullSpaceDetail = "null_space"

	hostsDetail = "hosts" // number of hosts of the ranks

	chosenDetail = "chosen" // the solver that auto chose

	// Facts, which are stored as JSON.
	trialsDetail  = "trials"             // of auto, the best first
	historyDetail = "history"            // residuals
	workDetail    = "phase_work"         // count, bytes and operations of each phase of an iteration, over all ranks
	levelsDetail  = "levels"             // of a hierarchy
	finestDetail  = "finest_level_steps" // of a cycle on GPUs: the kernels on the finest level
)

// keyOf identifies the rows that differ in nothing but the ignored coordinates and their trial. A throughput row does
// the work of a weak row. The CPU, the GPU, the version and the contents of a file belong to the identity.
func keyOf(r *journal.Row, ignore ...string) string {
	return fmt.Sprintf("%t %q %s", dataset.Text(r, modeAxis) == strong,
		lists.Map([]string{cpuDetail, versionDetail, rhsDetail, gpuDetail}, func(d string) string { return r.Details[d] }),
		dataset.Key(r, append(ignore, modeAxis, solutionOption, writtenOption)...))
}

// pointKey identifies the trials of a point.
func pointKey(r *journal.Row) string { return keyOf(r) }

// familyKey identifies the rows that form one scaling curve. They differ only in the number of ranks.
func familyKey(r *journal.Row) string { return keyOf(r, dataset.NumRanks) }

// configurationKey identifies the configuration that rows of different sizes and rank counts share. It
// includes the number of repeats, because the best of many solves cannot be compared with the best of
// few.
func configurationKey(r *journal.Row) string {
	return keyOf(r, dataset.NumRanks, perRankAxis, totalAxis)
}

// perIteration returns the time of an iteration in the fastest solve of a row, in microseconds.
func perIteration(r *journal.Row) float64 { return r.Metrics["time_us"] }

// stopped reports whether the solves of a row were stopped before they reached a solution. Such a row has the time of
// an iteration, but no time to solution.
func stopped(r *journal.Row) bool { return r.Conditions.Has(journal.CodeEarlyStop) }

// derive compares each row with the row of one rank of the same configuration. With N unknowns solved in time T:
//
//	speedup                   (N/T) / (N1/T1): the ratio of times if N is the same
//	efficiency                speedup / ranks = algorithmic x implementation
//	efficiency_algorithmic    iterations of one rank / iterations
//	efficiency_implementation the same efficiency for the time of one iteration
//	  _low, _high             from the slowest solve of all trials against the fastest of one rank, to the opposite
//	bandwidth_scaling         typical triad of all ranks / (ranks x triad of one rank)
//
// If solves were stopped without a solution, only the time of an iteration is compared.
//
// All are computed from the medians of the trials, and every trial of a point has the same.
func derive(rows dataset.Set) dataset.Set {
	out := rows.Clone()
	trials := lists.GroupBy(out.Good(), pointKey)
	base := map[string]dataset.Set{} // trials of one rank
	for _, g := range trials {
		if r := g.Items[0]; dataset.Ranks(r) == 1 {
			base[familyKey(r)] = g.Items
			base[hostKey(r)] = append(base[hostKey(r)], g.Items...)
		}
	}
	for _, g := range trials {
		found := interpret(g.Items, base)
		for _, r := range g.Items {
			r.Metrics, r.Details = merge(r.Metrics, found.Metrics), merge(r.Details, found.Details)
			r.Conditions.Add(found.Conditions...)
		}
	}
	return out
}

// merge returns a new map with the entries of both. Those of b count.
func merge[V any](a, b map[string]V) map[string]V {
	out := map[string]V{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// interpret returns the metrics, details and conditions that follow for a point from its trials and from those of one
// rank. One rank sends nothing, so rows of another backend on the same host serve as well.
func interpret(trials dataset.Set, base map[string]dataset.Set) (found journal.Row) {
	r := trials.Merge()
	found.Metrics, found.Details = map[string]float64{}, map[string]string{verdictDetail: causeOf(r).name}
	one, same := base[familyKey(r)]
	if !same && hostKey(r) != "" {
		one = base[hostKey(r)]
	}
	switch n := r.Sharing(); {
	case n > 0:
		shared := journal.NewCondition(journal.CodeSharedGPU, journal.Named{"ranks": float64(n)})
		found.Conditions = []journal.Condition{shared}
		return found
	case one == nil:
		found.Conditions = []journal.Condition{{Code: journal.CodeNoBaseline}}
		return found
	}
	b := one.Merge()
	compare(found.Metrics, trials, one)
	if b.Backend != r.Backend {
		found.Details[baselineDetail] = fmt.Sprintf("the row of 1 rank by %s on the same host", b.Backend)
	}
	if doubt := efficiencyDoubt(r, b, found.Metrics); dataset.Ranks(r) > 1 && doubt != "" {
		found.Details[doubtDetail] = doubt
	}
	return found
}

// solveTimes returns the shortest and the longest time of an iteration over all solves of the trials.
func solveTimes(trials dataset.Set) (shortest, longest float64) {
	for _, r := range trials.Counting() {
		if t := r.Stats.Get("time_us"); t.Min > 0 {
			shortest, longest = min(cmp.Or(shortest, t.Min), t.Min), max(longest, t.Max)
		}
	}
	return shortest, longest
}

// hostKey identifies rows that differ only in the number of ranks and in the backend and ran on one host. It is "" for
// rows of GPUs, of several hosts, and of an unknown number of hosts.
func hostKey(r *journal.Row) string {
	if r.Details[gpuDetail] != "" || dataset.Ranks(r) > 1 && r.Details[hostsDetail] != "1" {
		return ""
	}
	return r.Host + " " + keyOf(r, dataset.NumRanks, dataset.Backend)
}

// compare adds the comparison of a point with the point of one rank to the metrics.
func compare(m map[string]float64, trials, trialsOfOne dataset.Set) {
	r, one := trials.Merge(), trialsOfOne.Merge()
	ranks := float64(dataset.Ranks(r))
	each := r.Metrics["dof_global"] / perIteration(r) / (one.Metrics["dof_global"] / perIteration(one)) / ranks
	m["efficiency_implementation"] = each
	shortest, longest := solveTimes(trials)
	shortestOne, longestOne := solveTimes(trialsOfOne)
	low, high := 0.0, 0.0
	if ranks > 1 && longest > shortest && shortestOne > 0 {
		ratio := perIteration(r) / perIteration(one)
		low, high = each*ratio*shortestOne/longest, each*ratio*longestOne/shortest
		m["efficiency_implementation_low"], m["efficiency_implementation_high"] = low, high
	}
	if !stopped(r) && !stopped(one) {
		fewer := one.Metrics["iterations"] / max(1, r.Metrics["iterations"])
		m["efficiency_algorithmic"] = fewer
		m["efficiency"] = each * fewer
		m["speedup"] = each * fewer * ranks
		if high > 0 {
			m["efficiency_low"], m["efficiency_high"] = low*fewer, high*fewer
		}
	}
	if set := one.Metrics["working_set_bytes"]; set > 0 {
		m[oneSet], m[oneCache] = set, one.Metrics["cache_bytes"]
	}
	if own, theirs := r.Metrics["triad_typical_gbps"], one.Metrics["triad_typical_gbps"]; theirs > 0 {
		m["bandwidth_scaling"] = own / theirs / ranks
	}
}

// curve is the rows of one family by ranks, with the trials of each point merged.
type curve struct {
	mode   string
	rows   dataset.Set // successful
	trials dataset.Set // all trials of these rows
	bad    dataset.Set // failed
}

// curves groups rows into families, in the order of their first rows. A throughput curve is separate from a weak one.
func curves(rows dataset.Set) []*curve {
	ran := rows.Where(func(r *journal.Row) bool { return !r.Status.NotRun() })
	families := lists.GroupBy(ran, func(r *journal.Row) string { return dataset.Text(r, modeAxis) + familyKey(r) })
	byRanks := func(a, b *journal.Row) int { return dataset.Ranks(a) - dataset.Ranks(b) }
	return lists.Map(families, func(g lists.Group[string, dataset.Set]) *curve {
		c := &curve{mode: dataset.Text(g.Items[0], modeAxis), trials: g.Items.Good(),
			bad: g.Items.Where(func(r *journal.Row) bool { return r.Status != journal.OK })}
		c.rows = merged(c.trials)
		slices.SortStableFunc(c.rows, byRanks)
		slices.SortStableFunc(c.bad, byRanks)
		return c
	})
}

// merged returns a row for each point, with the medians of its trials.
func merged(trials dataset.Set) dataset.Set {
	points := lists.GroupBy(trials, pointKey)
	return lists.Map(points, func(g lists.Group[string, dataset.Set]) *journal.Row { return g.Items.Merge() })
}

// any returns a row of the curve, a successful one if there is one.
func (c *curve) any() *journal.Row {
	if len(c.rows) > 0 {
		return c.rows[0]
	}
	return c.bad[0]
}

// last returns the row of the largest number of ranks, and whether there is one.
func (c *curve) last() (r *journal.Row, ok bool) {
	if len(c.rows) == 0 {
		return nil, false
	}
	return c.rows[len(c.rows)-1], true
}
