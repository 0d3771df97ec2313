// Package suggest words the error for an unknown name: which names exist and which
// one was probably meant. Every "unknown X" error of kernbench goes
// through it, so that they all read the same.
package suggest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// maxListed is how many existing names an error lists before it stops; more
// would bury the suggestion.
const maxListed = 40

// Error is a name that does not exist.
type Error struct {
	What  string // the noun: "axis", "bench"
	Name  string
	Names []string // those that do exist
}

// Unknown is the error for a name that does not exist. What is the noun ("axis",
// "bench"), names are those that do exist.
func Unknown(what, name string, names []string) error { return &Error{what, name, names} }

// Find is the element of a list that has the name, or the error for a name that none has.
func Find[T any](what, name string, list []T, nameOf func(T) string) (T, error) {
	found, ok := lists.First(list, func(v T) bool { return nameOf(v) == name })
	if !ok {
		return found, Unknown(what, name, lists.Map(list, nameOf))
	}
	return found, nil
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "unknown %s %q", e.What, e.Name)
	if near := Nearest(e.Name, e.Names); near != "" {
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

// Nearest returns the name closest to the given one, or "" when none is close
// enough to be a likely slip of the finger.
func Nearest(name string, names []string) string {
	best, bestDist := "", len(name)/3+2
	low := strings.ToLower(name)
	for _, n := range names {
		cand := strings.ToLower(n)
		d := distance(low, cand)
		// A part of the name is what an impatient typist leaves.
		if len(low) > 2 && strings.Contains(cand, low) {
			d = min(d, 1)
		}
		if d < bestDist || d == bestDist && best != "" && n < best {
			best, bestDist = n, d
		}
	}
	return best
}

// Typo returns the name of which the given one is a slip of the finger: one letter
// too many, missing, other or swapped, or other case and underscores. It is stricter
// than Nearest, for names that need not be known: it takes no digit for another,
// which tells series apart, and no name of few letters for a slip.
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

// distance is the Levenshtein distance with adjacent swaps counted as one,
// since swapped letters are the commonest slip.
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
