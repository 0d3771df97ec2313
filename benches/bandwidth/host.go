package bandwidth

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
)

// minPart is the smallest part of an array that is worth a core.
const minPart = 64 << 10

// hostArrays are the arrays of a loop and the parts of the cores.
type hostArrays struct {
	a, b, c []float64
	parts   [][2]int
	sums    []uint64
}

// onHost prepares an operation on this host's memory.
func onHost(s *bench.State) (*work, error) {
	op, size := s.Str("op"), s.Value("size").Int()
	if op == chase {
		return chaseOnHost(size, s.Seed()), nil
	}
	h := &hostArrays{a: make([]float64, size/8), b: make([]float64, size/8), c: make([]float64, size/8)}
	cores := max(1, min(runtime.GOMAXPROCS(0), int(size/minPart)))
	for i := range cores {
		h.parts = append(h.parts, [2]int{len(h.a) * i / cores, len(h.a) * (i + 1) / cores})
	}
	h.sums = make([]uint64, cores)
	s.Detail("cores", fmt.Sprint(cores))
	a, b := block(size, s.Seed()), block(size, s.Seed()+1)
	want, total := expected(op, a, b), sumOf(a, size)
	h.each(func(_, from, to int) {
		repeat(h.a, a, from, to)
		repeat(h.b, b, from, to)
		repeat(h.c, nil, from, to)
	})
	w := &work{call: func() error { h.run(op); return nil }, bytes: size * arraysOf(op), close: func() {}}
	w.check = func() error {
		if op == read {
			return checkSum(h.sums, total)
		}
		raw := asBytes(h.c)
		for first := 0; first < len(raw); first += blockBytes {
			if err := compare(raw[first:min(first+blockBytes, len(raw))], want, int64(first)); err != nil {
				return err
			}
		}
		h.each(func(_, from, to int) { repeat(h.c, nil, from, to) })
		return nil
	}
	return w, nil
}

// arraysOf returns how many arrays a loop reads and writes.
func arraysOf(op string) int64 {
	switch op {
	case read, write:
		return 1
	case add, triad:
		return 3
	}
	return 2
}

func asBytes(f []float64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), 8*len(f)) }

// repeat fills the elements [from, until) of an array with a repeated pattern, or with bytes of
// 0xff if contents is nil.
func repeat(to []float64, contents []byte, from, until int) {
	raw := asBytes(to)[8*from : 8*until]
	if contents == nil {
		for i := range raw {
			raw[i] = 0xff
		}
		return
	}
	for at := 8 * from; len(raw) > 0; {
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

func (h *hostArrays) run(op string) {
	h.each(func(part, from, to int) {
		a, b, c := h.a[from:to], h.b[from:to], h.c[from:to]
		switch op {
		case read:
			h.sums[part] = sum(asWords(a))
		case write:
			for i := range c {
				c[i] = scalar
			}
		case copyLoop:
			copy(c, a)
		case scale:
			for i, v := range a {
				c[i] = scalar * v
			}
		case add:
			for i, v := range a {
				c[i] = v + b[i]
			}
		case triad:
			for i, v := range a {
				c[i] = v + float64(scalar*b[i]) // two roundings, as on a GPU
			}
		}
	})
}

func asWords(f []float64) []uint64 { return unsafe.Slice((*uint64)(unsafe.Pointer(&f[0])), len(f)) }

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
	var got uint64
	return &work{hops: c.hops, close: func() {},
		call: func() error {
			line := uint64(0)
			for range c.hops {
				line = binary.LittleEndian.Uint64(lines[line*lineBytes:])
			}
			got = line
			if c.count(); c.long {
				link(lines, 0, int(line))
			}
			return nil
		},
		check: func() error { return checkLine(&got, uint64(c.last)) }}
}

// checkLine compares the line at the end of a chain and clears it.
func checkLine(got *uint64, want uint64) error {
	line := *got
	*got = ^uint64(0)
	if line != want {
		return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("the chain ends at line %d, want %d", line, want)}
	}
	return nil
}
