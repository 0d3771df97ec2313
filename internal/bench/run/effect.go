package run

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// sameWithin is the relative difference up to which two medians count as equal
// even if their intervals do not overlap: too little to act on.
const sameWithin = 0.02

// maxNotes keeps a large sweep over a variable that nothing reads from hiding the
// rest: all pairs of its values coincide.
const maxNotes = 5

// noEffect looks for environments that changed nothing: two of them whose rows
// are equal at every point they share. The setting may have been ignored, misspelt
// or overridden, which no exit code tells.
func noEffect(rows []journal.Row) []string {
	type at struct{ env, rest string }
	latest := map[at][]journal.Row{}
	var envs []string
	var rests []string
	seenEnv, seenRest := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		if len(r.Env) == 0 || r.Status != journal.OK {
			continue
		}
		env, rest := r.Env.String(), fmt.Sprint(r.Part, "|", r.Point, "|", deref(r.NumRanks), "|", r.Options)
		if !seenEnv[env] {
			seenEnv[env] = true
			envs = append(envs, env)
		}
		if !seenRest[rest] {
			seenRest[rest] = true
			rests = append(rests, rest)
		}
		latest[at{env, rest}] = append(latest[at{env, rest}], r)
	}
	var notes []string
	for i, a := range envs {
		for _, b := range envs[i+1:] {
			shared, alike, worst := 0, 0, 0.0
			for _, rest := range rests {
				x, y := latest[at{a, rest}], latest[at{b, rest}]
				if len(x) == 0 || len(y) == 0 {
					continue
				}
				shared++
				diff, same := coincide(x, y)
				if same {
					alike++
				}
				worst = math.Max(worst, diff)
			}
			if shared > 0 && alike == shared {
				notes = append(notes, fmt.Sprintf("no visible effect: %s and %s gave the same times at all %d points (largest difference %.1f %%)",
					a, b, shared, worst*100))
			}
		}
	}
	if more := len(notes) - maxNotes; more > 0 {
		notes = append(notes[:maxNotes], fmt.Sprintf("no visible effect: %d more pairs of environments gave the same times",
			more))
	}
	return notes
}

// coincide compares the times of one point under two environments. Over
// several trials their ranges must overlap; for one, the intervals.
func coincide(x, y []journal.Row) (diff float64, same bool) {
	lx, mx, hx := span(x)
	ly, my, hy := span(y)
	if mx <= 0 || my <= 0 {
		return 0, false
	}
	diff = math.Abs(mx-my) / math.Min(mx, my)
	return diff, diff <= sameWithin || lx <= hy && ly <= hx
}

// span is the range of a point's times, and their mean.
func span(rows []journal.Row) (low, mid, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		t, lo, hi := headline(r)
		low, high, mid = math.Min(low, lo), math.Max(high, hi), mid+t/float64(len(rows))
	}
	return low, mid, high
}

// headline is the row's time, or its only metric, with its interval.
func headline(r journal.Row) (value, low, high float64) {
	name := "time_us"
	if _, ok := r.Metrics[name]; !ok {
		for n := range r.Metrics {
			if ok = name == "time_us" || n < name; ok {
				name = n
			}
		}
	}
	value = r.Metrics[name]
	low, high = value, value
	if s, ok := r.Stats[name]; ok && s.CILow != nil && s.CIHigh != nil {
		low, high = *s.CILow, *s.CIHigh
	}
	return value, low, high
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
