package tile

import "unsafe"

// The functions in this file move elements between layouts. fast means that the processor has AVX2. Otherwise portable
// code does everything. The tests compare the fast parts with it.

// Transpose sets unit r of line c of dst to unit c of line r of src. Lines of src have cols units of 4 or 8 bytes.
// Strides are in bytes.
func Transpose(fast bool, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, cols, unit int) {
	doneLines, doneCols := 0, 0
	if fast {
		doneLines, doneCols = transposeFast(dst, dstStride, src, srcStride, lines, cols, unit)
	}
	// The rest: the remaining columns of the lines that are done, then the remaining lines.
	transposeSlow(dst, dstStride, src, srcStride, 0, doneLines, doneCols, cols, unit)
	transposeSlow(dst, dstStride, src, srcStride, doneLines, lines, 0, cols, unit)
}

func transposeSlow(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, fromLine, toLine, fromCol, toCol,
	unit int) {
	for r := fromLine; r < toLine; r++ {
		for c := fromCol; c < toCol; c++ {
			to, from := unsafe.Add(dst, c*dstStride+r*unit), unsafe.Add(src, r*srcStride+c*unit)
			if unit == 4 {
				*(*uint32)(to) = *(*uint32)(from)
			} else {
				*(*uint64)(to) = *(*uint64)(from)
			}
		}
	}
}

// fetchAhead is the prefetch distance of copies in bytes: enough to cover the memory latency at the speed of copying.
const fetchAhead = 2 << 10

// CopyLines copies lines of size bytes. Strides are in bytes.
func CopyLines(fast bool, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, size int) {
	done := 0
	if fast {
		done = copyFast(dst, dstStride, src, srcStride, lines, size)
	}
	for r := range lines {
		if done == size {
			break
		}
		to, from := unsafe.Add(dst, r*dstStride), unsafe.Add(src, r*srcStride)
		copy(unsafe.Slice((*byte)(to), size)[done:], unsafe.Slice((*byte)(from), size)[done:])
	}
}

// Interleave writes the 16-bit elements of two lines alternately.
func Interleave(fast bool, dst unsafe.Pointer, even, odd []byte) {
	first := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(even))), len(even)/2)
	second := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(odd))), len(first))
	both := unsafe.Slice((*uint16)(dst), 2*len(first))
	done := 0
	if fast {
		done = interleaveFast(dst, even, odd)
	}
	for i := done; i < len(first); i++ {
		both[2*i], both[2*i+1] = first[i], second[i]
	}
}
