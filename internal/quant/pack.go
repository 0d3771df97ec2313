package quant

import (
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/dtype"
)

// pack writes a group's integers: 8 bits as they are; 6 and 4 bits shifted to
// be positive, four in three bytes and two in one.
func (c Codec) pack(dst []byte, q *[Group]int8) {
	switch c.bits {
	case 8:
		for i, to := 0, (*[Group]byte)(dst); i < Group; i++ {
			to[i] = byte(q[i])
		}
	case 6:
		for i := 0; i < Group/4; i++ {
			a, b, e, f := uint32(q[4*i]+32), uint32(q[4*i+1]+32), uint32(q[4*i+2]+32), uint32(q[4*i+3]+32)
			word := a | b<<6 | e<<12 | f<<18
			dst[3*i], dst[3*i+1], dst[3*i+2] = byte(word), byte(word>>8), byte(word>>16)
		}
	case 4:
		for i := 0; i < Group/2; i++ {
			dst[i] = byte(q[2*i]+8) | byte(q[2*i+1]+8)<<4
		}
	}
}

func (c Codec) unpack(q *[Group]int8, src []byte) {
	switch c.bits {
	case 8:
		for i, from := 0, (*[Group]byte)(src); i < Group; i++ {
			q[i] = int8(from[i])
		}
	case 6:
		for i := 0; i < Group/4; i++ {
			word := uint32(src[3*i]) | uint32(src[3*i+1])<<8 | uint32(src[3*i+2])<<16
			q[4*i], q[4*i+1] = int8(word&63)-32, int8(word>>6&63)-32
			q[4*i+2], q[4*i+3] = int8(word>>12&63)-32, int8(word>>18&63)-32
		}
	case 4:
		for i := 0; i < Group/2; i++ {
			q[2*i], q[2*i+1] = int8(src[i]&15)-8, int8(src[i]>>4)-8
		}
	}
}

// loaders widen up to a group of elements, zeros behind a short one.
var loaders = map[dist.DType]func(values *[Group]float32, src []byte){
	dist.F32: func(values *[Group]float32, src []byte) {
		clear(values[copy(values[:], view[float32](src)):])
	},
	dist.F16: func(values *[Group]float32, src []byte) {
		clear(values[len(src)/2:])
		for i, h := range view[dtype.Float16](src) {
			values[i] = h.Float32()
		}
	},
	dist.BF16: func(values *[Group]float32, src []byte) {
		clear(values[len(src)/2:])
		for i, h := range view[dtype.BFloat16](src) {
			values[i] = h.Float32()
		}
	},
}

// storers round up to a group of values to the type.
var storers = map[dist.DType]func(dst []byte, values *[Group]float32){
	dist.F32: func(dst []byte, values *[Group]float32) { copy(view[float32](dst), values[:]) },
	dist.F16: func(dst []byte, values *[Group]float32) {
		to := view[dtype.Float16](dst)
		for i, v := range values[:len(to)] {
			to[i] = dtype.Float16From(v)
		}
	},
	dist.BF16: func(dst []byte, values *[Group]float32) {
		to := view[dtype.BFloat16](dst)
		for i, v := range values[:len(to)] {
			to[i] = dtype.BFloat16From(v)
		}
	},
}

// view is bytes as elements; memory of a process group is aligned for them.
func view[E float32 | dtype.Float16 | dtype.BFloat16](b []byte) []E {
	if len(b) == 0 {
		return nil
	}
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(e)))
}
