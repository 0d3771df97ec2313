package solvescaling

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/solve/partition"
)

// sizeAxis is the axis that says how large the problem of a mode is.
func sizeAxis(mode string) string {
	if mode == strong {
		return totalAxis
	}
	return perRankAxis
}

// The details of a row that say on what it ran. Rows that differ in the CPU or the version
// are of different configurations. Threads are what a rank may use: the fewer ranks a host
// has, the more, though its arithmetic always uses one.
const (
	threadsDetail = "threads"
	cpuDetail     = "cpu"
	versionDetail = "version"
	gpuDetail     = "gpu"
	rhsDetail     = "rhs_sha256" // of a right-hand side from a file
	// nullSpaceDetail is what was projected out of a solve, of a singular matrix.
	nullSpaceDetail = "null_space"

	levelsDetail = "levels" // of a hierarchy: rows, entries and microseconds of each
)

// solveMode is a mode by the work it makes: that of throughput rows is weak.
func solveMode(r *journal.Row) string {
	if mode := rowset.Text(r, modeAxis); mode != throughput {
		return mode
	}
	return weak
}

// setup names what rows of different sizes and rank counts share: the whole configuration. How often a
// solve is repeated is part of it: the best of many is not held against the best of few.
func setup(r *journal.Row) string {
	words := []string{solveMode(r), r.Backend, r.Env.String()}
	for _, c := range slices.Concat(r.Point, r.Options) {
		switch c.Name {
		case modeAxis, perRankAxis, totalAxis:
		case weightsAxis:
			if by := c.Value.String(); by != string(partition.ByRows) { // older rows have no such axis
				words = append(words, by)
			}
		default:
			words = append(words, c.Name+"="+c.Value.String())
		}
	}
	for _, d := range []string{cpuDetail, versionDetail, rhsDetail, gpuDetail} {
		words = append(words, r.Details[d])
	}
	return strings.Join(words, " ")
}

// family names what rows of different rank counts share.
func family(r *journal.Row) string {
	size := sizeAxis(solveMode(r))
	return setup(r) + " " + size + "=" + rowset.Text(r, size)
}

// perIteration is the best time of an iteration; the metric is that already.
func perIteration(r *journal.Row) float64 { return r.Metrics["time_us"] }

// stoppedWarning begins the warning of a row whose solve was ended without a solution.
const stoppedWarning = "stopped after "

// stopped reports whether a row's iterations led to no solution, so that it has the time
// of an iteration and none of a solve.
func stopped(r *journal.Row) bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, stoppedWarning) })
}

// derive adds what a row is worth beside the row of one rank with the same
// configuration. With N unknowns solved in T,
//
//	speedup                   (N/T) / (N1/T1): the ratio of times where N is the same
//	efficiency                speedup / ranks = algorithmic x implementation
//	efficiency_algorithmic    iterations of one rank / iterations
//	efficiency_implementation the same efficiency for the time of one iteration
//	  _low, _high             from the slowest of the row's solves, to the slowest of one rank's
//	bandwidth_scaling         typical triad of all ranks / (ranks x that of one)
//
// Where solves were stopped without a solution only the time of an iteration counts.
func derive(rows []journal.Row) []journal.Row {
	base := map[string]*journal.Row{}
	for i := range rows {
		r := &rows[i]
		if r.Status != journal.OK || rowset.Ranks(r) != 1 {
			continue
		}
		if b := base[family(r)]; b == nil || perIteration(r) < perIteration(b) {
			base[family(r)] = r
		}
	}
	out := slices.Clone(rows)
	for i := range out {
		r := &out[i]
		if r.Status != journal.OK {
			continue
		}
		r.Metrics = maps.Clone(r.Metrics)
		if stopped(r) { // older rows have them
			delete(r.Metrics, "solve_time_s")
			delete(r.Metrics, "throughput_dof_s")
		}
		b := base[family(r)]
		if rowset.Ranks(r) == 1 {
			b = r // it is what the others are held against: 100 % by definition
		}
		if n := r.Sharing(); n > 0 {
			r.Warnings = append(slices.Clip(r.Warnings), fmt.Sprintf(sharedGPU, n))
			continue
		}
		if b == nil {
			r.Warnings = append(slices.Clip(r.Warnings), noBaseline)
			continue
		}
		compare(r, b)
	}
	return out
}

// compare adds to a row what it is worth beside that of one rank.
func compare(r, one *journal.Row) {
	m, ranks := r.Metrics, float64(rowset.Ranks(r))
	each := m["dof_global"] / perIteration(r) / (one.Metrics["dof_global"] / perIteration(one)) / ranks
	m["efficiency_implementation"] = each
	own, theirs := r.Stats.Get("time_us"), one.Stats.Get("time_us")
	if r != one && own.Max > own.Min && own.Min > 0 && theirs.Min > 0 {
		m["efficiency_implementation_low"] = each * own.Min / own.Max
		m["efficiency_implementation_high"] = each * theirs.Max / theirs.Min
	}
	if !stopped(r) && !stopped(one) {
		m["efficiency_algorithmic"] = one.Metrics["iterations"] / max(1, m["iterations"])
		m["efficiency"] = each * m["efficiency_algorithmic"]
		m["speedup"] = m["efficiency"] * ranks
	}
	if own, theirs := m["triad_typical_gbps"], one.Metrics["triad_typical_gbps"]; theirs > 0 {
		m["bandwidth_scaling"] = own / theirs / ranks
	}
}

// noBaseline is the reason of a blank efficiency.
const noBaseline = "no speed-up and no efficiency: no good row of 1 rank has the same configuration"

// sharedGPU is the reason where ranks had one GPU between them: more of them make it no larger.
const sharedGPU = "no speed-up and no efficiency: %d ranks shared a GPU, so that times say nothing of how a " +
	"solve scales"

// curve is the rows of one family by ranks, good ones once each: the best of
// several trials.
type curve struct {
	mode string
	rows []*journal.Row // good, by ranks
	bad  []*journal.Row // failed, by ranks
}

// curves sorts rows into families, in the order of their first rows. A mode of
// "" takes all; throughput takes weak rows too.
func curves(rows []journal.Row, mode string) []*curve {
	var out []*curve
	shown := rowset.All(rows).Where(func(r *journal.Row) bool {
		own := rowset.Text(r, modeAxis)
		return (mode == "" || own == mode || mode == throughput && own == weak) && r.Status != journal.Skipped &&
			r.Status != journal.NotExecuted
	})
	for _, g := range rowset.GroupBy(shown, func(r *journal.Row) string {
		if mode == "" {
			return rowset.Text(r, modeAxis) + family(r) // a throughput curve is told of as such
		}
		return family(r)
	}) {
		c := &curve{mode: rowset.Text(g.Rows[0], modeAxis)}
		for _, r := range g.Rows {
			c.add(r)
		}
		out = append(out, c)
		for _, list := range [][]*journal.Row{c.rows, c.bad} {
			slices.SortStableFunc(list, func(a, b *journal.Row) int { return rowset.Ranks(a) - rowset.Ranks(b) })
		}
	}
	return out
}

func (c *curve) add(r *journal.Row) {
	if r.Status != journal.OK {
		c.bad = append(c.bad, r)
		return
	}
	for i, old := range c.rows {
		if rowset.Ranks(old) == rowset.Ranks(r) {
			if perIteration(r) < perIteration(old) {
				c.rows[i] = r
			}
			return
		}
	}
	c.rows = append(c.rows, r)
}

// any is a row of the curve, good if there is one.
func (c *curve) any() *journal.Row {
	if len(c.rows) > 0 {
		return c.rows[0]
	}
	return c.bad[0]
}

// A trait is something by which a legend tells curves apart.
type trait struct {
	of   func(c *curve) string     // its value
	word func(value string) string // as the legend says it
}

// traits are all of them, in the order of a legend; method and partitioner always stand there.
func traits() []trait {
	as := func(format string) func(string) string {
		return func(v string) string { return fmt.Sprintf(format, v) }
	}
	text := func(name, format string) trait {
		return trait{func(c *curve) string { return rowset.Text(c.any(), name) }, as(format)}
	}
	detail := func(name, format string) trait {
		return trait{func(c *curve) string { return c.any().Details[name] }, as(format)}
	}
	out := []trait{text(problemAxis, "%s"), text(dimAxis, "%s-D"), text(stencilAxis, "%s-point")}
	for _, axis := range []string{precondAxis, objectiveAxis, rhsAxis, storageAxis} {
		out = append(out, text(axis, "%s"))
	}
	out = append(out, trait{func(c *curve) string {
		return strings.TrimPrefix(rowset.Text(c.any(), weightsAxis), string(partition.ByRows))
	}, as("by %s")},
		trait{func(c *curve) string { return strings.TrimPrefix(rowset.Text(c.any(), peerAxis), noPeer) }, as("by %s")})
	out = append(out, trait{func(c *curve) string { return count(rowset.Number(c.any(), sizeAxis(c.mode))) }, as("%s")})
	for _, option := range []string{rtolOption, maxIterOption, stopOption, restartOption, repeatOption} {
		out = append(out, text(option, option+" %s"))
	}
	return append(out, text(matrixOption, "%s"),
		trait{func(c *curve) string { return c.any().Backend }, as("%s")},
		trait{func(c *curve) string { return c.any().Env.String() }, as("%s")},
		detail(cpuDetail, "%s"), detail(versionDetail, "%s"))
}

// names gives each curve the shortest name that tells it from the others: method,
// partitioner and the traits that differ.
func names(all []*curve) []string {
	out := lists.Map(all, func(c *curve) string {
		return rowset.Text(c.any(), methodAxis) + ", " + rowset.Text(c.any(), partitionerAxis)
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
