package allreduceeval

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// size is a length of the vectors: so many bytes of elements, and some
// elements more or less. It is one cell of the matrix.
type size struct {
	bytes int
	extra int // elements
}

// count is the number of elements of so many bytes each.
func (s size) count(width int) int { return s.bytes/width + s.extra }

// String is "0", "1 element", "8Ki", "8Ki+1" or "1Mi-1".
func (s size) String() string {
	switch {
	case s == size{}:
		return "0"
	case s.bytes == 0:
		return fmt.Sprintf("%d element", s.extra)
	case s.extra == 0:
		return unit.FormatBytes(int64(s.bytes))
	}
	return fmt.Sprintf("%s%+d", unit.FormatBytes(int64(s.bytes)), s.extra)
}

// The sets of sizes: values of the axis sizes.
const (
	quickSizes = "quick"
	fullSizes  = "full"
)

// fullFrom and fullTo are the powers of two of the full set; variables for tests.
var (
	fullFrom = 8 << 10
	fullTo   = 64 << 20
)

// sizesOf are the sizes of a set.
func sizesOf(set string) ([]size, error) {
	const k, m = 1 << 10, 1 << 20
	switch set {
	case quickSizes:
		return []size{{}, {0, 1}, {8 * k, 0}, {8 * k, 1}, {m, -1}}, nil
	case fullSizes:
		all := []size{{}, {0, 1}}
		for bytes := fullFrom; bytes <= fullTo; bytes *= 2 {
			for _, extra := range []int{0, 1, 7, 24} {
				all = append(all, size{bytes, extra})
			}
		}
		return all, nil
	}
	return nil, suggest.Unknown("set of sizes", set, []string{quickSizes, fullSizes})
}

// adversarialUpTo is the largest size of which the adversarial inputs are
// tried: their oracles depend on algorithm and count, and cost more than the
// all-reduce itself. Larger ones get the exact inputs.
const adversarialUpTo = 1 << 20

// outcomes are the results of a row's cells as they are recorded and read again.
type outcome struct {
	Size   string
	Status string // ok, failed or not-executed
}

func formatOutcomes(list []outcome) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, o.Size+"="+o.Status)
	}
	return strings.Join(parts, ", ")
}

func parseOutcomes(text string) (list []outcome) {
	for _, part := range strings.Split(text, ", ") {
		if name, status, ok := strings.Cut(part, "="); ok {
			list = append(list, outcome{name, status})
		}
	}
	return list
}
