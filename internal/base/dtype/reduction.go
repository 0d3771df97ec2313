package dtype

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Reduction says how elements are combined.
type Reduction uint8

// The reductions. Avg is the sum times the rounded reciprocal of the number of
// ranks, for integers the sum divided and truncated.
const (
	Sum Reduction = iota
	Prod
	Min
	Max
	Avg
)

var reductionNames = [...]string{"sum", "prod", "min", "max", "avg"}

// Reductions lists the reductions.
func Reductions() []Reduction { return []Reduction{Sum, Prod, Min, Max, Avg} }

// String is the reduction's name in lower case.
func (r Reduction) String() string {
	if int(r) >= len(reductionNames) {
		return fmt.Sprintf("Reduction(%d)", uint8(r))
	}
	return reductionNames[r]
}

// ParseReduction reads a reduction's name.
func ParseReduction(name string) (Reduction, error) {
	if i := slices.Index(reductionNames[:], name); i >= 0 {
		return Reduction(i), nil
	}
	return 0, suggest.Unknown("reduction", name, reductionNames[:])
}
