package solvescaling

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// sizeAxis is the axis that says how large the problem of a mode is.
func sizeAxis(mode string) string {
	if mode == strong {
		return totalAxis
	}
	return perRankAxis
}

// family names what rows of different rank counts share: the whole
// configuration, without what does not change the work of one solve. Weak and
// throughput rows are the same work.
func family(r *journal.Row) string {
	mode := rowset.Text(r, modeAxis)
	if mode == throughput {
		mode = weak
	}
	words := []string{mode, sizeAxis(mode) + "=" + rowset.Text(r, sizeAxis(mode)), r.Backend, r.Env.String()}
	for _, c := range slices.Concat(r.Point, r.Options) {
		switch c.Name {
		case modeAxis, perRankAxis, totalAxis, repeatOption:
		default:
			words = append(words, c.Name+"="+c.Value.String())
		}
	}
	return strings.Join(words, " ")
}

// seconds is the best time of a solve; the metric is that already.
func seconds(r *journal.Row) float64 { return r.Metrics["solve_time_s"] }

// derive adds what a row is worth beside the row of one rank with the same
// configuration. With N unknowns solved in T,
//
//	speedup                   (N/T) / (N1/T1): the ratio of times where N is the same
//	efficiency                speedup / ranks = algorithmic x implementation
//	efficiency_algorithmic    iterations of one rank / iterations
//	efficiency_implementation the same efficiency for the time of one iteration
//	bandwidth_scaling         typical triad of all ranks / (ranks x that of one)
func derive(rows []journal.Row) []journal.Row {
	base := map[string]*journal.Row{}
	for i := range rows {
		r := &rows[i]
		if r.Status != journal.OK || rowset.Ranks(r) != 1 {
			continue
		}
		if b := base[family(r)]; b == nil || seconds(r) < seconds(b) {
			base[family(r)] = r
		}
	}
	out := slices.Clone(rows)
	for i := range out {
		r := &out[i]
		if r.Status != journal.OK {
			continue
		}
		b := base[family(r)]
		if rowset.Ranks(r) == 1 {
			b = r // it is what the others are held against: 100 % by definition
		}
		if b == nil {
			r.Warnings = append(slices.Clip(r.Warnings), noBaseline)
			continue
		}
		r.Metrics = maps.Clone(r.Metrics)
		r.Metrics["speedup"] = r.Metrics["throughput_dof_s"] / b.Metrics["throughput_dof_s"]
		r.Metrics["efficiency"] = r.Metrics["speedup"] / float64(rowset.Ranks(r))
		r.Metrics["efficiency_algorithmic"] = b.Metrics["iterations"] / max(1, r.Metrics["iterations"])
		r.Metrics["efficiency_implementation"] = r.Metrics["efficiency"] / r.Metrics["efficiency_algorithmic"]
		if own, one := r.Metrics["triad_typical_gbps"], b.Metrics["triad_typical_gbps"]; one > 0 {
			r.Metrics["bandwidth_scaling"] = own / one / float64(rowset.Ranks(r))
		}
	}
	return out
}

// noBaseline is the reason of a blank efficiency.
const noBaseline = "no speed-up and no efficiency: no good row of 1 rank has the same configuration"

// curve is the rows of one family by ranks, good ones once each: the best of
// several trials.
type curve struct {
	family string
	mode   string
	rows   []*journal.Row // good, by ranks
	bad    []*journal.Row // failed, by ranks
}

// curves sorts rows into families, in the order of their first rows. A mode of
// "" takes all; throughput takes weak rows too.
func curves(rows []journal.Row, mode string) []*curve {
	var out []*curve
	at := map[string]*curve{}
	for i := range rows {
		r := &rows[i]
		own := rowset.Text(r, modeAxis)
		if mode != "" && own != mode && !(mode == throughput && own == weak) || r.Status == journal.Skipped || r.Status == journal.NotExecuted {
			continue
		}
		key := family(r)
		if mode == "" {
			key = own + key // a throughput curve is told of as such
		}
		c := at[key]
		if c == nil {
			c = &curve{family: family(r), mode: own}
			at[key] = c
			out = append(out, c)
		}
		c.add(r)
	}
	for _, c := range out {
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
			if seconds(r) < seconds(old) {
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

// names gives each curve the shortest name that tells it from the others: the
// coordinates that differ, or method and partitioner.
func names(all []*curve) []string {
	var axes []string
	for _, axis := range []string{problemAxis, dimAxis, stencilAxis, methodAxis, precondAxis, partitionerAxis, objectiveAxis, rhsAxis, storageAxis, perRankAxis, totalAxis, rtolOption, matrixOption} {
		values := map[string]bool{}
		for _, c := range all {
			if axis == perRankAxis && c.mode == strong || axis == totalAxis && c.mode != strong {
				continue // the size that this mode does not use
			}
			values[rowset.Text(c.any(), axis)] = true
		}
		if len(values) > 1 {
			axes = append(axes, axis)
		}
	}
	out := make([]string, len(all))
	for i, c := range all {
		r := c.any()
		words := []string{rowset.Text(r, methodAxis), rowset.Text(r, partitionerAxis)}
		for _, axis := range axes {
			switch axis {
			case methodAxis, partitionerAxis:
			case dimAxis:
				words = append(words, rowset.Text(r, axis)+"-D")
			case stencilAxis:
				if rowset.Text(r, axis) != "0" {
					words = append(words, rowset.Text(r, axis)+"-point")
				}
			case perRankAxis, totalAxis:
				if axis == sizeAxis(c.mode) {
					words = append(words, count(rowset.Number(r, axis)))
				}
			case rtolOption:
				words = append(words, fmt.Sprintf("rtol %s", rowset.Text(r, axis)))
			default:
				words = append(words, rowset.Text(r, axis))
			}
		}
		out[i] = strings.Join(words, ", ")
	}
	return out
}
