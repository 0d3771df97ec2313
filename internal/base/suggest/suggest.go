// Package suggest makes the error for an unknown name, which lists the existing names and
// suggests the nearest. All "unknown X" errors of kernbench come from here, so that they
// read the same.
package suggest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// maxListed is the largest number of names that an error lists. More would hide the suggestion.
const maxListed = 40

// maxShown is the largest number of bytes of a name that an error shows, since a name may be a whole file.
const maxShown = 100

// Error is the error for a name that does not exist.
type Error struct {
	What  string // the noun: "axis", "bench"
	Name  string
	Names []string // the existing names
}

// Unknown returns an *Error for a name that does not exist. what is a noun such as "axis", and
// names are the existing names.
func Unknown(what, name string, names []string) error { return &Error{what, name, names} }

// Find returns the element with the given name, or the error of Unknown if there is none.
func Find[T any](what, name string, list []T, nameOf func(T) string) (T, error) {
	found, ok := lists.First(list, func(v T) bool { return nameOf(v) == name })
	if !ok {
		return found, Unknown(what, name, lists.Map(list, nameOf))
	}
	return found, nil
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "unknown %s %.*q", e.What, maxShown, e.Name)
	if len(e.Name) > maxShown {
		b.WriteString("…")
	} else if near := Nearest(e.Name, e.Names); near != "" {
		fmt.Fprintf(&b, ", did you mean %q?", near)
	}
	if len(e.Names) == 0 {
		fmt.Fprintf(&b, " (there is no %s)", e.What)
		return b.String()
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(e.Names)))
	more := ""
	if len(sorted) > maxListed {
		more = fmt.Sprintf(", and %d more", len(sorted)-maxListed)
		sorted = sorted[:maxListed]
	}
	fmt.Fprintf(&b, " (known: %s%s)", strings.Join(sorted, ", "), more)
	return b.String()
}

// Nearest returns the most similar of the names, or "" if none is similar enough to have been
// meant.
func Nearest(name string, names []string) string {
	best, bestDist := "", len(name)/3+2
	low := strings.ToLower(name)
	for _, n := range names {
		cand := strings.ToLower(n)
		d := distance(low, cand)
		// A part of a name is as good as a typo: "ranks" for "num_ranks".
		if len(low) > 2 && strings.Contains(cand, low) {
			d = min(d, 1)
		}
		if d < bestDist || d == bestDist && best != "" && n < best {
			best, bestDist = n, d
		}
	}
	return best
}

// Typo returns the name that was probably misspelt: one letter is added, missing, different or
// swapped with its neighbour, or case and underscores differ. It is stricter than Nearest, for
// names that may be correct although they are not listed: names that differ only in digits,
// such as GPU_0 and GPU_1, and names of fewer than four letters are no typos.
func Typo(name string, names []string) string {
	const few = 4
	plain := strings.NewReplacer("_", "", "-", "").Replace
	low := plain(strings.ToLower(name))
	digits := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0'
		}
		return r
	}
	for _, n := range slices.Sorted(slices.Values(names)) {
		cand := plain(strings.ToLower(n))
		if min(len(low), len(cand)) < few || n == name {
			continue
		}
		series := low != cand && strings.Map(digits, low) == strings.Map(digits, cand)
		if distance(low, cand) <= 1 && !series {
			return n
		}
	}
	return ""
}

// distance returns the Levenshtein distance, but counts a swap of neighbours as one edit
// because it is the most common typo.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
