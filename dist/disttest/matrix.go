package disttest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
)

// matrix checks an operation over element types, reductions, algorithms,
// counts, chunks, roots, in and out of place, symmetric and private memory.
func (s Suite) matrix(size int, op dist.Collective, shared *vectors) error {
	return s.together(size, needs{ops: ops(op)}, func(g *dist.Group) error {
		space, err := newSpace(g, 2*65537+2*size)
		if err != nil {
			return err
		}
		for _, c := range s.cells(g.Capabilities(), op, size) {
			if err := runAll(shared.expectations(g, op, c), g, op, c, space); err != nil {
				return fmt.Errorf("%s of %v: %w", op, c, err)
			}
		}
		return nil
	})
}

// space has memory for inputs and outputs, one of each kind, and the bytes that outputs are filled with beforehand.
type space struct {
	in, out [2]dist.Buffer // private, symmetric
	fill    []byte
}

// kindOf returns the index of a kind of memory in a space.
func kindOf(symmetric bool) int {
	if symmetric {
		return 1
	}
	return 0
}

// filler is a byte that gives no small number in any element type, so that unwritten elements are
// noticed.
const filler = 0xa5

func newSpace(g *dist.Group, elements int) (space, error) {
	const widest = 8
	s := space{in: [2]dist.Buffer{dist.Of(make([]uint8, elements*widest))},
		out:  [2]dist.Buffer{dist.Of(make([]uint8, elements*widest))},
		fill: bytes.Repeat([]byte{filler}, elements*widest)}
	if !g.Capabilities().Has(dist.SymmetricMemory) {
		return s, nil
	}
	var err error
	if s.in[1], err = g.Alloc(dist.U8, elements*widest); err == nil {
		s.out[1], err = g.Alloc(dist.U8, elements*widest)
	}
	return s, err
}

// as returns the start of a buffer as elements of another type.
func as(b dist.Buffer, d dist.DType, count int) dist.Buffer {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, b.Memory())
	}
	if m, far := b.Memory().(dist.DeviceMemory); far {
		return dist.NewBuffer(d, count, nil, m)
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&b.Bytes()[0]), b.Memory())
}

// put and get copy bytes into a buffer and out of it, even if the host cannot reach its memory.
func put(b dist.Buffer, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	m, err := b.Mirror()
	if err != nil {
		return err
	}
	copy(m.Bytes(), from)
	return b.Update(m)
}

func get(b dist.Buffer) ([]byte, error) {
	m, err := b.Mirror()
	return m.Bytes(), err
}

// expectation is the input and the right output of one operation on one rank.
type expectation struct {
	in, out []byte
	shift   int // elements from the start of the longer buffer to the shorter
}

// runs is the number of runs of each prepared call. Inputs differ and the output is overwritten before
// every run, so that an error in every second run is noticed.
const runs = 4

// vectors caches inputs and results, because computing them takes longer than the calls. The ranks of
// this process and all operations in groups of one size share it.
type vectors struct {
	mu   sync.Mutex
	size int
	made map[vectorOf][]byte
}

// vectorOf identifies a vector: the input of a rank, or, for rank reduced, the result.
type vectorOf struct {
	dtype      dist.DType
	reduction  dist.Reduction
	size, rank int
}

const reduced = -1

// first returns the first elements of a vector.
func (v *vectors) first(count int, of vectorOf) []byte {
	switch { // the inputs of some reductions are the same
	case of.rank == reduced:
	case of.reduction == dist.Avg:
		of.reduction = dist.Sum
	case of.reduction == dist.Min:
		of.reduction = dist.Max
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if width := of.dtype.Size(); len(v.made[of]) < count*width {
		data := inputs(of.dtype, of.reduction, of.size)
		if v.size != of.size {
			v.size, v.made = of.size, map[vectorOf][]byte{}
		}
		b := make([]byte, count*width)
		if of.rank == reduced {
			data.EncodeReduced(b, 0)
		} else {
			data.Encode(b, of.rank, 0)
		}
		v.made[of] = b
	}
	return v.made[of]
}

// expectations returns the expectations of the runs of one call. The inputs of each run begin one element later, so all
// of them are parts of the same vectors.
func (v *vectors) expectations(g *dist.Group, op dist.Collective, c cell) (list [runs]expectation) {
	width := c.dtype.Size()
	for run := range list {
		part := func(rank, off, n int) []byte {
			all := v.first(c.count+runs, vectorOf{c.dtype, c.reduction, g.Size(), rank})
			return all[(run+off)*width:][:n*width]
		}
		list[run] = c.expect(op, g.Size(), g.Rank(), part)
	}
	return list
}

// expect returns the expectation of one run, from parts of the ranks' inputs and of their reduction.
func (c cell) expect(op dist.Collective, size, rank int, part func(rank, off, n int) []byte) (e expectation) {
	root, count := c.root, c.count
	if op == dist.AllToAll {
		for k := range size {
			off, n := c.pair(rank, k, size)
			e.in = append(e.in, part(rank, off, n)...)
			off, n = c.pair(k, rank, size)
			e.out = append(e.out, part(k, off, n)...)
		}
		return e
	}
	off, n := c.block(rank, size)
	// owned is the vector whose block k comes from rank k.
	owned := func() (v []byte) {
		for k := range size {
			o, n := c.block(k, size)
			v = append(v, part(k, o, n)...)
		}
		return v
	}
	atRoot := func(b []byte) []byte {
		if rank == root {
			return b
		}
		return nil
	}
	vector := part(rank, 0, count)
	switch op {
	case dist.AllReduce:
		return expectation{in: vector, out: part(reduced, 0, count)}
	case dist.ReduceScatter:
		return expectation{in: vector, out: part(reduced, off, n), shift: off}
	case dist.AllGather:
		return expectation{in: part(rank, off, n), out: owned(), shift: off}
	case dist.Broadcast:
		return expectation{in: atRoot(vector), out: part(root, 0, count)}
	case dist.Reduce:
		return expectation{in: vector, out: atRoot(part(reduced, 0, count))}
	case dist.Gather:
		return expectation{in: part(rank, off, n), out: atRoot(owned()), shift: off}
	case dist.Scatter:
		return expectation{in: atRoot(vector), out: part(root, off, n), shift: off}
	}
	return e // a barrier
}

// runAll prepares the call and makes all its runs.
func runAll(list [runs]expectation, g *dist.Group, op dist.Collective, c cell, space space) error {
	kind := kindOf(c.symmetric)
	call := dist.Call{Op: op, Reduction: c.reduction, Root: c.root, Count: c.count, Counts: c.lengths,
		Algorithm: c.algorithm, Chunk: c.chunk}
	call.In, call.Out = list[0].buffers(c.dtype, space.in[kind], space.out[kind], c.inPlace)
	prepared, err := g.Prepare(call)
	if err != nil {
		return err
	}
	var wrong error
	for i, e := range list {
		if err := e.run(prepared, call, c.dtype, space.out[kind], space.fill); err != nil {
			return fmt.Errorf("run %d of a prepared call: %w", i+1, err)
		}
		// A wrong output must not keep this rank from the other runs: a library may hang where a rank is missing.
		if err := e.check(call, c.dtype, space.out[kind], c.inPlace); err != nil && wrong == nil {
			wrong = fmt.Errorf("run %d of a prepared call: %w", i+1, err)
		}
	}
	return wrong
}

// buffers returns the buffers of the call.
func (e expectation) buffers(d dist.DType, in, out dist.Buffer, inPlace bool) (from, to dist.Buffer) {
	ins, outs := len(e.in)/d.Size(), len(e.out)/d.Size()
	if !inPlace {
		return as(in, d, ins), as(out, d, outs)
	}
	long := as(out, d, max(ins, outs))
	switch {
	case ins == 0 || outs == 0:
		return long.Slice(0, ins), long.Slice(0, outs)
	case ins < outs:
		return long.Slice(e.shift, ins), long
	case outs < ins:
		return long, long.Slice(e.shift, outs)
	}
	return long, long
}

// run makes one run.
func (e expectation) run(op *dist.Op, c dist.Call, d dist.DType, out dist.Buffer, fill []byte) error {
	guarded := e.guarded(d, out)
	// Fill the output with wrong values first, so that elements that the call does not write are
	// noticed.
	if err := errors.Join(put(guarded, fill[:guarded.Count()]), put(c.In, e.in)); err != nil {
		return err
	}
	return op.Run()
}

// guarded returns the memory that run fills: the output and what follows it.
func (e expectation) guarded(d dist.DType, out dist.Buffer) dist.Buffer {
	return as(out, dist.U8, len(e.in)+len(e.out)+d.Size())
}

// check compares the output of a run.
func (e expectation) check(c dist.Call, d dist.DType, out dist.Buffer, inPlace bool) error {
	width := d.Size()
	got, err := get(c.Out)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, e.out) {
		for i := range len(e.out) / width {
			if a, b := got[i*width:][:width], e.out[i*width:][:width]; !bytes.Equal(a, b) {
				return fmt.Errorf("element %d of %d is %x, want %x", i, len(e.out)/width, a, b)
			}
		}
	}
	if inPlace {
		return nil
	}
	if given, err := get(c.In); err != nil || !bytes.Equal(given, e.in) {
		return errors.Join(errors.New("the input was changed"), err)
	}
	guard, err := get(e.guarded(d, out))
	if err != nil {
		return err
	}
	for i, b := range guard[len(e.out) : len(e.out)+width] {
		if b != filler {
			return fmt.Errorf("byte %d behind the output was changed", i)
		}
	}
	return nil
}
