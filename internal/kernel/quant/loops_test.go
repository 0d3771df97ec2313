package quant

import (
	"bytes"
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"

	"pgregory.net/rapid"
)

// inPlainGo calls a function without the assembly loops.
func inPlainGo(f func()) {
	was := fast
	fast = false
	defer func() { fast = was }()
	f()
}

// anything returns elements with arbitrary bit patterns, in groups that are ordinary, tiny or contain NaN and infinity.
func anything(t *rapid.T, d dtype.DType, n int) []byte {
	values := make([]float64, n)
	for from := 0; from < n; from += Group {
		exponent := rapid.SampledFrom([]int{0, 0, 10, -20, -120, -133, 120}).Draw(t, "exponent")
		for i := from; i < min(from+Group, n); i++ {
			values[i] = math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "value"), exponent)
		}
		switch rapid.IntRange(0, 7).Draw(t, "special") {
		case 0:
			values[from] = math.NaN()
		case 1:
			values[min(from+Group, n)-1] = math.Inf(-1)
		case 2:
			clear(values[from:min(from+Group, n)])
		}
	}
	return store(d, values)
}

// The assembly loops give the same bytes and elements as the portable loops, for every length and address, and write
// nothing beyond them.
func TestAssemblyIsPlainGo(t *testing.T) {
	if !fast {
		t.Log("this processor has none: there is nothing to compare")
	}
	rapid.Check(t, func(t *rapid.T) {
		c, d := rapid.SampledFrom(codecs).Draw(t, "codec"), rapid.SampledFrom(dtypes).Draw(t, "type")
		r := rapid.SampledFrom(dtype.Reductions()).Draw(t, "reduction")
		n, sources := rapid.IntRange(1, 2*batch*Group+1).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "sources")
		skew := rapid.IntRange(0, 3).Draw(t, "skew")
		var coded [][]byte
		for range sources {
			src := append(make([]byte, skew), anything(t, d, n)...)[skew:]
			got, want := guarded(c.Size(d, n)), guarded(c.Size(d, n))
			c.Encode(got[:len(got)-1], src, d)
			inPlainGo(func() { c.Encode(want[:len(want)-1], src, d) })
			if !bytes.Equal(got, want) {
				t.Fatalf("%s of %d %v: encodings differ", c.Name(), n, d)
			}
			coded = append(coded, got[:len(got)-1])
		}
		got, want := guarded(n*d.Size()), guarded(n*d.Size())
		c.DecodeReduce(got[:len(got)-1], coded, d, r)
		inPlainGo(func() { c.DecodeReduce(want[:len(want)-1], coded, d, r) })
		for i := range n {
			if g, w := get(got, d, i), get(want, d, i); math.Float64bits(g) != math.Float64bits(w) && !(g != g && w != w) {
				t.Fatalf("%v of %d times %d %v with %s: element %d is %v, want %v", r, sources, n, d, c.Name(), i, g, w)
			}
		}
		if got[len(got)-1] != guardByte {
			t.Fatal("a byte behind the output was written")
		}
	})
}

const guardByte = 0xa5

func guarded(n int) []byte { return append(make([]byte, n), guardByte) }

// Packed integers have the documented layout: consecutive, from the lowest bit on. Unpacking restores them.
func TestPacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(codecs).Draw(t, "codec")
		var integers, back [Group]byte
		want := make([]byte, Group*c.bits/8)
		for i := range integers {
			q := rapid.IntRange(-c.Max(), c.Max()).Draw(t, "integer")
			integers[i] = byte(q)
			if c.bits < 8 {
				q += 1 << (c.bits - 1)
			}
			for bit := range c.bits {
				at := i*c.bits + bit
				want[at/8] |= byte(q>>bit&1) << (at % 8)
			}
		}
		got := make([]byte, len(want))
		c.pack(got, integers[:])
		c.unpack(back[:], got)
		if !bytes.Equal(got, want) || back != integers {
			t.Fatalf("%s of %v: %x, want %x; back it is %v", c.Name(), integers, got, want, back)
		}
	})
}
