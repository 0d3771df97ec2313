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

// block returns the pattern that fills an array of size bytes: whole numbers as f64. A longer array repeats it.
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

// sumOf returns the sum of the 64-bit words of an array of size bytes that repeats the pattern b.
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

// compareAll compares an array that repeats a block.
func compareAll(got, want []byte) error {
	for first := 0; first < len(got); first += blockBytes {
		if err := compare(got[first:min(first+blockBytes, len(got))], want, int64(first)); err != nil {
			return err
		}
	}
	return nil
}

// maxHops limits the loads of one call.
const maxHops = 20_000

// chain is lines that are linked in random order. Line 0 leads into a cycle of all others. A long chain has more lines
// than a call loads. Each call then enters it where the last one ended: the same lines would still be in the caches.
type chain struct {
	cycle []int // the lines of the cycle, in its order
	hops  int   // dependent loads of a call
	long  bool
	entry int // index in cycle of the line to which line 0 leads
	last  int // line at the end of the last call
}

// newChain links the lines of an array of size bytes.
func newChain(size int64, seed uint64) (c *chain, lines []byte) {
	n := int(size / lineBytes)
	c = &chain{cycle: rand.New(rand.NewPCG(seed, 2)).Perm(n - 1), hops: min(maxHops, max(1000, n))}
	c.long = n > c.hops
	for i := range c.cycle {
		c.cycle[i]++
	}
	lines = make([]byte, size)
	for i, line := range c.cycle {
		link(lines, line, c.cycle[(i+1)%len(c.cycle)])
	}
	link(lines, 0, c.cycle[0])
	return c, lines
}

// link makes a line lead to another.
func link(lines []byte, line, next int) {
	binary.LittleEndian.PutUint64(lines[line*lineBytes:], uint64(next))
}

// count accounts for a call. The caller then links line 0 of a long chain to the line at its end.
func (c *chain) count() {
	end := (c.entry + c.hops - 1) % len(c.cycle)
	c.last = c.cycle[end]
	if c.long {
		c.entry = end
	}
}
