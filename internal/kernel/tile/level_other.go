//go:build !amd64

package tile

import "unsafe"

// Kernels lists all there are.
func Kernels() []*Kernel { return []*Kernel{&portableF64, &portableF32} }

// Best is the fastest level.
func Best() Level { return Portable }

// Levels lists what this machine has, from slow to fast.
func Levels() []Level { return []Level{Portable} }

// The fast parts of moving elements: nothing is done, all is left.

func transposeFast(unsafe.Pointer, int, unsafe.Pointer, int, int, int, int) (lines, cols int) {
	return 0, 0
}
func copyFast(unsafe.Pointer, int, unsafe.Pointer, int, int, int) int { return 0 }
func interleaveFast(unsafe.Pointer, []byte, []byte) int               { return 0 }
