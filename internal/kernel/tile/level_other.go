//go:build !amd64

package tile

import "unsafe"

// Kernels lists all kernels.
func Kernels() []*Kernel { return []*Kernel{&portableF64, &portableF32} }

// Best returns the fastest level.
func Best() Level { return Portable }

// Levels lists the levels of this machine, from slow to fast.
func Levels() []Level { return []Level{Portable} }

// There is no assembly for moving elements here, so these do nothing and leave all work to the portable code.

func transposeFast(unsafe.Pointer, int, unsafe.Pointer, int, int, int, int) (lines, cols int) {
	return 0, 0
}
func copyFast(unsafe.Pointer, int, unsafe.Pointer, int, int, int) int { return 0 }
func interleaveFast(unsafe.Pointer, []byte, []byte) int               { return 0 }

// No kernel of these processors has strips, so nothing calls these functions.

func interleavePanels(*Gather)                                       { panic("tile: no strips") }
func copyStrip(_, _ unsafe.Pointer, _, _, _ int)                     { panic("tile: no strips") }
func copyOut(unsafe.Pointer, int, unsafe.Pointer, int, uint32, bool) { panic("tile: no strips") }
func scaleOut(_ unsafe.Pointer, _ int, _ unsafe.Pointer, _ int, _ uint32, _, _ unsafe.Pointer) {
	panic("tile: no strips")
}
func expandRows(_, _ unsafe.Pointer, _, _, _, _ int) { panic("tile: no strips") }
func mergeRows(unsafe.Pointer, int, unsafe.Pointer, int, int, int) (nan bool) {
	panic("tile: no strips")
}
