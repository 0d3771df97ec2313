package quant

import "encoding/binary"

// Integers of 6 and 4 bits are made positive by flipping their sign bit, and stored consecutively from the lowest bit
// on: four in three bytes, or two in one. The loops below hold eight of them in a word, one per byte, and move halves,
// quarters and eighths of the word together.

// Words that repeat one byte eight times.
const (
	low6, low4   = 0x3f3f3f3f3f3f3f3f, 0x0f0f0f0f0f0f0f0f
	sign6, sign4 = 0x2020202020202020, 0x0808080808080808
)

// pack writes the integers of a group.
func (c Codec) pack(dst, integers []byte) {
	switch c.bits {
	case 8:
		*(*[Group]byte)(dst) = *(*[Group]byte)(integers)
	case 6:
		for i := 0; i < Group; i += 8 {
			x := binary.LittleEndian.Uint64(integers[i:])&low6 ^ sign6
			x = x&0x003f003f003f003f | x&0x3f003f003f003f00>>2
			x = x&0x00000fff00000fff | x&0x0fff00000fff0000>>4
			x = x&0xffffff | x>>32<<24
			to := dst[i/8*6:][:6]
			binary.LittleEndian.PutUint32(to, uint32(x))
			binary.LittleEndian.PutUint16(to[4:], uint16(x>>32))
		}
	case 4:
		for i := 0; i < Group; i += 8 {
			x := binary.LittleEndian.Uint64(integers[i:])&low4 ^ sign4
			x = x&0x000f000f000f000f | x&0x0f000f000f000f00>>4
			x = x&0x000000ff000000ff | x&0x00ff000000ff0000>>8
			binary.LittleEndian.PutUint32(dst[i/2:], uint32(x&0xffff|x>>32<<16))
		}
	}
}

// unpack reverses pack and extends the sign bit to a whole byte.
func (c Codec) unpack(integers, src []byte) {
	switch c.bits {
	case 8:
		*(*[Group]byte)(integers) = *(*[Group]byte)(src)
	case 6:
		for i := 0; i < Group; i += 8 {
			from := src[i/8*6:][:6]
			x := uint64(binary.LittleEndian.Uint32(from)) | uint64(binary.LittleEndian.Uint16(from[4:]))<<32
			x = x&0xffffff | x>>24<<32
			x = x&0x00000fff00000fff | x&0x00fff00000fff000<<4
			x = x&0x003f003f003f003f | x&0x0fc00fc00fc00fc0<<2
			x ^= sign6
			binary.LittleEndian.PutUint64(integers[i:], x|x&sign6*6) // 32*6 sets bits 6 and 7
		}
	case 4:
		for i := 0; i < Group; i += 8 {
			x := uint64(binary.LittleEndian.Uint32(src[i/2:]))
			x = x&0xffff | x>>16<<32
			x = x&0x000000ff000000ff | x&0x0000ff000000ff00<<8
			x = x&0x000f000f000f000f | x&0x00f000f000f000f0<<4
			x ^= sign4
			binary.LittleEndian.PutUint64(integers[i:], x|x&sign4*30) // 8*30 sets bits 4 to 7
		}
	}
}
