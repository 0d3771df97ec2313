package gemm

import (
	"fmt"
	"slices"
	"strings"
)

// The widths of instructions that OpenBLAS has kernels for, and the core types
// to ask for by the variable OPENBLAS_CORETYPE.
type simd int

const (
	narrow simd = iota // SSE
	avx
	avx2
	avx512
)

// coreTypes are the library's names of x86 cores, by what their kernels use.
var coreTypes = map[simd][]string{
	narrow: {"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Atom", "Core2", "Penryn", "Dunnington", "Nehalem",
		"Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"},
	avx:    {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller", "Excavator"},
	avx2:   {"Haswell", "Zen"},
	avx512: {"SkylakeX", "Cooperlake", "SapphireRapids"},
}

func simdOf(l Level) simd {
	switch {
	case l >= AVX512:
		return avx512
	case l == AVX2:
		return avx2
	}
	return narrow
}

// coreWarning says that the library took the processor for an older one, as it
// does on virtual machines whose model it does not know; empty when it did not,
// or when the core type is none we know.
func coreWarning(core string, have simd) string {
	for _, width := range []simd{narrow, avx, avx2, avx512} {
		known := slices.ContainsFunc(coreTypes[width], func(name string) bool { return strings.EqualFold(name, core) })
		if known && width < have {
			return fmt.Sprintf("OpenBLAS takes this processor for %s and uses a fraction of it: set OPENBLAS_CORETYPE=%s before it is loaded", core, coreTypes[have][0])
		}
	}
	return ""
}
