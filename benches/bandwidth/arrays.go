package bandwidth

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kernbench/kernbench/bench"
)

// blockBytes is the period of the contents of long arrays. Blocks are compared one at a time.
const blockBytes = 8 << 20

// scalar is the factor of scale and triad.
const scalar = 3

// lineBytes is the size of a line of a chain.
const lineBytes = 128

// block returns the repeated contents of an array of so many bytes: f64 that are whole numbers.
func block(size int64, seed uint64) []byte {
	b := make([]byte, min(size, blockBytes))
	r := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], math.Float64bits(float64(r.IntN(1<<20))))
	}
	return b
}

// expected computes the result of a loop from the contents of its inputs.
func expected(op string, a, b []byte) []byte {
	c := make([]byte, len(a))
	at := func(x []byte, i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(x[i:])) }
	for i := 0; i < len(c); i += 8 {
		v := float64(scalar)
		switch op {
		case scale:
			v = scalar * at(a, i)
		case add:
			v = at(a, i) + at(b, i)
		case triad:
			v = at(a, i) + scalar*at(b, i)
		case write:
		default:
			v = at(a, i)
		}
		binary.LittleEndian.PutUint64(c[i:], math.Float64bits(v))
	}
	return c
}

// sumOf returns the sum of the words of an array of so many bytes with repeated contents.
func sumOf(b []byte, size int64) (sum uint64) {
	part := func(b []byte) (s uint64) {
		for i := 0; i < len(b); i += 8 {
			s += binary.LittleEndian.Uint64(b[i:])
		}
		return s
	}
	return uint64(size/int64(len(b)))*part(b) + part(b[:size%int64(len(b))])
}

// compare returns an error if a part of an array, which begins at byte first, does not have the expected contents.
func compare(got, want []byte, first int64) error {
	if bytes.Equal(got, want[:len(got)]) {
		return nil
	}
	wrong, at := int64(0), 0
	for i := range got {
		if got[i] != want[i] {
			if wrong++; wrong == 1 {
				at = i
			}
		}
	}
	return &bench.Wrong{Count: wrong, Detail: fmt.Sprintf("byte %d is %d, want %d", first+int64(at), got[at], want[at])}
}

// mostHops limits the loads of one call.
const mostHops = 20_000

// chain returns lines that are linked in random order, as a single cycle, and the number of loads of a
// call. last is the line that they lead to from line 0.
func chain(size int64, seed uint64) (lines []byte, hops int, last uint64) {
	n := int(size / lineBytes)
	order := rand.New(rand.NewPCG(seed, 2)).Perm(n)
	lines = make([]byte, size)
	for i, line := range order {
		binary.LittleEndian.PutUint64(lines[line*lineBytes:], uint64(order[(i+1)%n]))
	}
	hops = min(mostHops, max(1000, n))
	for range hops {
		last = binary.LittleEndian.Uint64(lines[last*lineBytes:])
	}
	return lines, hops, last
}
