package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Claim is a sentence somebody published about results, as data: what is said,
// and of which rows. The fields beside the selection that a kind uses are named
// with it.
type Claim struct {
	Kind string
	Text string // the sentence, as published

	// The rows it is about; what is empty selects all.
	Algorithm string
	DType     string
	Ranks     int
	Bytes     int64

	Bound   Bound   // of ClaimBound
	Against string  // of ClaimNoEffect and ClaimPotential: the other algorithm, the curve
	Count   int     // of ClaimCount
	Value   float64 // GB/s, per cent, or a factor
	Of      string  // of ClaimUtilisation: the ceiling
	Hidden  int     // of ClaimDecode: the model's width
}

// The kinds of claims.
const (
	ClaimBound       = "bound"       // latency- or bandwidth-bound (Bound)
	ClaimDTypes      = "dtypes"      // no dependence on the element type, hence no bandwidth limit
	ClaimNoEffect    = "no-effect"   // Algorithm brings nothing over Against
	ClaimDecode      = "decode"      // a message of Bytes is a decode step of a model of width Hidden
	ClaimCount       = "rows"        // so many configurations (Count)
	ClaimPassed      = "passed"      // everything required ran and passed
	ClaimUtilisation = "utilisation" // Value per cent of the ceiling Of
	ClaimBusBW       = "busbw"       // Value GB/s of bus bandwidth
	ClaimPotential   = "potential"   // at most Value times faster is possible; Against is a curve
)

// ClaimKinds lists them.
func ClaimKinds() []string {
	return []string{ClaimBound, ClaimDTypes, ClaimNoEffect, ClaimDecode, ClaimCount, ClaimPassed, ClaimUtilisation,
		ClaimBusBW, ClaimPotential}
}

// Verdict is what the rows say to a claim.
type Verdict struct {
	Claim  Claim
	Answer Answer
	Reason string
}

// Answer is one of four: a claim may also be one that no number could support,
// or that these rows cannot decide.
type Answer string

// The answers.
const (
	Holds     Answer = "holds"
	Refuted   Answer = "refuted"
	Refused   Answer = "refused" // the comparison or the number is meaningless as it stands
	Undecided Answer = "undecided"
)

// MaxDecode is the largest number of sequences that anybody decodes at once
// within one tensor-parallel group: one token each in a step.
const MaxDecode = 1024

// Judge holds each claim against the rows. curve finds a named reference curve
// for ClaimPotential; nil knows none.
func Judge(rows []journal.Row, claims []Claim, curve func(name string) (*Table, error)) []Verdict {
	samples := SamplesOf(rows)
	var out []Verdict
	for _, c := range claims {
		answer, reason := judgeClaim(c, rows, c.matching(samples), curve)
		out = append(out, Verdict{c, answer, reason})
	}
	return out
}

// matching keeps the samples that the claim is about.
func (c Claim) matching(samples []Sample) []Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool {
		algorithm := c.Algorithm != "" && s.Algorithm != c.Algorithm && !(c.Kind == ClaimNoEffect && s.Algorithm == c.Against)
		size := c.Bytes > 0 && s.Bytes != c.Bytes && c.Kind != ClaimDecode && c.Kind != ClaimBound
		return algorithm || size || c.DType != "" && s.DType != c.DType || c.Ranks > 0 && s.Ranks != c.Ranks
	})
}

func judgeClaim(c Claim, rows []journal.Row, samples []Sample, curve func(string) (*Table, error)) (Answer, string) {
	switch c.Kind {
	case ClaimDecode:
		return judgeDecode(c)
	case ClaimPassed:
		return judgePassed(rows)
	}
	if len(samples) == 0 {
		return Undecided, "no row is about it"
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
			return Refuted, fmt.Sprintf("%s are said, the table has %d", unit.Plural(c.Count, "configuration"), n)
		}
		return Holds, fmt.Sprintf("the table has %d", c.Count)
	case ClaimUtilisation:
		return judgeUtilisation(c, samples)
	case ClaimBusBW:
		return judgeBusBW(c, samples)
	case ClaimPotential:
		return judgePotential(c, samples, curve)
	}
	return Undecided, fmt.Sprintf("nobody knows how to judge a claim of kind %q", c.Kind)
}

// judgeBound asks the fits: a claim about all sizes is refuted by any curve on
// which some measured size is decided by the other, and holds only if all sizes are
// resolved.
func judgeBound(c Claim, samples []Sample) (Answer, string) {
	var lines, found []string
	decided, open := false, false
	for _, curve := range Fit(samples) {
		if !curve.Fitted() {
			continue
		}
		decided = true
		at := curve.Measured
		if c.Bytes > 0 {
			at = []int64{c.Bytes}
		}
		for _, bytes := range at {
			switch b := curve.Bound(bytes); b {
			case c.Bound, Unknown:
			case Unresolved:
				open = true
			default:
				found = append(found, string(b))
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %s", curve.Series, curve, curve.Bounds()))
	}
	switch {
	case !decided:
		return Undecided, "one size says neither"
	case len(found) > 0:
		return Refuted, "the fit says " + strings.Join(lines, "; ")
	case open:
		return Undecided, "the fit does not tell: " + strings.Join(lines, "; ")
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
			return Refuted, fmt.Sprintf("the largest messages of %s are bandwidth-bound, whatever the types take", curve.Series)
		}
	}
	return Undecided, "no two element types with the same bytes where bandwidth could decide"
}

func judgeNoEffect(c Claim, samples []Sample) (Answer, string) {
	for _, w := range checkIdentical(samples) {
		return Refused, w.Text
	}
	worst, at := 0.0, int64(0)
	for _, a := range samples {
		for _, b := range samples {
			if a.Algorithm == c.Algorithm && b.Algorithm == c.Against && a.Bytes == b.Bytes && a.DType == b.DType &&
				a.Ranks == b.Ranks && a.InPlace == b.InPlace {
				if d := math.Abs(a.TimeUS/b.TimeUS - 1); d >= worst {
					worst, at = d, a.Bytes
				}
			}
		}
	}
	switch {
	case at == 0:
		return Undecided, fmt.Sprintf("%s and %s have no size in common", c.Algorithm, c.Against)
	case worst > 0.05:
		return Refuted, fmt.Sprintf("at %s they differ by %.0f %%", unit.FormatBytes(at), 100*worst)
	}
	return Holds, fmt.Sprintf("they differ by %.1f %% at most", 100*worst)
}

// judgeDecode counts the tokens that the message holds: in a decode step there
// is one for each sequence. Activations have two bytes.
func judgeDecode(c Claim) (Answer, string) {
	if c.Hidden <= 0 {
		return Undecided, "the model's width is not known"
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

// judgePassed says "all passed" only if every cell ran and was good.
func judgePassed(rows []journal.Row) (Answer, string) {
	counts := map[journal.Status]int{}
	var first string
	total := 0
	for _, r := range rows {
		if r.Optional {
			continue
		}
		total++
		counts[r.Status]++
		if r.Status != journal.OK && first == "" {
			first = r.Point.String() + rankText(r) + ": " + r.Reason
		}
	}
	if total == 0 {
		return Undecided, "nothing ran"
	}
	if counts[journal.OK] == total {
		return Holds, fmt.Sprintf("all %d ran and are good", total)
	}
	return Refused, fmt.Sprintf("of %d required cells %d are good, %d failed, %d were skipped and %d never executed; "+
		"the first: %s", total, counts[journal.OK],
		counts[journal.Failed]+counts[journal.Timeout], counts[journal.Skipped], counts[journal.NotExecuted], first)
}

func rankText(r journal.Row) string {
	if r.NumRanks == nil {
		return ""
	}
	return fmt.Sprintf(" num_ranks=%d", *r.NumRanks)
}

// claimTolerance is how far a stated number may be from the computed one: rounding.
const claimTolerance = 0.05

func judgeUtilisation(c Claim, samples []Sample) (Answer, string) {
	best := slices.MaxFunc(samples, func(a, b Sample) int { return cmp.Compare(a.BusBW(), b.BusBW()) })
	if c.Of == "" {
		var lines []string
		for _, ceiling := range Links()[0].Ceilings() {
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
	have := 100 * Utilisation(best, ceilings[0])
	if math.Abs(have/c.Value-1) > claimTolerance {
		return Refuted, fmt.Sprintf("%s GB/s are %.2g %% of %s (%s GB/s), not %s %%", unit.FormatSig(best.BusBW(), 4), have,
			ceilings[0].Name,
			unit.FormatSig(ceilings[0].GBs, 3), unit.FormatSig(c.Value, 3))
	}
	return Holds, fmt.Sprintf("%s GB/s are %.2g %% of %s", unit.FormatSig(best.BusBW(), 4), have, ceilings[0].Name)
}

func judgeBusBW(c Claim, samples []Sample) (Answer, string) {
	var nearest Sample
	miss := math.Inf(1)
	for _, s := range samples {
		if d := math.Abs(s.BusBW()/c.Value - 1); d < miss {
			nearest, miss = s, d
		}
	}
	if miss > claimTolerance {
		return Refuted, fmt.Sprintf("bus bandwidth is bytes / time x 2(n-1)/n: %s GB/s at most with %s, not %s",
			unit.FormatSig(nearest.BusBW(), 4), unit.Plural(nearest.Ranks, "rank"), unit.FormatSig(c.Value, 3))
	}
	return Holds, fmt.Sprintf("%s at %s has %s GB/s", nearest.Series, unit.FormatBytes(nearest.Bytes),
		unit.FormatSig(nearest.BusBW(), 4))
}

func judgePotential(c Claim, samples []Sample, curve func(string) (*Table, error)) (Answer, string) {
	if curve == nil {
		return Undecided, "there is no curve to hold it against"
	}
	ref, err := curve(c.Against)
	if err != nil {
		return Undecided, err.Error()
	}
	most, least, lines := 0.0, math.Inf(1), 0
	for _, s := range samples {
		if us, err := ref.US(s.Ranks, s.Bytes); err == nil {
			most, least = max(most, s.TimeUS/us), min(least, s.TimeUS/us)
			lines++
		}
	}
	switch {
	case lines == 0:
		return Undecided, fmt.Sprintf("the curve %s has none of the sizes", c.Against)
	case most > c.Value*(1+claimTolerance):
		return Refuted, fmt.Sprintf("%s is %.0f to %.0f times faster at these sizes, so %s times understates what is possible", c.Against, least, most, unit.FormatSig(c.Value, 3))
	}
	return Holds, fmt.Sprintf("%s is %s times faster at most", c.Against, unit.FormatSig(most, 3))
}
