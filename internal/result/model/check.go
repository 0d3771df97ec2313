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
)

// The kinds of warnings.
const (
	AboveLimit  = "above-limit"    // faster than a ceiling allows
	Identical   = "identical"      // two variants with one time: the switch had no effect
	EqualDTypes = "equal-dtypes"   // equal bytes in equal time: what a bandwidth limit predicts
	NoCeiling   = "no-denominator" // a utilisation that does not say of what
	FallingRate = "falling-rate"   // efficiency that falls with ranks though nothing explains it
	FarBelow    = "far-below"      // a few per cent of the ceiling where bandwidth decides
	KnownFaster = "known-faster"   // a published curve over the same link takes far less time
)

// Warning is something about numbers that a reader must know.
type Warning struct {
	Kind string
	Text string
	// Note marks an observation that keeps a reader from a wrong conclusion; the
	// numbers themselves are as they should be.
	Note bool
	Rows []int // the rows it is about: indices into the rows the samples came from
	// Subject is what it is about in few words, for a sentence that refers to it.
	Subject string
}

// How far a time may lie below its limit: what a link carries is known well; what
// a host's memory gives was measured, and data may stay in a nearer cache than
// its size suggests.
const (
	MemoryMargin = 0.20
	linkMargin   = 0.05
)

// Check holds the samples against physics. Clean data gives notes at most.
func Check(samples []Sample) []Warning {
	curves := map[Series]Curve{}
	for _, c := range Fit(samples) {
		curves[c.Series] = c
	}
	return slices.Concat(checkLimits(samples), checkIdentical(samples), checkDenominators(samples), checkFallingRate(samples, curves),
		checkFarBelow(samples, curves), checkPublished(samples), checkDTypes(samples, curves))
}

// Ceiling is the limit that counts at a sample: all are least times, so the largest.
// What applications usually get is no law, and counts only where it is asked for.
func (s Sample) Ceiling(usual bool) (name string, us float64) {
	for n, least := range s.Limits {
		if !usual && strings.HasSuffix(n, " reachable") {
			continue
		}
		if least > us || least == us && n < name {
			name, us = n, least
		}
	}
	return name, us
}

// AboveLimit tells whether a sample is faster than its limits allow, by more than such
// limits are off. It is the one rule for that: a time whose interval reaches the limit
// is given the benefit of the doubt.
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

// Times of two different data paths agree by chance about as often as the
// tolerance is wide, so one common size must agree far more closely than many.
const (
	sameAtOne  = 0.0002
	sameAtTwo  = 0.001
	sameAtMany = 0.001 // at least; the samples' own noise where that is more
	maxNoise   = 0.05  // where the noise is above this nothing can be said
)

// checkIdentical finds pairs of series that differ in algorithm or variant alone and
// take the same time wherever both were measured.
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

// differInOne differ in the algorithm or the variant, and in nothing else.
func differInOne(a, b Series) bool {
	if (a.Algorithm == b.Algorithm) == (a.Variant == b.Variant) || a.Algorithm == Auto || b.Algorithm == Auto {
		return false
	}
	a.Algorithm, a.Variant = b.Algorithm, b.Variant
	return a == b
}

func sameTimes(as, bs []Sample) (Warning, bool) {
	type pair struct{ a, b Sample }
	var pairs []pair
	for _, a := range as {
		for _, b := range bs {
			if a.Bytes == b.Bytes {
				pairs = append(pairs, pair{a, b})
			}
		}
	}
	if len(pairs) == 0 {
		return Warning{}, false
	}
	w := Warning{Kind: Identical, Subject: difference(as[0].Series, bs[0].Series) + " and " +
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
		w.Rows = append(append(w.Rows, p.a.Rows...), p.b.Rows...)
	}
	w.Text = fmt.Sprintf("%s take the same time (%s and %s at %s, %.2g %% apart): closer than two data paths come; "+
		"the switch between them most likely had no effect, so this says nothing about the difference until the path "+
		"taken is shown",
		w.Subject, exactMicros(at.a.TimeUS), exactMicros(at.b.TimeUS), unit.FormatBytes(at.a.Bytes), 100*worst)
	return w, true
}

// exactMicros keeps as many digits as tell two close times apart.
func exactMicros(us float64) string {
	switch {
	case us >= 1e6:
		return unit.FormatSig(us/1e6, 6) + " s"
	case us >= 1e3:
		return unit.FormatSig(us/1e3, 6) + " ms"
	}
	return unit.FormatSig(us, 6) + " us"
}

// difference names a series by what sets it apart from another.
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
				"%s at %s states %s %% of something it does not name: say which ceiling (raw, line, reachable or measured)",
				s.Series, unit.FormatBytes(s.Bytes), unit.FormatSig(s.Utilisation, 3))})
		}
	}
	return out
}

// fallingLimit is the share of the efficiency whose loss needs a reason.
const fallingLimit = 0.25

// checkFallingRate compares each series with the same one at fewer ranks, at the
// largest size that both have and that bandwidth decides: what more ranks cost
// in hops is a modelled reason. So is traffic that grows with the ranks, and a
// limit that they share, hence the efficiency is the limit over the time, or
// without limits the traffic over the time. Ranks on one CPU share its memory,
// so that there only a limit can tell.
func checkFallingRate(samples []Sample, curves map[Series]Curve) (out []Warning) {
	groups := bySeries(samples)
	for _, g := range groups {
		for _, h := range groups {
			few, many, grown := g.Key, h.Key, g.Key
			grown.Ranks = many.Ranks
			if few.Ranks < 2 || many.Ranks <= few.Ranks || grown != many {
				continue
			}
			a, b, ok := largestCommon(g.Items, h.Items)
			if !ok || curves[few].Bound(a.Bytes) != Bandwidth || curves[many].Bound(b.Bytes) != Bandwidth {
				continue
			}
			ea, eb, of := efficiencies(a, b)
			if of == "" || eb > ea*(1-fallingLimit) {
				continue
			}
			out = append(out, Warning{Kind: FallingRate, Rows: slices.Concat(a.Rows, b.Rows), Text: fmt.Sprintf(
				"%s at %s: %s falls from %s with %d ranks to %s with %d, and neither its traffic nor its latency explains that: "+
					"look for a slower link, sharing or an unfit algorithm",
				few.Algorithm, unit.FormatBytes(a.Bytes), of, formatEfficiency(ea, of), few.Ranks, formatEfficiency(eb, of),
				many.Ranks)})
		}
	}
	return out
}

func largestCommon(as, bs []Sample) (a, b Sample, ok bool) {
	for _, x := range as {
		for _, y := range bs {
			if x.Bytes == y.Bytes && (!ok || x.Bytes > a.Bytes) {
				a, b, ok = x, y, true
			}
		}
	}
	return a, b, ok
}

const (
	shareOfLimit = "the share of the limit"
	trafficRate  = "the rate of its traffic"
)

// efficiencies of two samples on one scale, and what they are of; "" if there is
// no fair one.
func efficiencies(a, b Sample) (ea, eb float64, of string) {
	la, lb := maxLimit(a.Limits), maxLimit(b.Limits)
	switch {
	case la > 0 && lb > 0:
		return la / a.TimeUS, lb / b.TimeUS, shareOfLimit
	case a.ThroughMemory(): // the caches, not its traffic, decide
		return 0, 0, ""
	case a.Traffic > 0 && b.Traffic > 0:
		return float64(a.Traffic) / a.TimeUS, float64(b.Traffic) / b.TimeUS, trafficRate
	}
	return LeastTraffic(a.Ranks, a.Bytes) / a.TimeUS, LeastTraffic(b.Ranks, b.Bytes) / b.TimeUS, trafficRate
}

func formatEfficiency(e float64, of string) string {
	if of == shareOfLimit {
		return fmt.Sprintf("%.0f %%", 100*e)
	}
	return unit.FormatSig(e/1e3, 3) + " GB/s"
}

func maxLimit(limits map[string]float64) float64 {
	return slices.Max(slices.AppendSeq([]float64{0}, maps.Values(limits)))
}

// wrongPathShare is the share of a ceiling below which a large message does not take the
// path it is meant to take.
const wrongPathShare = 0.05

// checkFarBelow notes, once for each series, that its largest message is limited by
// a bandwidth, but not by that of the ceiling. Where nobody named a ceiling, devices are
// held to half of what the slowest known link between them gives.
func checkFarBelow(samples []Sample, curves map[Series]Curve) (out []Warning) {
	for _, g := range bySeries(samples) {
		s := g.Items[len(g.Items)-1]
		if curves[g.Key].Bound(s.Bytes) != Bandwidth {
			continue
		}
		than, slowest := "", slowestLink()
		switch name, limit := s.Ceiling(true); {
		case limit > 0 && limit < wrongPathShare*s.TimeUS:
			than = fmt.Sprintf("%.0f times slower than its ceiling, %s", s.TimeUS/limit, name)
		case limit == 0 && dist.Describe(s.Backend).Has(dist.OnDevice) && !s.ThroughMemory() && s.BusBW() < slowest.Reachable/2:
			than = fmt.Sprintf("less than half of what the slowest known link between devices gives (%s, %s GB/s)",
				slowest.Name, unit.FormatSig(slowest.Reachable, 3))
		default:
			continue
		}
		out = append(out, Warning{Kind: FarBelow, Note: true, Rows: s.Rows, Text: fmt.Sprintf(
			"%s at %s is bandwidth-bound at %s GB/s, %s: the data most likely goes another way, such as through host memory",
			g.Key, unit.FormatBytes(s.Bytes), unit.FormatSig(s.BusBW(), 3), than)})
	}
	return out
}

// minSpeedup is how many times less a published curve takes at every common size before it
// is worth a note: nearer ones are a matter of versions and settings.
const minSpeedup = 2

// checkPublished notes, once for each series, how far it is behind the published curve of
// the link that its limits name.
func checkPublished(samples []Sample) (out []Warning) {
	for _, g := range bySeries(samples) {
		least, most, w := math.Inf(1), 0.0, Warning{Kind: KnownFaster, Note: true}
		var curve *Table
		for _, s := range g.Items {
			if curve == nil {
				curve = publishedCurve(s)
			}
			if curve == nil || s.ThroughMemory() {
				continue
			}
			if us, err := curve.US(s.Ranks, s.Bytes); err == nil {
				least, most = min(least, s.TimeUS/us), max(most, s.TimeUS/us)
				w.Rows = append(w.Rows, s.Rows...)
			}
		}
		if most > 0 && least >= minSpeedup {
			times := fmt.Sprintf("%.0f", least)
			if high := fmt.Sprintf("%.0f", most); high != times {
				times += " to " + high
			}
			w.Text = fmt.Sprintf("%s: the published %s is %s times faster at the same sizes, so at least that much is "+
				"possible over this link", g.Key, curve.Name, times)
			out = append(out, w)
		}
	}
	return out
}

// publishedCurve is the published curve over the link that the limits of a sample name; nil
// if there is none.
func publishedCurve(s Sample) *Table {
	for _, name := range slices.Sorted(maps.Keys(s.Limits)) {
		if link, known := LinkOf(name); known && link.Curve != "" {
			if curve, err := NamedCurve(link.Curve); err == nil {
				return curve
			}
		}
	}
	return nil
}

// dtypeTolerance is how closely times of equal bytes agree when bandwidth decides.
const dtypeTolerance = 0.03

// checkDTypes notes, for each setting, the element types that take equal time
// for equal bytes: some conclude from that that bandwidth is not the limit.
func checkDTypes(samples []Sample, curves map[Series]Curve) (out []Warning) {
	type size = lists.Group[int64, Sample]
	for _, set := range groupBy(samples, func(s Sample) Series { s.DType = ""; return s.Series }) {
		sizes := lists.GroupBy(set.Items, func(s Sample) int64 { return s.Bytes })
		several := lists.Filter(sizes, func(of size) bool { return len(of.Items) > 1 })
		if len(several) == 0 {
			continue
		}
		g := slices.MaxFunc(several, func(a, b size) int { return cmp.Compare(a.Key, b.Key) }).Items // one size says it
		slices.SortFunc(g, func(a, b Sample) int { return cmp.Compare(a.DType, b.DType) })
		low := slices.MinFunc(g, func(a, b Sample) int { return cmp.Compare(a.TimeUS, b.TimeUS) })
		high := slices.MaxFunc(g, func(a, b Sample) int { return cmp.Compare(a.TimeUS, b.TimeUS) })
		bandwidth := slices.ContainsFunc(g, func(s Sample) bool { return curves[s.Series].Bound(s.Bytes) == Bandwidth })
		if !bandwidth || high.TimeUS > low.TimeUS*(1+dtypeTolerance) {
			continue
		}
		w := Warning{Kind: EqualDTypes, Note: true}
		for _, s := range g {
			w.Rows = append(w.Rows, s.Rows...)
		}
		names := strings.Join(lists.Map(g, func(s Sample) string { return s.DType }), " and ")
		w.Text = fmt.Sprintf("%s take equal time (%s) for equal bytes (%s): what a bandwidth limit predicts, and no sign "+
			"against one",
			names, unit.FormatMicros(low.TimeUS), unit.FormatBytes(low.Bytes))
		out = append(out, w)
	}
	return out
}
