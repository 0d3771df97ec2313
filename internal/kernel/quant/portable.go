package quant

import (
	"math"
)

// The portable loops over a batch. They define the results. The assembly loops give the same bits, except for the
// payloads of NaNs. Conversions to float32 around products prevent the compiler from fusing them with a sum, which
// would round once instead of twice.

// absMaxPortable finds the largest magnitude of each group, as the bits of a float32.
func absMaxPortable(absMaxes []uint32, values []float32) {
	for g := range absMaxes {
		absMax := uint32(0)
		for _, v := range (*[Group]float32)(values[g*Group:]) {
			absMax = max(absMax, math.Float32bits(v)&^(1<<31))
		}
		absMaxes[g] = absMax
	}
}

// quantisePortable multiplies each group with its factor and rounds to nearest, ties to even. Near 1.5 x 2^23 the
// distance between two float32 is 1, so adding that number rounds, and the lowest byte of the sum is the integer. A
// factor of 0 gives 0 for any value.
func quantisePortable(integers []byte, values, factors []float32) {
	const shift = 3 << 22
	for g, factor := range factors {
		to, from := (*[Group]byte)(integers[g*Group:]), (*[Group]float32)(values[g*Group:])
		if factor == 0 {
			clear(to[:])
			continue
		}
		for i, v := range from {
			to[i] = byte(math.Float32bits(float32(v*factor) + shift))
		}
	}
}

// multiplyPortable sets the values to the integers times the scales of their groups.
func multiplyPortable(values []float32, integers []byte, scales []float32) {
	for g, scale := range scales {
		to, from := (*[Group]float32)(values[g*Group:]), (*[Group]byte)(integers[g*Group:])
		for i, q := range from {
			to[i] = float32(int8(q)) * scale
		}
	}
}

// accumulatePortable adds the integers times the scales of their groups.
func accumulatePortable(sum []float32, integers []byte, scales []float32) {
	for g, scale := range scales {
		to, from := (*[Group]float32)(sum[g*Group:]), (*[Group]byte)(integers[g*Group:])
		for i, q := range from {
			to[i] += float32(float32(int8(q)) * scale)
		}
	}
}
