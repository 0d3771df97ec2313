package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Claim is a published statement about results, in a form that can be checked: what it states, and about
// which rows. The comments of the fields name the kinds that use them.
type Claim struct {
	Kind string
	Text string // the sentence, as published

	// The rows that the claim is about. A zero field selects all.
	Algorithm string
	DType     string
	Ranks     int
	Bytes     int64

	Bound   Bound   // ClaimBound
	Against string  // ClaimNoEffect: the other algorithm; ClaimPotential: a curve
	Count   int     // ClaimCount
	Value   float64 // ClaimUtilisation: per cent; ClaimBusBW: GB/s; ClaimPotential: a factor
	Of      string  // ClaimUtilisation: the ceiling
	Hidden  int     // ClaimDecode: the model's hidden size
}

// The kinds of claims.
const (
	ClaimBound       = "bound"       // messages are latency- or bandwidth-bound
	ClaimDTypes      = "dtypes"      // the time does not depend on the element type, hence no bandwidth limit
	ClaimNoEffect    = "no-effect"   // Algorithm is no faster than Against
	ClaimDecode      = "decode"      // a message of Bytes is a decode step of a model with this hidden size
	ClaimCount       = "rows"        // there are Count configurations
	ClaimPassed      = "passed"      // all required points ran and passed
	ClaimUtilisation = "utilisation" // Value per cent of the ceiling are reached
	ClaimBusBW       = "busbw"       // the bus bandwidth is Value GB/s
	ClaimPotential   = "potential"   // Value times faster is possible, as a curve shows
)

// ClaimKinds returns the kinds of claims.
func ClaimKinds() []string {
	return []string{ClaimBound, ClaimDTypes, ClaimNoEffect, ClaimDecode, ClaimCount, ClaimPassed, ClaimUtilisation,
		ClaimBusBW, ClaimPotential}
}

// Verdict is the result of checking a claim.
type Verdict struct {
	Claim  Claim
	Answer Answer
	Reason string
}

// Answer is whether a claim holds.
type Answer string

// The answers.
const (
	Holds     Answer = "holds"
	Refuted   Answer = "refuted"
	Refused   Answer = "refused"   // no number could support it: the comparison or the number is meaningless
	Undecided Answer = "undecided" // these rows cannot decide it
)

// MaxDecode is the largest number of sequences decoded at once within one tensor-parallel
// group. Each contributes one token to a decode step.
const MaxDecode = 1024

// Judge checks each claim against the rows. curve returns a reference curve by name for
// ClaimPotential; it may be nil.
func Judge(rows dataset.Set, claims []Claim, curve func(name string) (*Table, error)) []Verdict {
	samples := SamplesOf(rows)
	var out []Verdict
	for _, c := range claims {
		answer, reason := judgeClaim(c, rows, c.matching(samples), curve)
		out = append(out, Verdict{c, answer, reason})
	}
	return out
}

// matching returns the samples that the claim is about.
func (c Claim) matching(samples []Sample) []Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool {
		algorithm := c.Algorithm != "" && s.Algorithm != c.Algorithm && !(c.Kind == ClaimNoEffect && s.Algorithm == c.Against)
		size := c.Bytes > 0 && s.Bytes != c.Bytes && c.Kind != ClaimDecode && c.Kind != ClaimBound
		return algorithm || size || c.DType != "" && s.DType != c.DType || c.Ranks > 0 && s.Ranks != c.Ranks
	})
}

func judgeClaim(c Claim, rows dataset.Set, samples []Sample, curve func(string) (*Table, error)) (Answer, string) {
	switch {
	case c.Kind == ClaimDecode:
		return judgeDecode(c)
	case c.Kind == ClaimPassed:
		return judgePassed(rows)
	case len(samples) == 0:
		return Undecided, "no row matches the claim"
	}
	switch c.Kind {
	case ClaimBound:
		return judgeBound(c, samples)
	case ClaimDTypes:
		return judgeDTypes(samples)
	case ClaimNoEffect:
		return judgeNoEffect(c, samples)
	case ClaimCount:
		if n := len(samples); n != c.Count {
			return Refuted, fmt.Sprintf("it says %s, the table has %d", unit.Plural(c.Count, "configuration"), n)
		}
		return Holds, fmt.Sprintf("the table has %d", c.Count)
	case ClaimUtilisation:
		return judgeUtilisation(c, samples)
	case ClaimBusBW:
		return judgeBusBW(c, samples)
	case ClaimPotential:
		return judgePotential(c, samples, curve)
	}
	return Undecided, fmt.Sprintf("unknown kind of claim %q", c.Kind)
}

// judgeBound compares the claim with the fitted lines. One measured size with another
// bound refutes it; it holds only if all sizes are resolved.
func judgeBound(c Claim, samples []Sample) (Answer, string) {
	var lines []string
	refuted, unresolved := false, false
	for _, curve := range Fit(samples) {
		if !curve.Fitted() {
			continue
		}
		sizes := curve.Measured
		if c.Bytes > 0 {
			sizes = []int64{c.Bytes}
		}
		for _, bytes := range sizes {
			b := curve.Bound(bytes)
			unresolved = unresolved || b == Unresolved
			refuted = refuted || b != c.Bound && b != Unresolved && b != Unknown
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %s", curve.Series, curve, curve.Bounds()))
	}
	switch {
	case len(lines) == 0:
		return Undecided, "not resolved: one size only, so there is no line"
	case refuted:
		return Refuted, "the fit says " + strings.Join(lines, "; ")
	case unresolved:
		return Undecided, "the fit does not resolve it: " + strings.Join(lines, "; ")
	}
	return Holds, strings.Join(lines, "; ")
}

func judgeDTypes(samples []Sample) (Answer, string) {
	for _, w := range Check(samples) {
		if w.Kind == EqualDTypes {
			return Refuted, "it does not follow: " + w.Text
		}
	}
	for _, curve := range Fit(samples) {
		if curve.Bound(curve.Max()) == Bandwidth {
			return Refuted, fmt.Sprintf("the largest messages of %s are bandwidth-bound, whatever time other types take",
				curve.Series)
		}
	}
	return Undecided, "no two element types were measured with the same bytes at a size that bandwidth could limit"
}

func judgeNoEffect(c Claim, samples []Sample) (Answer, string) {
	if same := checkIdentical(samples); len(same) > 0 {
		return Refused, same[0].Text
	}
	worst, at := 0.0, int64(0)
	for _, p := range commonSizes(samples, samples) {
		a, b := p.a, p.b
		if a.Algorithm == c.Algorithm && b.Algorithm == c.Against && a.DType == b.DType && a.Ranks == b.Ranks &&
			a.InPlace == b.InPlace {
			if d := math.Abs(a.TimeUS/b.TimeUS - 1); d >= worst {
				worst, at = d, a.Bytes
			}
		}
	}
	switch {
	case at == 0:
		return Undecided, fmt.Sprintf("%s and %s have no size in common", c.Algorithm, c.Against)
	case worst > claimTolerance:
		return Refuted, fmt.Sprintf("at %s they differ by %.0f %%", unit.FormatBytes(at), 100*worst)
	}
	return Holds, fmt.Sprintf("they differ by %.1f %% at most", 100*worst)
}

// judgeDecode counts the tokens in the message: a decode step has one for each sequence.
// An activation takes two bytes.
func judgeDecode(c Claim) (Answer, string) {
	if c.Hidden <= 0 {
		return Undecided, "the model's hidden size is not known"
	}
	token := int64(c.Hidden) * 2
	tokens := c.Bytes / token
	if tokens > MaxDecode {
		return Refused, fmt.Sprintf("%s at hidden %d in 16 bits is %d tokens: the prefill of a long prompt, never a "+
			"decode step, which has one token per sequence (%s at batch 1)",
			unit.FormatBytes(c.Bytes), c.Hidden, tokens, unit.FormatBytes(token))
	}
	return Holds, fmt.Sprintf("%s is a decode step of %s", unit.FormatBytes(c.Bytes), unit.Plural(int(tokens), "sequence"))
}

// judgePassed accepts "all passed" only if every required point ran and passed.
func judgePassed(rows dataset.Set) (Answer, string) {
	counts := map[journal.Status]int{}
	first, total := "", 0
	for _, r := range rows {
		if r.Optional {
			continue
		}
		total++
		counts[r.Status]++
		if r.Status != journal.OK && first == "" {
			first = r.Point.String()
			if r.NumRanks != nil {
				first += fmt.Sprintf(" num_ranks=%d", *r.NumRanks)
			}
			first += fmt.Sprintf(": %s", r.Reason)
		}
	}
	if total == 0 {
		return Undecided, "nothing ran"
	}
	if counts[journal.OK] == total {
		return Holds, fmt.Sprintf("all %d ran and passed", total)
	}
	return Refused, fmt.Sprintf("of %d required points %d passed, %d failed, %d were skipped and %d never executed; "+
		"the first: %s", total, counts[journal.OK],
		counts[journal.Failed]+counts[journal.Timeout], counts[journal.Skipped], counts[journal.NotExecuted], first)
}

// claimTolerance is the relative difference between a claimed and a computed number that
// counts as rounding.
const claimTolerance = 0.05

func judgeUtilisation(c Claim, samples []Sample) (Answer, string) {
	best := slices.MaxFunc(samples, func(a, b Sample) int { return cmp.Compare(a.BusBW(), b.BusBW()) })
	if c.Of == "" {
		var lines []string
		for _, ceiling := range links[0].Ceilings() {
			lines = append(lines, fmt.Sprintf("%.2g %% of %s (%s GB/s)", 100*Utilisation(best, ceiling), ceiling.Name,
				unit.FormatSig(ceiling.GBs, 3)))
		}
		return Refused, fmt.Sprintf("%s %% of what? A utilisation needs its denominator; %s GB/s would be %s",
			unit.FormatSig(c.Value, 3), unit.FormatSig(best.BusBW(), 4), strings.Join(lines, ", "))
	}
	ceilings, err := Ceilings(c.Of)
	if err != nil || len(ceilings) != 1 {
		return Undecided, fmt.Sprintf("the ceiling %q is not one rate", c.Of)
	}
	percent := 100 * Utilisation(best, ceilings[0])
	found := fmt.Sprintf("%s GB/s are %.2g %% of %s", unit.FormatSig(best.BusBW(), 4), percent, ceilings[0].Name)
	if math.Abs(percent/c.Value-1) > claimTolerance {
		return Refuted, fmt.Sprintf("%s (%s GB/s), not %s %%", found, unit.FormatSig(ceilings[0].GBs, 3),
			unit.FormatSig(c.Value, 3))
	}
	return Holds, found
}

func judgeBusBW(c Claim, samples []Sample) (Answer, string) {
	miss := func(s Sample) float64 { return math.Abs(s.BusBW()/c.Value - 1) }
	nearest := slices.MinFunc(samples, func(a, b Sample) int { return cmp.Compare(miss(a), miss(b)) })
	if miss(nearest) > claimTolerance {
		return Refuted, fmt.Sprintf("bus bandwidth is bytes / time x 2(n-1)/n: the nearest is %s GB/s with %s, not %s",
			unit.FormatSig(nearest.BusBW(), 4), unit.Plural(nearest.Ranks, "rank"), unit.FormatSig(c.Value, 3))
	}
	return Holds, fmt.Sprintf("%s at %s has %s GB/s", nearest.Series, unit.FormatBytes(nearest.Bytes),
		unit.FormatSig(nearest.BusBW(), 4))
}

func judgePotential(c Claim, samples []Sample, curve func(string) (*Table, error)) (Answer, string) {
	if curve == nil {
		return Undecided, "there is no curve to compare with"
	}
	ref, err := curve(c.Against)
	if err != nil {
		return Undecided, err.Error()
	}
	lowest, highest, _ := ref.speedup(samples)
	switch {
	case highest == 0:
		return Undecided, fmt.Sprintf("the curve %s has none of the sizes", c.Against)
	case highest < c.Value*(1-claimTolerance): // another way may be faster
		return Undecided, fmt.Sprintf("%s is at most %s times faster, which does not show that %s times is possible",
			c.Against, unit.FormatSig(highest, 3), unit.FormatSig(c.Value, 3))
	}
	return Holds, fmt.Sprintf("%s is %.0f to %.0f times faster at these sizes", c.Against, lowest, highest)
}
