//go:build !amd64

package quant

var fast = false // this architecture has no assembly loops

func most(mosts []uint32, values []float32) { mostPortable(mosts, values) }
func quantise(integers []byte, values, factors []float32) {
	quantisePortable(integers, values, factors)
}
func multiply(values []float32, integers []byte, s []float32) { multiplyPortable(values, integers, s) }
func accumulate(values []float32, integers []byte, s []float32) {
	accumulatePortable(values, integers, s)
}
