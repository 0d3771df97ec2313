package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Tuning is the table that algorithm=auto reads, made from the best algorithms
// of the samples: a text that dist.ParseTuning reads back. Ranks between two
// measured counts go with the next larger, ranks and sizes beyond the largest
// with it. What was not measured (other buffers, other operations) falls through
// to the built-in table, which follows. Without any choice it is an error.
func Tuning(samples []Sample) ([]byte, error) {
	entries := entriesOf(samples)
	if len(entries) == 0 {
		return nil, fmt.Errorf("making a tuning table: no named algorithm was measured")
	}
	var b bytes.Buffer
	b.WriteString("{\"entries\": [\n")
	all := append(entries, dist.DefaultTuning().Entries()...)
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
	if _, err := dist.ParseTuning(b.Bytes()); err != nil {
		return nil, fmt.Errorf("making a tuning table: %w", err)
	}
	return b.Bytes(), nil
}

// condition is what an entry can tell apart besides the size.
type condition struct {
	backend, buffers string
	ranks            int
	dtype            dtype.DType
}

func entriesOf(samples []Sample) []dist.TuningEntry {
	// The table knows neither in place nor variants: the plain call decides, and
	// the call in place only where it alone was measured.
	plain := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.Variant != "" || s.Ranks < 1 })
	byCondition := map[condition][]span{}
	for _, inPlace := range []bool{true, false} {
		for _, r := range runs(plain) {
			d, err := dtype.Parse(r.setting.DType)
			if err == nil && r.setting.InPlace == inPlace {
				byCondition[condition{r.setting.Backend, r.setting.Buffers, r.setting.Ranks, d}] = r.spans
			}
		}
	}
	var out []dist.TuningEntry
	for _, group := range alike(byCondition) {
		for _, s := range group.spans {
			e := group.entry
			e.Op, e.Algorithm = dist.AllReduce, s.algorithm
			if s.upTo < math.MaxInt64 {
				e.MaxBytes = int(s.upTo)
			}
			out = append(out, e)
		}
	}
	return out
}

// choiceGroup is element types with equal spans in one condition.
type choiceGroup struct {
	entry dist.TuningEntry
	spans []span
}

// alike joins the element types that choose alike; a condition where all do names
// none, and so serves the types that were not measured as well. Places are in
// order of ranks, each matching from beyond the one before.
func alike(byCondition map[condition][]span) []choiceGroup {
	type where struct{ backend, buffers string }
	ranks := map[where][]int{}
	for p := range byCondition {
		w := where{p.backend, p.buffers}
		if !slices.Contains(ranks[w], p.ranks) {
			ranks[w] = append(ranks[w], p.ranks)
		}
	}
	wheres := make([]where, 0, len(ranks))
	for w := range ranks {
		wheres = append(wheres, w)
	}
	// Entries that name their buffers come before those that match any.
	slices.SortFunc(wheres, func(a, b where) int {
		if a.backend != b.backend {
			return slices.Compare([]string{a.backend}, []string{b.backend})
		}
		return -slices.Compare([]string{a.buffers}, []string{b.buffers})
	})
	var out []choiceGroup
	for _, w := range wheres {
		slices.Sort(ranks[w])
		for i, n := range ranks[w] {
			entry := dist.TuningEntry{Backend: w.backend, Buffers: w.buffers}
			if i < len(ranks[w])-1 {
				entry.MaxRanks = n
			}
			var groups []choiceGroup
			for _, d := range dtype.All() {
				spans, has := byCondition[condition{w.backend, w.buffers, n, d}]
				if !has {
					continue
				}
				at := slices.IndexFunc(groups, func(g choiceGroup) bool { return slices.Equal(g.spans, spans) })
				if at < 0 {
					at = len(groups)
					groups = append(groups, choiceGroup{entry, spans})
				}
				groups[at].entry.DTypes = append(groups[at].entry.DTypes, d)
			}
			// The last group serves every type that is not named before it.
			groups[len(groups)-1].entry.DTypes = nil
			out = append(out, groups...)
		}
	}
	return out
}
