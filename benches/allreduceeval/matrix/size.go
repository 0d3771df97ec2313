package matrix

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Size is a length of the vectors: so many bytes of elements, and some
// elements more or less. It is one cell of the matrix.
type Size struct {
	Bytes    int
	Extra    int  // elements
	Streamed bool // the way that is otherwise kept for calls far larger than the caches
}

// Count is the number of elements of so many bytes each.
func (s Size) Count(width int) int { return s.Bytes/width + s.Extra }

// String is "0", "1 element", "8Ki", "8Ki+1", "1Mi-1" or "1Mi-1 streamed".
func (s Size) String() string {
	switch {
	case s.Streamed:
		return Size{Bytes: s.Bytes, Extra: s.Extra}.String() + " streamed"
	case s == Size{}:
		return "0"
	case s.Bytes == 0:
		return fmt.Sprintf("%d element", s.Extra)
	case s.Extra == 0:
		return unit.FormatBytes(int64(s.Bytes))
	}
	return fmt.Sprintf("%s%+d", unit.FormatBytes(int64(s.Bytes)), s.Extra)
}

// The sets of sizes: values of the axis sizes.
const (
	Quick = "quick"
	Wide  = "wide" // from 8 KiB to 64 MiB as the full set, in few steps
	Full  = "full"
)

// Sizes are those of a set.
func Sizes(set string) ([]Size, error) {
	const k, m = 1 << 10, 1 << 20
	switch set {
	case Quick:
		return []Size{{}, {0, 1, false}, {8 * k, 0, false}, {8 * k, 1, false}, {m, -1, false}, {m, -1, true}}, nil
	case Wide:
		list := []Size{{}, {0, 1, false}}
		for _, bytes := range []int{8 * k, 64 * k, 512 * k, 4 * m, 64 * m} {
			list = append(list, Size{bytes, 0, false}, Size{bytes, 7, false})
		}
		return list, nil
	case Full:
		return append([]Size{{}, {0, 1, false}}, Powers(8*k, 64*m)...), nil
	}
	return nil, suggest.Unknown("set of sizes", set, []string{Quick, Wide, Full})
}

// Powers are the powers of two between two sizes, each also with a few elements
// more.
func Powers(from, to int) (list []Size) {
	for bytes := from; bytes <= to; bytes *= 2 {
		for _, extra := range []int{0, 1, 7, 24} {
			list = append(list, Size{Bytes: bytes, Extra: extra})
		}
	}
	return list
}
