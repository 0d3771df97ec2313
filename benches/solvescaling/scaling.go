package solvescaling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	trialsDetail = "trials"             // the result of each trial of auto
	levelsDetail = "levels"             // of a hierarchy: rows, entries and microseconds of each level
	finestDetail = "finest_level_steps" // of a cycle on GPUs: name and microseconds of each kernel on the finest level
)

// solveMode returns the mode by the work that it does: a throughput row is a weak row.
func solveMode(r *journal.Row) string {
	if mode := dataset.Text(r, modeAxis); mode != throughput {
		return mode
	}
	return weak
}

// configurationKey identifies the configuration that rows of different sizes and rank counts share. It
// includes the number of repeats, because the best of many solves cannot be compared with the best of
// few.
func configurationKey(r *journal.Row) string {
	words := []string{solveMode(r), r.Backend, r.Env.String()}
	for _, c := range slices.Concat(r.Point, r.Options) {
		switch c.Name {
		case modeAxis, perRankAxis, totalAxis:
		case smootherAxis, sweepsAxis, cycleAxis, coarseningAxis, strengthAxis, aggressiveAxis, coarsestAxis: // see below
		case contrastAxis:
			if c.Value.Float() != 0 { // older rows lack this axis
				words = append(words, contrastAxis+"="+c.Value.String())
			}
		case solutionOption, writtenOption: // they change no result
		case adjointOption:
			if c.Value.Bool() { // older rows lack this option
				words = append(words, adjointOption)
			}
		case columnsAxis:
			if n := c.Value.String(); n != "0" && n != "1" { // older rows lack this axis
				words = append(words, columnsAxis+"="+n)
			}
		case precisionAxis:
			if kind := c.Value.String(); kind != refine.Double { // older rows lack this axis
				words = append(words, kind)
			}
		case weightsAxis:
			if by := c.Value.String(); by != string(partition.ByRows) { // older rows lack this axis
				words = append(words, by)
			}
		default:
			words = append(words, c.Name+"="+c.Value.String())
		}
	}
	if settings := settingsOf(r); settings != "" { // older rows lack these axes
		words = append(words, settings)
	}
	for _, d := range []string{cpuDetail, versionDetail, rhsDetail, gpuDetail} {
		words = append(words, r.Details[d])
	}
	return strings.Join(words, " ")
}

// familyKey identifies the rows that form one scaling curve: rows with the same configuration and size that differ
// only in the number of ranks.
func familyKey(r *journal.Row) string {
	size := sizeAxis(solveMode(r))
	return configurationKey(r) + " " + size + "=" + dataset.Text(r, size)
}

// perIteration returns the time of an iteration in the fastest solve of a row, in microseconds.
func perIteration(r *journal.Row) float64 { return r.Metrics["time_us"] }

// stoppedWarning is the beginning of the warning for a solve that was stopped without a solution.
const stoppedWarning = "stopped after "

// stopped reports whether the solves of a row were stopped before they reached a solution. Such a row has the time of
// an iteration, but no time to solution.
func stopped(r *journal.Row) bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, stoppedWarning) })
}

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
func derive(rows []journal.Row) []journal.Row {
	base, all := baselines(rows), trialsByPoint(rows)
	out := slices.Clone(rows)
	for i := range out {
		r := &out[i]
		if r.Status != journal.OK {
			continue
		}
		r.Metrics, r.Details = maps.Clone(r.Metrics), maps.Clone(r.Details)
		if r.Details == nil {
			r.Details = map[string]string{}
		}
		r.Details[verdictDetail] = causeOf(r).name
		if stopped(r) { // older rows have these metrics
			delete(r.Metrics, "solve_time_s")
			delete(r.Metrics, "throughput_dof_s")
		}
		b := base.of(r)
		if dataset.Ranks(r) == 1 {
			b = r // the baseline has 100 % by definition
		}
		if n := r.Sharing(); n > 0 {
			r.Warnings = append(slices.Clip(r.Warnings), fmt.Sprintf(sharedGPU, n))
			continue
		}
		if b == nil {
			r.Warnings = append(slices.Clip(r.Warnings), noBaseline)
			continue
		}
		compare(r, b, all)
		if b.Backend != r.Backend {
			r.Details[baselineDetail] = fmt.Sprintf("the row of 1 rank by %s on the same host", b.Backend)
		}
		if doubt := efficiencyDoubt(r, b); b != r && doubt != "" {
			r.Details[doubtDetail] = doubt
		}
	}
	return out
}

// baseline finds the row of one rank that a row is compared with.
type baseline struct{ same, anywhere map[string]*journal.Row }

// baselines collects the median row of one rank of each family, and of each family on one host by any backend.
func baselines(rows []journal.Row) baseline {
	ones := dataset.Good(rows).Where(func(r *journal.Row) bool { return dataset.Ranks(r) == 1 })
	medians := func(key func(r *journal.Row) string) map[string]*journal.Row {
		out := map[string]*journal.Row{}
		for _, g := range dataset.GroupBy(ones, key) {
			out[g.Key] = medianTrial(g.Rows)
		}
		return out
	}
	return baseline{medians(familyKey), medians(hostKey)}
}

// trialsByPoint groups the successful rows of each family by their number of ranks: the trials of a point.
func trialsByPoint(rows []journal.Row) map[string][]*journal.Row {
	out := map[string][]*journal.Row{}
	for _, r := range dataset.Good(rows) {
		out[pointKey(r)] = append(out[pointKey(r)], r)
	}
	return out
}

// pointKey identifies the rows that differ in nothing but the trial.
func pointKey(r *journal.Row) string { return fmt.Sprintf("%d %s", dataset.Ranks(r), familyKey(r)) }

// medianTrial returns the row with the median time of an iteration, of two in the middle the faster one. Disturbed rows
// count only if there are no others.
func medianTrial(rows []*journal.Row) *journal.Row {
	rows = undisturbed(rows)
	slices.SortStableFunc(rows, func(a, b *journal.Row) int { return cmp.Compare(perIteration(a), perIteration(b)) })
	return rows[(len(rows)-1)/2]
}

// undisturbed returns the rows that were not disturbed, or all if every one was.
func undisturbed(rows []*journal.Row) []*journal.Row {
	out := lists.Filter(rows, func(r *journal.Row) bool { return r.Disturbed() == "" })
	if len(out) == 0 {
		return slices.Clone(rows)
	}
	return out
}

// solveTimes returns the shortest and the longest time of an iteration over all solves of a row and the other trials of
// its point.
func solveTimes(r *journal.Row, all map[string][]*journal.Row) (shortest, longest float64) {
	own := r.Stats.Get("time_us")
	shortest, longest = own.Min, own.Max
	for _, other := range undisturbed(all[pointKey(r)]) {
		if t := other.Stats.Get("time_us"); t.Min > 0 {
			shortest, longest = min(shortest, t.Min), max(longest, t.Max)
		}
	}
	return shortest, longest
}

// of returns the row of one rank for r, or nil. One rank sends nothing, so a row of another backend on the same host
// serves as well.
func (b baseline) of(r *journal.Row) *journal.Row {
	if one := b.same[familyKey(r)]; one != nil {
		return one
	}
	if key := hostKey(r); key != "" {
		return b.anywhere[key]
	}
	return nil
}

// hostKey identifies rows that differ only in the number of ranks and in the backend and ran on one host. It is "" for
// rows of GPUs, of several hosts, and of an unknown number of hosts.
func hostKey(r *journal.Row) string {
	if r.Details[gpuDetail] != "" || dataset.Ranks(r) > 1 && r.Details[hostsDetail] != "1" {
		return ""
	}
	q := *r
	q.Backend = ""
	return r.Host + " " + familyKey(&q)
}

// compare adds the comparison of a row with the row of one rank. all holds the trials of both.
func compare(r, one *journal.Row, all map[string][]*journal.Row) {
	m, ranks := r.Metrics, float64(dataset.Ranks(r))
	each := m["dof_global"] / perIteration(r) / (one.Metrics["dof_global"] / perIteration(one)) / ranks
	m["efficiency_implementation"] = each
	shortest, longest := solveTimes(r, all)
	shortestOne, longestOne := solveTimes(one, all)
	low, high := 0.0, 0.0
	if r != one && longest > shortest && shortest > 0 && shortestOne > 0 {
		ratio := perIteration(r) / perIteration(one)
		low, high = each*ratio*shortestOne/longest, each*ratio*longestOne/shortest
		m["efficiency_implementation_low"], m["efficiency_implementation_high"] = low, high
	}
	if !stopped(r) && !stopped(one) {
		m["efficiency_algorithmic"] = one.Metrics["iterations"] / max(1, m["iterations"])
		m["efficiency"] = each * m["efficiency_algorithmic"]
		m["speedup"] = m["efficiency"] * ranks
		if high > 0 {
			m["efficiency_low"], m["efficiency_high"] = low*m["efficiency_algorithmic"], high*m["efficiency_algorithmic"]
		}
	}
	if set := one.Metrics["working_set_bytes"]; set > 0 {
		m[oneSet], m[oneCache] = set, one.Metrics["cache_bytes"]
	}
	if own, theirs := m["triad_typical_gbps"], one.Metrics["triad_typical_gbps"]; theirs > 0 {
		m["bandwidth_scaling"] = own / theirs / ranks
	}
}

// noBaseline is the reason for a missing efficiency.
const noBaseline = "no speed-up and no efficiency: no good row of 1 rank has the same configuration"

// sharedGPU is the reason if ranks shared a GPU: more ranks do not add hardware.
const sharedGPU = "no speed-up and no efficiency: %d ranks shared a GPU, so that times say nothing of how a " +
	"solve scales"

// curve is the rows of one family by ranks. Of several trials it has the median one.
type curve struct {
	mode string
	rows []*journal.Row // successful, by ranks
	bad  []*journal.Row // failed, by ranks
}

// curves groups rows into families, in the order of their first rows. The mode "" selects all rows, and throughput also
// selects weak rows.
func curves(rows []journal.Row, mode string) []*curve {
	var out []*curve
	shown := dataset.All(rows).Where(func(r *journal.Row) bool {
		own := dataset.Text(r, modeAxis)
		return (mode == "" || own == mode || mode == throughput && own == weak) && r.Status != journal.Skipped &&
			r.Status != journal.NotExecuted
	})
	for _, g := range dataset.GroupBy(shown, func(r *journal.Row) string {
		if mode == "" {
			return dataset.Text(r, modeAxis) + familyKey(r) // a throughput curve is separate
		}
		return familyKey(r)
	}) {
		c := &curve{mode: dataset.Text(g.Rows[0], modeAxis)}
		for _, trials := range dataset.GroupBy(g.Rows, dataset.Ranks) {
			ok := lists.Filter(trials.Rows, func(r *journal.Row) bool { return r.Status == journal.OK })
			if len(ok) > 0 {
				c.rows = append(c.rows, medianTrial(ok))
			}
			c.bad = append(c.bad, lists.Filter(trials.Rows, func(r *journal.Row) bool { return r.Status != journal.OK })...)
		}
		out = append(out, c)
		for _, list := range [][]*journal.Row{c.rows, c.bad} {
			slices.SortStableFunc(list, func(a, b *journal.Row) int { return dataset.Ranks(a) - dataset.Ranks(b) })
		}
	}
	return out
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
	}, as("by %s")},
		trait{func(c *curve) string { return strings.TrimPrefix(dataset.Text(c.any(), peerAxis), noPeer) }, as("by %s")})
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
