package solvescaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/refine"
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

	// workDetail lists for each phase of an iteration how often it runs, its bytes and its operations, over all ranks.
	workDetail = "phase_work"
	// levelWorkDetail lists bytes and operations of each level of a hierarchy in an iteration, over all ranks.
	levelWorkDetail = "level_work"

	chosenDetail = "chosen"             // the solver that auto chose
	trialsDetail = "trials"             // JSON of the trials of auto, the best first
	levelsDetail = "levels"             // of a hierarchy: rows, entries and microseconds of each level
	finestDetail = "finest_level_steps" // of a cycle on GPUs: name and microseconds of each kernel on the finest level
)

// The axis of older rows that names the program that solved, and its value for our own solves.
const (
	peerAxis = "peer"
	noPeer   = "none"
)

// defaults holds the default of each axis and option. A row of an older version may lack one, which has the default.
var defaults = sync.OnceValue(func() map[string]string {
	out := map[string]string{peerAxis: noPeer}
	b := bench.New("", nil, settings()...)
	for _, a := range b.Parts[0].Axes {
		out[a.Name] = a.Values[0].String()
	}
	for _, o := range b.Options {
		out[o.Name] = o.Default.String()
	}
	return out
})

// keyOf identifies the rows that differ in nothing but the ignored coordinates and their trial. A throughput row does
// the work of a weak row. The CPU, the GPU, the version and the contents of a file belong to the identity.
func keyOf(r *journal.Row, ignore ...string) string {
	for _, c := range slices.Concat(r.Point, r.Options) {
		if v := c.Value.String(); v == defaults()[c.Name] || v == throughput {
			ignore = append(ignore, c.Name)
		}
	}
	words := []string{dataset.Key(r, append(ignore, solutionOption, writtenOption)...)}
	for _, d := range []string{cpuDetail, versionDetail, rhsDetail, gpuDetail} {
		words = append(words, r.Details[d])
	}
	return strings.Join(words, " ")
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
	trials := dataset.GroupBy(out.Good(), pointKey)
	base := baselines(trials)
	for _, g := range trials {
		found := interpret(g.Rows, base)
		for _, r := range g.Rows {
			r.Metrics, r.Details = maps.Clone(r.Metrics), maps.Clone(r.Details)
			maps.Copy(r.Metrics, found.metrics)
			if r.Details == nil {
				r.Details = map[string]string{}
			}
			maps.Copy(r.Details, found.details)
			r.Conditions.Add(found.conditions...)
		}
	}
	return out
}

// interpretation is what follows for a point from its trials and from the point of one rank.
type interpretation struct {
	metrics    map[string]float64
	details    map[string]string
	conditions []journal.Condition
}

func interpret(trials dataset.Set, base baseline) interpretation {
	r := trials.Merge()
	out := interpretation{metrics: map[string]float64{}, details: map[string]string{verdictDetail: causeOf(r).name}}
	one := base.of(r)
	if dataset.Ranks(r) == 1 {
		one = trials // the baseline has 100 % by definition
	}
	switch n := r.Sharing(); {
	case n > 0:
		out.conditions = []journal.Condition{journal.NewCondition(journal.CodeSharedGPU, journal.Named{"ranks": float64(n)})}
		return out
	case one == nil:
		out.conditions = []journal.Condition{{Code: journal.CodeNoBaseline}}
		return out
	}
	b := one.Merge()
	compare(out.metrics, trials, one)
	if b.Backend != r.Backend {
		out.details[baselineDetail] = fmt.Sprintf("the row of 1 rank by %s on the same host", b.Backend)
	}
	if doubt := efficiencyDoubt(r, b, out.metrics); dataset.Ranks(r) > 1 && doubt != "" {
		out.details[doubtDetail] = doubt
	}
	return out
}

// baseline finds the trials of one rank that a row is compared with.
type baseline struct{ same, anywhere map[string]dataset.Set }

// baselines collects the trials of one rank of each family, and of each family on one host by any backend.
func baselines(points []dataset.Group[string]) baseline {
	out := baseline{map[string]dataset.Set{}, map[string]dataset.Set{}}
	for _, g := range points {
		if r := g.Rows[0]; dataset.Ranks(r) == 1 {
			out.same[familyKey(r)] = g.Rows
			out.anywhere[hostKey(r)] = append(out.anywhere[hostKey(r)], g.Rows...)
		}
	}
	return out
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

// of returns the trials of one rank for r, or nil. One rank sends nothing, so rows of another backend on the same host
// serve as well.
func (b baseline) of(r *journal.Row) dataset.Set {
	if one := b.same[familyKey(r)]; one != nil || hostKey(r) == "" {
		return one
	}
	return b.anywhere[hostKey(r)]
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

// curves groups rows into families, in the order of their first rows. The mode "" selects all rows, and throughput also
// selects weak rows.
func curves(rows dataset.Set, mode string) []*curve {
	shown := rows.Where(func(r *journal.Row) bool {
		own := dataset.Text(r, modeAxis)
		return (mode == "" || own == mode || mode == throughput && own == weak) && !r.Status.NotRun()
	})
	families := dataset.GroupBy(shown, func(r *journal.Row) string {
		if mode == "" {
			return dataset.Text(r, modeAxis) + familyKey(r) // a throughput curve is separate
		}
		return familyKey(r)
	})
	byRanks := func(a, b *journal.Row) int { return dataset.Ranks(a) - dataset.Ranks(b) }
	return lists.Map(families, func(g dataset.Group[string]) *curve {
		c := &curve{mode: dataset.Text(g.Rows[0], modeAxis), trials: g.Rows.Good(),
			bad: g.Rows.Where(func(r *journal.Row) bool { return r.Status != journal.OK })}
		c.rows = merged(c.trials)
		slices.SortStableFunc(c.rows, byRanks)
		slices.SortStableFunc(c.bad, byRanks)
		return c
	})
}

// merged returns a row for each point, with the medians of its trials.
func merged(trials dataset.Set) dataset.Set {
	points := dataset.GroupBy(trials, pointKey)
	return lists.Map(points, func(g dataset.Group[string]) *journal.Row { return g.Rows.Merge() })
}

// any returns a row of the curve, a successful one if there is one.
func (c *curve) any() *journal.Row {
	if len(c.rows) > 0 {
		return c.rows[0]
	}
	return c.bad[0]
}

// A trait is a property that distinguishes curves in a legend.
type trait struct {
	of   func(c *curve) string     // the value of a curve
	word func(value string) string // the text in the legend
}

// traits lists all traits in the order of a legend. Method and partitioner are always part of it.
func traits() []trait {
	as := func(format string) func(string) string {
		return func(v string) string { return fmt.Sprintf(format, v) }
	}
	text := func(name, format string) trait {
		return trait{func(c *curve) string { return dataset.Text(c.any(), name) }, as(format)}
	}
	detail := func(name, format string) trait {
		return trait{func(c *curve) string { return c.any().Details[name] }, as(format)}
	}
	out := []trait{text(problemAxis, "%s"), text(dimAxis, "%s-D"), text(stencilAxis, "%s-point")}
	for _, axis := range []string{precondAxis, objectiveAxis, rhsAxis, storageAxis} {
		out = append(out, text(axis, "%s"))
	}
	out = append(out, text(columnsAxis, "%s right-hand sides"), trait{func(c *curve) string {
		return strings.TrimPrefix(dataset.Text(c.any(), precisionAxis), refine.Double)
	}, as("in %s")})
	out = append(out, text(contrastAxis, contrastAxis+" %s"),
		trait{func(c *curve) string { return strings.TrimSpace(settingsOf(c.any())) }, as("%s")})
	out = append(out, trait{func(c *curve) string {
		return strings.TrimPrefix(dataset.Text(c.any(), weightsAxis), string(partition.ByRows))
	}, as("by %s")})
	out = append(out, trait{func(c *curve) string { return count(dataset.Number(c.any(), sizeAxis(c.mode))) }, as("%s")})
	for _, option := range []string{rtolOption, maxIterOption, stopOption, restartOption, repeatOption} {
		out = append(out, text(option, option+" %s"))
	}
	return append(out, text(matrixOption, "%s"),
		trait{func(c *curve) string { return c.any().Backend }, as("%s")},
		trait{func(c *curve) string { return c.any().Env.String() }, as("%s")},
		detail(cpuDetail, "%s"), detail(versionDetail, "%s"))
}

// names returns the shortest distinct name of each curve: method, partitioner and the traits that differ.
func names(all []*curve) []string {
	out := lists.Map(all, func(c *curve) string {
		return dataset.Text(c.any(), methodAxis) + ", " + dataset.Text(c.any(), partitionerAxis)
	})
	for _, t := range traits() {
		values := map[string]bool{}
		for _, c := range all {
			values[t.of(c)] = true
		}
		for i, c := range all {
			if v := t.of(c); len(values) > 1 && v != "" && v != "0" {
				out[i] += ", " + t.word(v)
			}
		}
	}
	return out
}
