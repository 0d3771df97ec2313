package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// Tuning is the table that algorithm=auto reads, made from what the samples show:
// a text that tuning.Parse reads back. Its entries are for the host, or where ranks
// have GPUs for their kind and how many share one, the backend,
// buffers, number of ranks and element types that were measured, up to the largest
// size, and name another algorithm than auto takes today only where that is faster
// beyond doubt. All else falls through to the built-in table, which follows. Without
// any choice it is an error.
func Tuning(samples []Sample) ([]byte, error) {
	entries := entriesOf(samples)
	if len(entries) == 0 {
		return nil, fmt.Errorf("making a tuning table: no named algorithm was measured on buffers of a known kind")
	}
	var b bytes.Buffer
	b.WriteString("{\"entries\": [\n")
	all := append(entries, tuning.Default().Entries()...)
	for i, e := range all {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("making a tuning table: %w", err)
		}
		b.WriteString("  ")
		b.Write(line)
		if i < len(all)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	if _, err := tuning.Parse(b.Bytes()); err != nil {
		return nil, fmt.Errorf("making a tuning table: %w", err)
	}
	return b.Bytes(), nil
}

// condition is what an entry can tell apart besides the size and the element type.
type condition struct {
	host, backend, buffers string
	ranks                  int
	device                 string
	sharing                int // ranks on one device
}

// conditionOf is that of a sample. A GPU is the same on every host, and what was measured
// on one that nobody named is good for none.
func conditionOf(s Sample) (c condition, known bool) {
	c = condition{host: s.Host, backend: s.Backend, buffers: s.Buffers, ranks: s.Ranks}
	if dist.Describe(s.Backend).Has(dist.OnDevice) {
		c.host, c.device, c.sharing = "", s.Device, max(1, s.Sharing)
		return c, c.device != ""
	}
	return c, true
}

// table is the built-in one as groups in this condition use it.
func (c condition) table() *dist.Tuning {
	return tuning.Default().For(tuning.Group{Device: c.device, PerDevice: c.sharing,
		Knobs: dist.Describe(c.backend).KnobValues(nil)})
}

// knobs are those of which the table must have the value that the samples have, which is
// the default: variants are left out.
func (c condition) knobs() (values map[string]string) {
	for _, k := range dist.Describe(c.backend).Knobs {
		if k.Retune {
			if values == nil {
				values = map[string]string{}
			}
			values[k.Name] = k.Default
		}
	}
	return values
}

func (c condition) compare(d condition) int {
	return cmp.Or(cmp.Compare(c.host, d.host), cmp.Compare(c.backend, d.backend), cmp.Compare(c.buffers, d.buffers),
		cmp.Compare(c.ranks, d.ranks), cmp.Compare(c.device, d.device), cmp.Compare(c.sharing, d.sharing))
}

func entriesOf(samples []Sample) (out []tuning.Entry) {
	byCondition := map[condition]map[dtype.DType][]Sample{}
	for _, s := range samples {
		d, err := dtype.Parse(s.DType)
		// The table knows no variants, and what was measured on memory that nobody
		// named is good for neither kind.
		if err != nil || s.Variant != "" || s.Ranks < 1 || s.Buffers == "" {
			continue
		}
		c, known := conditionOf(s)
		if !known {
			continue
		}
		if byCondition[c] == nil {
			byCondition[c] = map[dtype.DType][]Sample{}
		}
		byCondition[c][d] = append(byCondition[c][d], s)
	}
	for _, c := range slices.SortedFunc(maps.Keys(byCondition), condition.compare) {
		for _, group := range c.groupDTypes(byCondition[c]) {
			for _, s := range group.spans {
				choice, err := tuning.ParseChoice(s.algorithm)
				if err != nil { // a row of another program: no table can name its algorithm
					continue
				}
				out = append(out, tuning.Entry{Backend: c.backend, Host: c.host, Op: schedule.AllReduce, Buffers: c.buffers,
					MinRanks: c.ranks, MaxRanks: c.ranks, DTypes: group.dtypes, MaxBytes: int(s.upTo), Device: c.device,
					PerDevice: c.sharing, Knobs: c.knobs(),
					Algorithm:  tuning.Choice{Algorithm: choice.Algorithm, Steps: choice.Steps}.String(),
					ChunkBytes: choice.ChunkBytes, Blocks: choice.Blocks})
			}
		}
	}
	return out
}

// span is a range of sizes with one algorithm.
type span struct {
	algorithm string
	upTo      int64 // the last byte of the range
}

// choiceGroup is element types with equal spans in one condition.
type choiceGroup struct {
	dtypes []dtype.DType
	spans  []span
}

// groupDTypes joins the element types that choose alike.
func (c condition) groupDTypes(byType map[dtype.DType][]Sample) (groups []choiceGroup) {
	for _, d := range dtype.All() {
		spans := c.spansOf(d, byType[d])
		if len(spans) == 0 {
			continue
		}
		at := slices.IndexFunc(groups, func(g choiceGroup) bool { return slices.Equal(g.spans, spans) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, choiceGroup{spans: spans})
		}
		groups[at].dtypes = append(groups[at].dtypes, d)
	}
	return groups
}

// spansOf are the algorithms for one element type by size, up to the largest that was
// measured. The table does not know in place: the call out of place decides, and the
// one in place only where it alone was measured.
func (c condition) spansOf(d dtype.DType, samples []Sample) (out []span) {
	if slices.ContainsFunc(samples, func(s Sample) bool { return !s.InPlace }) {
		samples = slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.InPlace })
	}
	times := bySize(samples)
	var last int64
	for _, b := range Best(samples) {
		previous := ""
		if len(out) > 0 {
			previous = out[len(out)-1].algorithm
		}
		builtIn := c.table().Choose(c.backend, schedule.AllReduce, c.ranks, d, int(b.Bytes), c.buffers == "symmetric")
		now := chooseAlgorithm(times[b.Bytes], b.Best, builtIn.Choice().String(), previous)
		switch {
		case previous == "":
			out = append(out, span{now, b.Bytes})
		case now == previous:
			out[len(out)-1].upTo = b.Bytes
		default:
			out[len(out)-1].upTo = crossing(times, previous, now, last, b.Bytes)
			out = append(out, span{now, b.Bytes})
		}
		last = b.Bytes
	}
	return out
}

// chooseAlgorithm is the algorithm for one size: what auto took, or would take by the built-in
// table, unless the best is faster than that beyond doubt; and then the one that the
// sizes below have, if that is as good.
func chooseAlgorithm(times map[string]Sample, best, builtIn, previous string) string {
	today, measured := times[Auto]
	name := today.Executed
	if name == "" {
		name = builtIn
		today, measured = times[name]
	}
	if name != "" && (!measured || !today.Slower(times[best])) {
		return name
	}
	if old, has := times[previous]; has && !old.Slower(times[best]) && (name == "" || today.Slower(old)) {
		return previous
	}
	return best
}
