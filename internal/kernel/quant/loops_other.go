//go:build !amd64

package quant

var fast = false // this architecture has no assembly loops

func absMax(absMaxes []uint32, values []float32) { absMaxPortable(absMaxes, values) }
func quantise(integers []byte, values, factors []float32) {
	quantisePortable(integers, values, factors)
}
func multiply(values []float32, integers []byte, s []float32) { multiplyPortable(values, integers, s) }
func accumulate(values []float32, integers []byte, s []float32) {
	accumulatePortable(values, integers, s)
}
