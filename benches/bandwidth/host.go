package bandwidth

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
)

// minPart is the smallest part of an array that is worth a core.
const minPart = 64 << 10

// wordBytes is the size of an element of the arrays.
const wordBytes = 8

// hostArrays are the arrays of a loop and the parts of the cores.
type hostArrays struct {
	a, b, c []float64
	parts   [][2]int
	sums    []uint64
	updates uint64 // calls since c was spoilt
}

// onHost prepares an operation on this host's memory, on all cores.
func onHost(s *bench.State) (*work, error) {
	op, size := s.Str("op"), s.Value("size").Int()
	if op == chase {
		return chaseOnHost(size, s.Seed()), nil
	}
	cores := max(1, min(runtime.GOMAXPROCS(0), int(size/minPart)))
	s.Detail("cores", fmt.Sprint(cores))
	return loopOnHost(op, size, cores, s.Seed()), nil
}

// loopOnHost prepares a loop over arrays of size bytes.
func loopOnHost(op string, size int64, cores int, seed uint64) *work {
	words := int(size / wordBytes)
	arrayOf := func(ops ...string) []float64 {
		if !slices.Contains(ops, op) {
			return nil
		}
		return make([]float64, words)
	}
	h := &hostArrays{a: arrayOf(read, copyLoop, scale, add, triad), b: arrayOf(add, triad),
		c: arrayOf(write, copyLoop, scale, add, triad, update), sums: make([]uint64, cores)}
	size = int64(words) * wordBytes
	for i := range cores {
		h.parts = append(h.parts, [2]int{words * i / cores, words * (i + 1) / cores})
	}
	a, b := block(size, seed), block(size, seed+1)
	want, total := expected(op, a, b), sumOf(a, size)
	h.each(func(_, from, to int) {
		repeat(h.a, a, from, to)
		repeat(h.b, b, from, to)
		repeat(h.c, spoiltBlock, from, to)
	})
	loop := h.loop(op)
	call := func() error {
		h.updates++
		h.each(loop)
		return nil
	}
	check := func() error {
		switch op {
		case read:
			return checkSum(h.sums, total)
		case update:
			for i := 0; i < len(want); i += wordBytes { // from -1, the value of a spoilt word
				binary.LittleEndian.PutUint64(want[i:], h.updates-1)
			}
			h.updates = 0
		}
		if err := compareAll(asBytes(h.c), want); err != nil {
			return err
		}
		h.each(func(_, from, to int) { repeat(h.c, spoiltBlock, from, to) })
		return nil
	}
	return &work{call: call, check: check, bytes: size * arraysOf(op), close: func() {}}
}

// arraysOf returns how many arrays a loop reads and writes. An array that it reads and writes counts twice.
func arraysOf(op string) int64 {
	switch op {
	case read, write:
		return 1
	case add, triad:
		return 3
	}
	return 2
}

func asBytes(f []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), wordBytes*len(f))
}

// repeat fills the elements [from, until) of an array, if the loop has the array, with a repeated pattern.
func repeat(to []float64, contents []byte, from, until int) {
	raw := asBytes(to[min(from, len(to)):min(until, len(to))])
	for at := wordBytes * from; len(raw) > 0; {
		n := copy(raw, contents[at%len(contents):])
		raw, at = raw[n:], at+n
	}
}

// each calls f for every part, each on a thread of its own.
func (h *hostArrays) each(f func(part, from, to int)) {
	if len(h.parts) == 1 {
		f(0, h.parts[0][0], h.parts[0][1])
		return
	}
	var all sync.WaitGroup
	for i, p := range h.parts {
		all.Go(func() { f(i, p[0], p[1]) })
	}
	all.Wait()
}

// loop returns the loop over a part of the arrays. It is made once, because a call may take less than 0.1 µs.
func (h *hostArrays) loop(op string) func(part, from, to int) {
	switch op {
	case read:
		return func(part, from, to int) { h.sums[part] = sum(asWords(h.a[from:to])) }
	case write:
		return func(_, from, to int) {
			c := h.c[from:to]
			for i := range c {
				c[i] = scalar
			}
		}
	case copyLoop:
		return func(_, from, to int) { copy(h.c[from:to], h.a[from:to]) }
	case scale:
		return func(_, from, to int) {
			c := h.c[from:to]
			for i, v := range h.a[from:to] {
				c[i] = scalar * v
			}
		}
	case add:
		return func(_, from, to int) {
			b, c := h.b[from:to], h.c[from:to]
			for i, v := range h.a[from:to] {
				c[i] = v + b[i]
			}
		}
	case triad:
		return func(_, from, to int) {
			b, c := h.b[from:to], h.c[from:to]
			for i, v := range h.a[from:to] {
				c[i] = v + float64(scalar*b[i]) // two roundings, as on a GPU
			}
		}
	}
	return func(_, from, to int) { increment(asWords(h.c[from:to])) } // update
}

func asWords(f []float64) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}

// sum adds all words. Four accumulators let the additions overlap.
func sum(a []uint64) uint64 {
	var s0, s1, s2, s3 uint64
	for ; len(a) >= 8; a = a[8:] {
		s0 += a[0] + a[4]
		s1 += a[1] + a[5]
		s2 += a[2] + a[6]
		s3 += a[3] + a[7]
	}
	for _, v := range a {
		s0 += v
	}
	return s0 + s1 + s2 + s3
}

// increment adds one to every word. Eight words per iteration hide the cost of the loop counter.
func increment(a []uint64) {
	for ; len(a) >= 8; a = a[8:] {
		a[0]++
		a[1]++
		a[2]++
		a[3]++
		a[4]++
		a[5]++
		a[6]++
		a[7]++
	}
	for i := range a {
		a[i]++
	}
}

// checkSum compares the sum of all parts and clears them.
func checkSum(parts []uint64, want uint64) error {
	var got uint64
	for _, v := range parts {
		got += v
	}
	clear(parts)
	if got != want {
		return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("the sum is %d, want %d", got, want)}
	}
	return nil
}

func chaseOnHost(size int64, seed uint64) *work {
	c, lines := newChain(size, seed)
	got := make([]uint64, 1)
	return &work{hops: c.hops, close: func() {},
		call: func() error {
			line := uint64(0)
			for range c.hops {
				line = binary.LittleEndian.Uint64(lines[line*lineBytes:])
			}
			got[0] = line
			if c.count(); c.long {
				link(lines, 0, int(line))
			}
			return nil
		},
		check: func() error { return checkSum(got, uint64(c.last)) }}
}
