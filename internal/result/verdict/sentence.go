package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// maxNamed is the number of points that a sentence names.
const maxNamed = 3

// Sentence returns the answer of a check in one sentence.
func (r Report) Sentence() string {
	switch r.ExitCode() {
	case 1:
		return r.bad()
	case 3:
		if r.Whole.Verdict == CannotTell {
			return "cannot tell: " + strings.Join(r.Whole.Notes, "; ")
		}
		first, _ := lists.First(r.Points, func(p Point) bool { return p.Verdict == CannotTell })
		return fmt.Sprintf("cannot tell at %s, such as %s: %s", unit.Plural(r.Counts[CannotTell], "point"), first.Name,
			strings.Join(first.Notes, "; "))
	}
	good := "no slowdown"
	if b := r.Whole.RulesOut; b != nil && len(r.Points) > 1 {
		good += fmt.Sprintf(" of %s or more as a whole", percentPlain(*b))
	}
	worst := 0.0
	for _, p := range r.Points {
		if p.RulesOut != nil {
			worst = max(worst, *p.RulesOut)
		}
	}
	if worst > 0 {
		good += fmt.Sprintf(" of %s or more at any point", percentPlain(worst))
		good = strings.Replace(good, "as a whole of", "as a whole, nor of", 1)
	}
	if r.Whole.Verdict == judge.Faster {
		good = "all points together are " + r.Whole.sentence()
	} else if n := r.Counts[judge.Faster]; n > 0 {
		good += "; faster at " + unit.Plural(n, "point")
	}
	return good
}

// bad describes what is slower, lost or failed.
func (r Report) bad() string {
	var parts []string
	if r.Whole.Verdict == judge.Slower && len(r.Points) > 1 {
		parts = append(parts, "all points together are "+r.Whole.sentence())
	}
	// If the whole is slower, name only the points that are lost or failed.
	bad := lists.Filter(r.Points, func(p Point) bool {
		return outcomeOf(p.Verdict) == Bad && (p.Verdict != judge.Slower || len(parts) == 0)
	})
	for _, p := range bad[:min(len(bad), maxNamed)] {
		parts = append(parts, p.Name+" is "+p.sentence())
	}
	if more := len(bad) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more points are slower, lost or failed", more))
	}
	return strings.Join(parts, "; ")
}

// sentence describes a finding: "slower by 5.1 % (95 % from 3.6 to 6.6 %) since run ...".
func (f Finding) sentence() string {
	text := string(f.Verdict)
	if f.Verdict == NoSlowdown && f.RulesOut != nil {
		return fmt.Sprintf("%s of %s or more", text, percentPlain(*f.RulesOut))
	}
	if e := f.Effect; e != nil && (f.Verdict == judge.Slower || f.Verdict == judge.Faster) {
		text += " by " + percentPlain(math.Abs(e.Ratio-1))
		if e.Low != 0 && e.Method != judge.Exact {
			low, high := math.Abs(e.Low-1), math.Abs(e.High-1) // both on the same side of 0
			text += fmt.Sprintf(" (95 %% from %s to %s)", percentPlain(min(low, high)), percentPlain(max(low, high)))
		}
	}
	if f.Since != nil {
		text += " since " + f.Since.String()
	}
	return text
}

// percentPlain returns a relative change for a sentence: "5.1 %".
func percentPlain(change float64) string { return fmt.Sprintf("%.1f %%", 100*change) }
