package cuda

import "unsafe"

// TensorMap tells the bulk tensor copies of a kernel where a matrix lies, in the driver's
// own format. It is part of the kernel's argument.
type TensorMap [16]uint64

// What TensorMapBF16 asks for, as the driver numbers it.
const (
	mapBF16       = 9
	mapDimensions = 2
	swizzle128    = 3
	promote256    = 3 // of what the cache fetches
)

// TensorMapBF16 describes bf16 elements that lie row by row, stride elements apart, and the
// box of rows and columns that one copy fetches into shared memory, with its rows of 128
// bytes swizzled. What lies outside reads as zero.
func (c *Context) TensorMapBF16(at Pointer, rows, cols, stride, boxRows, boxCols int) (TensorMap, error) {
	m := new(TensorMap) // the driver wants it aligned to 64 bytes, as Go allocates what has 128
	size, strides := []uint64{uint64(cols), uint64(rows)}, []uint64{uint64(2 * stride)}
	box, steps := []uint32{uint32(boxCols), uint32(boxRows)}, []uint32{1, 1}
	err := c.driver.check("cuTensorMapEncodeTiled",
		c.driver.f.tensorMapEncode.Call(uintptr(unsafe.Pointer(m)), mapBF16, mapDimensions, uintptr(at),
			uintptr(unsafe.Pointer(&size[0])), uintptr(unsafe.Pointer(&strides[0])), uintptr(unsafe.Pointer(&box[0])),
			uintptr(unsafe.Pointer(&steps[0])),
			0, swizzle128, promote256, 0))
	return *m, err
}
