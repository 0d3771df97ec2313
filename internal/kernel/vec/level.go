package vec

import "fmt"

// Level is a set of instructions that kernels are written for.
type Level uint8

// The levels, from slow to fast.
const (
	Portable   Level = iota // Go alone
	AVX2                    // with F16C
	AVX512                  // F, BW, DQ and VL
	AVX512FP16              // and FP16
)

// String is the level's name, as a result's record has it.
func (l Level) String() string {
	if l > AVX512FP16 {
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
	return [...]string{"portable", "avx2", "avx512", "avx512-fp16"}[l]
}

// Best is the fastest level of this machine, which everything here uses.
func Best() Level { return best }
