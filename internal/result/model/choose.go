package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// minLead is the relative lead that makes another algorithm worth a switch.
const minLead = 0.02

// timesBySize holds the samples of one setting by size and algorithm.
type timesBySize map[int64]map[string]Sample

func bySize(samples []Sample) timesBySize {
	times := timesBySize{}
	for _, s := range samples {
		if times[s.Bytes] == nil {
			times[s.Bytes] = map[string]Sample{}
		}
		times[s.Bytes][s.Algorithm] = s
	}
	return times
}

// crossing returns the size between a and b at which the times of two algorithms are
// equal, interpolated linearly in logarithms. It returns a if either algorithm was not
// measured at both sizes, or if their order does not change.
func crossing(times timesBySize, from, to string, a, b int64) int64 {
	fa, ok1 := times[a][from]
	ta, ok2 := times[a][to]
	fb, ok3 := times[b][from]
	tb, ok4 := times[b][to]
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return a
	}
	lead, lag := math.Log(ta.TimeUS/fa.TimeUS), math.Log(fb.TimeUS/tb.TimeUS)
	if lead <= 0 || lag <= 0 {
		return a
	}
	x := math.Log(float64(a)) + lead/(lead+lag)*math.Log(float64(b)/float64(a))
	return min(max(int64(math.Exp(x)), a), b-1)
}

// Tuning returns the text of a tuning table for algorithm=auto, made from the samples;
// tuning.Parse reads it.
//
// Each entry applies only to what was measured: the host (or, on GPUs, the device and the
// number of ranks that share one), the backend, the kind of buffers, the number of ranks,
// the element types, and sizes between the smallest and the largest measured one. An entry names another
// algorithm than auto takes today only where that one is significantly faster. All other
// calls keep the choice of the built-in table. If no sample supports an entry, the table is
// empty and its note says why. Only samples for which good returns true are compared. A sample
// of an algorithm that auto cannot choose is never compared: it only says that its size was measured, so auto
// keeps its choice there unless other samples of that size prove a better one.
func Tuning(samples []Sample, good func(Sample) bool) ([]byte, error) {
	entries, why := TuningEntries(samples, good)
	lines, err := lists.TryMap(entries, func(e tuning.Entry) (string, error) {
		line, err := json.Marshal(e)
		return "  " + string(line), err
	})
	text := []byte("{\"entries\": [\n" + strings.Join(lines, ",\n") + "\n]}\n")
	if len(entries) == 0 {
		text = fmt.Appendf(nil, "{\"note\": %q, \"entries\": []}\n", "no entries: "+why)
	}
	if err == nil {
		_, err = tuning.Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("making a tuning table: %w", err)
	}
	return text, nil
}

// TuningEntries returns the entries that the samples add to a tuning table, in the order of
// the table, or why there are none.
func TuningEntries(samples []Sample, good func(Sample) bool) (entries []tuning.Entry, why string) {
	if entries = entriesOf(samples, good); len(entries) > 0 {
		return entries, ""
	}
	named := lists.Filter(samples, Sample.Choosable)
	switch {
	case len(named) == 0:
		return nil, "no named algorithm was measured on buffers of a known kind"
	case slices.ContainsFunc(named, good):
		return nil, "the GPU has no name, or no table can name the algorithms"
	case slices.ContainsFunc(named, Sample.Repeated):
		return nil, "no time has settled"
	}
	return nil, fmt.Sprintf("comparing algorithms takes %d undisturbed launches of each", judge.MinLaunches)
}

// Choosable reports whether a tuning table can name the algorithm of the sample: whether it is an exact one that the
// backend offers or that is registered, on buffers of a known kind.
func (s Sample) Choosable() bool {
	name := baseName(s.Algorithm)
	info, err := schedule.Lookup(allReduce, name)
	known := err == nil || slices.Contains(dist.Describe(s.Backend).Algorithms[dist.AllReduce], name)
	return known && info.Codec == "" && s.Buffers != ""
}

// condition holds the fields of a tuning entry other than the size and the element types.
type condition struct {
	host, backend, buffers string
	ranks                  int
	device                 string
	sharing                int // ranks on one device
}

// conditionOf returns the condition of a sample. GPUs of one kind are alike on every host,
// so an entry for a GPU names the device instead of the host; without the device's name
// the sample supports no entry, and known is false.
func conditionOf(s Sample) (c condition, known bool) {
	c = condition{host: s.Host, backend: s.Backend, buffers: s.Buffers, ranks: s.Ranks}
	if dist.Describe(s.Backend).Has(dist.OnDevice) {
		c.host, c.device, c.sharing = "", s.Device, max(1, s.Sharing)
		return c, c.device != ""
	}
	return c, true
}

// table returns the built-in table as a group in this condition sees it.
func (c condition) table() *dist.Tuning {
	return tuning.Default().For(tuning.Group{Device: c.device, PerDevice: c.sharing,
		Knobs: dist.Describe(c.backend).KnobValues(nil)})
}

// knobs returns the backend knobs that the entry depends on. They have their default
// values, because entriesOf leaves out samples of variants.
func (c condition) knobs() map[string]string {
	var values map[string]string
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

func entriesOf(samples []Sample, good func(Sample) bool) (out []tuning.Entry) {
	byCondition := map[condition]map[dtype.DType][]Sample{}
	for _, s := range samples {
		d, err := dtype.Parse(s.DType)
		// A tuning table cannot express variants, and times on an unknown kind of buffers
		// are valid for neither kind.
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
		for _, group := range c.groupDTypes(byCondition[c], good) {
			for _, s := range group.spans {
				choice, err := tuning.ParseChoice(s.algorithm)
				if err != nil { // an imported row whose algorithm no table can name
					continue
				}
				out = append(out, tuning.Entry{Backend: c.backend, Host: c.host, Op: schedule.AllReduce, Buffers: c.buffers,
					MinRanks: c.ranks, MaxRanks: c.ranks, DTypes: group.dtypes, MinBytes: int(s.from), MaxBytes: int(s.upTo),
					Device:    c.device,
					PerDevice: c.sharing, Knobs: c.knobs(),
					Algorithm:  tuning.Choice{Algorithm: choice.Algorithm, Steps: choice.Steps}.String(),
					ChunkBytes: choice.ChunkBytes, Blocks: choice.Blocks})
			}
		}
	}
	return out
}

// span is a range of sizes in bytes with one algorithm.
type span struct {
	algorithm  string
	from, upTo int64
}

// dtypeGroup is a set of element types with equal spans.
type dtypeGroup struct {
	dtypes []dtype.DType
	spans  []span
}

// groupDTypes combines the element types that have equal spans, so that they share entries.
func (c condition) groupDTypes(byType map[dtype.DType][]Sample, good func(Sample) bool) (groups []dtypeGroup) {
	for _, d := range dtype.All() {
		spans := c.spansOf(d, byType[d], good)
		if len(spans) == 0 {
			continue
		}
		at := slices.IndexFunc(groups, func(g dtypeGroup) bool { return slices.Equal(g.spans, spans) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, dtypeGroup{spans: spans})
		}
		groups[at].dtypes = append(groups[at].dtypes, d)
	}
	return groups
}

// spansOf returns the algorithms for one element type in order of size, from the smallest to the
// largest size with a good sample. A tuning table does not distinguish in place from out of place.
// Calls out of place decide; calls in place count only if no others were measured.
func (c condition) spansOf(d dtype.DType, samples []Sample, good func(Sample) bool) (out []span) {
	eligible := func(s Sample) bool { return s.Algorithm == Auto || s.Choosable() }
	if slices.ContainsFunc(samples, func(s Sample) bool { return !s.InPlace && eligible(s) }) {
		samples = lists.Filter(samples, func(s Sample) bool { return !s.InPlace })
	}
	all := bySize(samples)
	times := bySize(lists.Filter(samples, func(s Sample) bool { return eligible(s) && good(s) }))
	var last, skipped int64 // sizes in a span, and in none because today's choice is unknown
	known := 0              // spans up to the largest size with a good sample
	for _, bytes := range slices.Sorted(maps.Keys(all)) {
		previous := ""
		if len(out) > 0 {
			previous = out[len(out)-1].algorithm
		}
		builtIn := c.table().Choose(c.backend, schedule.AllReduce, c.ranks, d, int(bytes), c.buffers == "symmetric")
		today := cmp.Or(all[bytes][Auto].Executed, builtIn.Choice().String())
		best, compared := fastest(times[bytes])
		now := today
		if compared {
			now = chooseAlgorithm(times[bytes], best, today, previous)
		}
		switch {
		case now == "" || !compared && len(out) == 0:
			skipped = bytes
			continue
		case len(out) == 0:
			out = append(out, span{now, bytes, bytes})
		case skipped > last:
			out = append(out, span{now, skipped + 1, bytes})
		case now == previous:
			out[len(out)-1].upTo = bytes
		default:
			// A span ends at its last size if the algorithms cannot be compared at the next one.
			if _, before := fastest(times[last]); before && compared {
				out[len(out)-1].upTo = crossing(times, previous, now, last, bytes)
			}
			out = append(out, span{now, out[len(out)-1].upTo + 1, bytes})
		}
		if last = bytes; compared {
			known = len(out)
		}
	}
	return out[:known]
}

// fastest returns the named algorithm with the shortest time, and whether there is one.
func fastest(times map[string]Sample) (best Sample, found bool) {
	for name, s := range times {
		if name != Auto && name != "" &&
			(!found || cmp.Or(cmp.Compare(s.TimeUS, best.TimeUS), cmp.Compare(name, best.Algorithm)) < 0) {
			best, found = s, true
		}
	}
	return best, found
}

// chooseAlgorithm returns the algorithm for one size. It keeps today's choice, which is
// the algorithm that auto executed or else the built-in one, unless the best is
// significantly faster. In that case it prefers the algorithm of the next smaller size
// (previous) if that one is as good, which keeps the table short.
func chooseAlgorithm(times map[string]Sample, best Sample, today, previous string) string {
	current, measured := times[Auto]
	if !measured || current.Executed == "" {
		current, measured = times[today]
	}
	if today != "" && (!measured || !current.Slower(best)) {
		return today
	}
	if old, has := times[previous]; has && !old.Slower(best) && (today == "" || current.Slower(old)) {
		return previous
	}
	return best.Algorithm
}
