package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
)

// The kinds of warnings.
const (
	AboveLimit  = "above-limit"    // faster than a ceiling allows
	Identical   = "identical"      // two variants take the same time: the switch had no effect
	EqualDTypes = "equal-dtypes"   // equal bytes take equal time, as a bandwidth limit predicts
	NoCeiling   = "no-denominator" // a utilisation without the name of its ceiling
	FallingRate = "falling-rate"   // the efficiency falls with more ranks for no known reason
	FarBelow    = "far-below"      // bandwidth-bound at a few per cent of the ceiling
	KnownFaster = "known-faster"   // a published curve over the same link is much faster
)

// Warning is a fact that a reader of the numbers must know.
type Warning struct {
	Kind string
	Text string
	// Note marks an observation that prevents a wrong conclusion. The numbers themselves
	// are not in doubt.
	Note bool
	Rows dataset.Set // the rows concerned
	// Subject names in a few words what Identical is about, for other sentences to refer to.
	Subject string
}

// How far a time may be below its limit, as a fraction of the limit. The rate of a link is known well. The
// rate of a host's memory was measured, and data may stay in a faster cache than its size suggests.
const (
	MemoryMargin = 0.20
	linkMargin   = 0.05
)

// Check returns warnings about samples that contradict physics. For correct data it returns notes at most.
// Doubtful times are only compared with their limits, because a disturbance does not make a call faster.
func Check(samples []Sample) []Warning {
	sound := lists.Filter(samples, func(s Sample) bool { return !s.Doubtful() })
	curves := map[Series]Curve{}
	for _, c := range Fit(sound) {
		curves[c.Series] = c
	}
	return slices.Concat(checkLimits(samples), checkIdentical(sound), checkDenominators(samples),
		checkFallingRate(sound, curves), checkFarBelow(sound, curves), checkPublished(sound),
		checkDTypes(sound, curves))
}

// Ceiling returns the binding limit of the sample. Limits are lower bounds on the time, so the largest one
// binds. The reachable rate of a link is an empirical value and not a physical limit; it is used only if
// reachable is true.
func (s Sample) Ceiling(reachable bool) (name string, us float64) {
	for n, limit := range s.Limits {
		if !reachable && strings.HasSuffix(n, " reachable") {
			continue
		}
		if limit > us || limit == us && n < name {
			name, us = n, limit
		}
	}
	return name, us
}

// AboveLimit reports whether the sample is faster than its limits allow, by more than the margin to which
// such limits are known. It is false if the interval of the sample reaches the limit.
func (s Sample) AboveLimit() bool {
	_, limit := s.Ceiling(false)
	margin := linkMargin
	if s.ThroughMemory() {
		margin = MemoryMargin
	}
	return limit > 0 && max(s.TimeUS, s.HighUS) < limit*(1-margin)
}

func checkLimits(samples []Sample) (out []Warning) {
	for _, s := range samples {
		if !s.AboveLimit() {
			continue
		}
		name, limit := s.Ceiling(false)
		out = append(out, Warning{Kind: AboveLimit, Rows: s.Rows, Text: fmt.Sprintf(
			"%s at %s takes %s, less than the %s that the limit %q allows (%.0f %% of it): not all of the work was done or "+
				"timed, or the limit is wrong",
			s.Series, unit.FormatBytes(s.Bytes), unit.FormatMicros(s.TimeUS), unit.FormatMicros(limit), name,
			100*limit/s.TimeUS)})
	}
	return out
}

// Relative differences below which times count as identical, by the number of sizes that
// both series have. The chance that two different data paths agree within a tolerance is
// about as small as the tolerance, so fewer common sizes must agree more closely.
const (
	sameAtOne  = 0.0002
	sameAtTwo  = 0.001
	sameAtMany = 0.001 // or the samples' own noise if that is more
	maxNoise   = 0.05  // with more noise than this, nothing can be concluded
)

// checkIdentical finds pairs of series that differ only in algorithm or only in variant,
// and yet take the same time wherever both were measured.
func checkIdentical(samples []Sample) (out []Warning) {
	groups := bySeries(samples)
	for i, g := range groups {
		for _, h := range groups[i+1:] {
			a, b := g.Key, h.Key
			if !differInOne(a, b) || sameSteps(a.Algorithm, b.Algorithm, a.Ranks) && a.Variant == b.Variant {
				continue
			}
			if w, same := sameTimes(g.Items, h.Items); same {
				out = append(out, w)
			}
		}
	}
	return out
}

// differInOne reports whether two series differ in either the algorithm or the variant, and
// in nothing else. It is false if one of them is auto, which may run the same algorithm.
func differInOne(a, b Series) bool {
	if (a.Algorithm == b.Algorithm) == (a.Variant == b.Variant) || a.Algorithm == Auto || b.Algorithm == Auto {
		return false
	}
	a.Algorithm, a.Variant = b.Algorithm, b.Variant
	return a == b
}

// pair is two samples of the same size.
type pair struct{ a, b Sample }

// commonSizes returns the pairs of samples that have equal sizes.
func commonSizes(as, bs []Sample) (out []pair) {
	for _, a := range as {
		for _, b := range bs {
			if a.Bytes == b.Bytes {
				out = append(out, pair{a, b})
			}
		}
	}
	return out
}

func sameTimes(as, bs []Sample) (w Warning, same bool) {
	pairs := commonSizes(as, bs)
	if len(pairs) == 0 {
		return w, false
	}
	w = Warning{Kind: Identical, Subject: difference(as[0].Series, bs[0].Series) + " and " +
		difference(bs[0].Series, as[0].Series)}
	worst, at := 0.0, pairs[0]
	for _, p := range pairs {
		allowed := sameAtOne
		switch {
		case len(pairs) == 2:
			allowed = sameAtTwo
		case len(pairs) > 2:
			noise := math.Hypot(p.a.noise(), p.b.noise())
			if noise > maxNoise {
				return w, false
			}
			allowed = max(sameAtMany, noise)
		}
		diff := math.Abs(p.a.TimeUS-p.b.TimeUS) / min(p.a.TimeUS, p.b.TimeUS)
		if diff > allowed {
			return w, false
		}
		if diff >= worst {
			worst, at = diff, p
		}
		w.Rows = slices.Concat(w.Rows, p.a.Rows, p.b.Rows)
	}
	w.Text = fmt.Sprintf("%s take the same time (%s and %s at %s, %.2g %% apart): closer than two different data paths "+
		"usually are. The switch between them most likely had no effect, so this says nothing about the difference until "+
		"it is shown which path was taken",
		w.Subject, exactMicros(at.a.TimeUS), exactMicros(at.b.TimeUS), unit.FormatBytes(at.a.Bytes), 100*worst)
	return w, true
}

// exactMicros formats a time with enough digits to distinguish two close times.
func exactMicros(us float64) string {
	switch {
	case us >= 1e6:
		return unit.FormatSig(us/1e6, 6) + " s"
	case us >= 1e3:
		return unit.FormatSig(us/1e3, 6) + " ms"
	}
	return unit.FormatSig(us, 6) + " µs"
}

// difference returns the field of s, algorithm or variant, in which it differs from other.
func difference(s, other Series) string {
	if s.Algorithm != other.Algorithm {
		return s.Algorithm
	}
	return cmp.Or(s.Variant, "the plain call")
}

func checkDenominators(samples []Sample) (out []Warning) {
	for _, s := range samples {
		if s.Utilisation > 0 && s.UtilisationOf == "" {
			out = append(out, Warning{Kind: NoCeiling, Rows: s.Rows, Text: fmt.Sprintf(
				"%s at %s states a utilisation of %s %% without its ceiling: say of which rate (raw, line, reachable or "+
					"measured)", s.Series, unit.FormatBytes(s.Bytes), unit.FormatSig(s.Utilisation, 3))})
		}
	}
	return out
}

// fallingLimit is the relative loss of efficiency that needs an explanation.
const fallingLimit = 0.25

// checkFallingRate compares each series with the same series at fewer ranks, at the largest
// common size. The size must be bandwidth-bound in both, because more ranks cost more hops,
// which explains a longer latency. Traffic that grows with the ranks, and a limit that they
// share, are explanations too; therefore efficiencies compares limit over time, or traffic
// over time if there are no limits.
func checkFallingRate(samples []Sample, curves map[Series]Curve) (out []Warning) {
	groups := bySeries(samples)
	for _, g := range groups {
		for _, h := range groups {
			few, many, grown := g.Key, h.Key, g.Key
			grown.Ranks = many.Ranks
			if few.Ranks < 2 || many.Ranks <= few.Ranks || grown != many {
				continue
			}
			common := commonSizes(g.Items, h.Items)
			if len(common) == 0 {
				continue
			}
			p := slices.MaxFunc(common, func(p, q pair) int { return cmp.Compare(p.a.Bytes, q.a.Bytes) })
			if curves[few].Bound(p.a.Bytes) != Bandwidth || curves[many].Bound(p.b.Bytes) != Bandwidth {
				continue
			}
			ea, eb, of := efficiencies(p.a, p.b)
			if of == "" || eb > ea*(1-fallingLimit) {
				continue
			}
			out = append(out, Warning{Kind: FallingRate, Rows: slices.Concat(p.a.Rows, p.b.Rows), Text: fmt.Sprintf(
				"%s at %s: %s falls from %s with %d ranks to %s with %d, and neither its traffic nor its latency explains that: "+
					"look for a slower link, sharing or an unsuitable algorithm",
				few.Algorithm, unit.FormatBytes(p.a.Bytes), of, formatEfficiency(ea, of), few.Ranks, formatEfficiency(eb, of),
				many.Ranks)})
		}
	}
	return out
}

const (
	shareOfLimit = "the share of the limit"
	trafficRate  = "the rate of its traffic"
)

// efficiencies returns the efficiencies of two samples on one scale, and the name of that
// scale. The name is "" if no scale is fair to both: ranks that share a memory compete for
// it, so that without a limit their rate is expected to fall.
func efficiencies(a, b Sample) (ea, eb float64, of string) {
	la, lb := maxLimit(a), maxLimit(b)
	switch {
	case la > 0 && lb > 0:
		return la / a.TimeUS, lb / b.TimeUS, shareOfLimit
	case a.ThroughMemory():
		return 0, 0, ""
	case a.Traffic > 0 && b.Traffic > 0:
		return float64(a.Traffic) / a.TimeUS, float64(b.Traffic) / b.TimeUS, trafficRate
	}
	return LeastTraffic(a.Ranks, a.Bytes) / a.TimeUS, LeastTraffic(b.Ranks, b.Bytes) / b.TimeUS, trafficRate
}

func maxLimit(s Sample) float64 {
	_, us := s.Ceiling(true)
	return us
}

func formatEfficiency(e float64, of string) string {
	if of == shareOfLimit {
		return fmt.Sprintf("%.0f %%", 100*e)
	}
	return unit.FormatSig(e/1e3, 3) + " GB/s"
}

// wrongPathShare is the share of a ceiling below which a large message most likely takes
// another path than intended.
const wrongPathShare = 0.05

// checkFarBelow notes, once for each series, that its largest message is bandwidth-bound
// far below the ceiling. Devices without a named ceiling are compared with half of the
// reachable rate of the slowest known link between devices.
func checkFarBelow(samples []Sample, curves map[Series]Curve) (out []Warning) {
	for _, g := range bySeries(samples) {
		s := g.Items[len(g.Items)-1]
		if curves[g.Key].Bound(s.Bytes) != Bandwidth {
			continue
		}
		comparison, slowest := "", slowestLink()
		switch name, limit := s.Ceiling(true); {
		case limit > 0 && limit < wrongPathShare*s.TimeUS:
			comparison = fmt.Sprintf("%.0f times slower than its ceiling, %s", s.TimeUS/limit, name)
		case limit == 0 && dist.Describe(s.Backend).Has(dist.OnDevice) && !s.ThroughMemory() &&
			s.BusBW() < slowest.Reachable/2:
			comparison = fmt.Sprintf("less than half of what the slowest known link between devices gives (%s, %s GB/s)",
				slowest.Name, unit.FormatSig(slowest.Reachable, 3))
		default:
			continue
		}
		out = append(out, Warning{Kind: FarBelow, Note: true, Rows: s.Rows, Text: fmt.Sprintf(
			"%s at %s is bandwidth-bound at %s GB/s, %s: the data most likely takes another path, such as through host memory",
			g.Key, unit.FormatBytes(s.Bytes), unit.FormatSig(s.BusBW(), 3), comparison)})
	}
	return out
}

// minSpeedup is how many times faster a published curve must be at every common size to be
// worth a note. Smaller differences may come from versions and settings.
const minSpeedup = 2

// checkPublished notes, once for each series, how many times faster the published curve of
// its link is. The limits name the link.
func checkPublished(samples []Sample) (out []Warning) {
	for _, g := range bySeries(samples) {
		curve := publishedCurve(g.Items)
		if curve == nil || g.Items[0].ThroughMemory() {
			continue
		}
		lowest, highest, rows := curve.speedup(g.Items)
		if highest == 0 || lowest < minSpeedup {
			continue
		}
		times := fmt.Sprintf("%.0f", lowest)
		if high := fmt.Sprintf("%.0f", highest); high != times {
			times += " to " + high
		}
		out = append(out, Warning{Kind: KnownFaster, Note: true, Rows: rows, Text: fmt.Sprintf(
			"%s: the published %s is %s times faster at the same sizes, so at least that much is possible over this link",
			g.Key, curve.Name, times)})
	}
	return out
}

// publishedCurve returns the published curve of the link that the limits of the samples name, or nil.
func publishedCurve(samples []Sample) *Table {
	for _, s := range samples {
		for _, name := range slices.Sorted(maps.Keys(s.Limits)) {
			link, _ := LinkOf(name)
			if curve, err := NamedCurve(link.Curve); err == nil {
				return curve
			}
		}
	}
	return nil
}

// speedup returns how many times faster the curve is than the samples, at least and at most, and the rows
// of the samples that it can be compared with. Both are 0 if there is none.
func (t *Table) speedup(samples []Sample) (least, most float64, rows dataset.Set) {
	for _, s := range samples {
		if us, err := t.US(s.Ranks, s.Bytes); err == nil {
			times := s.TimeUS / us
			least, most = min(cmp.Or(least, times), times), max(most, times)
			rows = append(rows, s.Rows...)
		}
	}
	return least, most, rows
}

// dtypeTolerance is the largest relative difference between times of equal bytes that
// bandwidth limits.
const dtypeTolerance = 0.03

// checkDTypes notes, once for each setting and at its largest common size, element types
// that take equal time for equal bytes. Some reports conclude from this that bandwidth is
// not the limit, but it is what a bandwidth limit predicts.
func checkDTypes(samples []Sample, curves map[Series]Curve) (out []Warning) {
	type size = lists.Group[int64, []Sample]
	byTime := func(a, b Sample) int { return cmp.Compare(a.TimeUS, b.TimeUS) }
	for _, set := range groupBy(samples, func(s Sample) Series { s.DType = ""; return s.Series }) {
		sizes := lists.GroupBy(set.Items, func(s Sample) int64 { return s.Bytes })
		several := lists.Filter(sizes, func(of size) bool { return len(of.Items) > 1 })
		if len(several) == 0 {
			continue
		}
		g := slices.MaxFunc(several, func(a, b size) int { return cmp.Compare(a.Key, b.Key) }).Items
		slices.SortFunc(g, func(a, b Sample) int { return cmp.Compare(a.DType, b.DType) })
		low, high := slices.MinFunc(g, byTime), slices.MaxFunc(g, byTime)
		bandwidth := slices.ContainsFunc(g, func(s Sample) bool { return curves[s.Series].Bound(s.Bytes) == Bandwidth })
		if !bandwidth || high.TimeUS > low.TimeUS*(1+dtypeTolerance) {
			continue
		}
		w := Warning{Kind: EqualDTypes, Note: true}
		for _, s := range g {
			w.Rows = append(w.Rows, s.Rows...)
		}
		names := strings.Join(lists.Map(g, func(s Sample) string { return s.DType }), " and ")
		w.Text = fmt.Sprintf("%s take equal time (%s) for equal bytes (%s), which is what a bandwidth limit predicts and no "+
			"evidence against one", names, unit.FormatMicros(low.TimeUS), unit.FormatBytes(low.Bytes))
		out = append(out, w)
	}
	return out
}
