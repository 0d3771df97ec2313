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
func (s Suite) matrix(size int, op dist.Collective) error {
	return s.together(size, needs{ops: ops(op)}, func(g *dist.Group) error {
		caps := g.Capabilities()
		reductions := []dist.Reduction{dist.Sum}
		if op.Reduces() {
			reductions = caps.Reductions
		}
		space, err := newSpace(g, 2*65537+2*size)
		if err != nil {
			return err
		}
		for i, d := range caps.DTypes {
			for k, r := range reductions {
				// Not everything with everything: the long vectors, and the large
				// groups, get a third of the combinations.
				third := (i+k)%3 == 0
				for _, count := range s.counts(size) {
					if op == dist.Barrier && count > 0 || !third && (s.Short || size > 3 || count > 1000) {
						continue
					}
					if err := s.cell(g, space, op, d, r, count); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// space is memory for inputs and outputs, one of each kind, and what outputs
// are filled with beforehand.
type space struct {
	in, out [2]dist.Buffer // private, symmetric
	fill    []byte
}

// filler is no small number in any type.
const filler = 0xa5

func newSpace(g *dist.Group, elements int) (space, error) {
	const widest = 8
	s := space{in: [2]dist.Buffer{dist.Of(make([]uint8, elements*widest))}, out: [2]dist.Buffer{dist.Of(make([]uint8, elements*widest))},
		fill: bytes.Repeat([]byte{filler}, elements*widest)}
	if !g.Capabilities().Symmetric {
		return s, nil
	}
	var err error
	if s.in[1], err = g.Alloc(dist.U8, elements*widest); err == nil {
		s.out[1], err = g.Alloc(dist.U8, elements*widest)
	}
	return s, err
}

// as views the start of bytes as elements.
func as(b dist.Buffer, d dist.DType, count int) dist.Buffer {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, b.Memory())
	}
	if m, far := b.Memory().(dist.DeviceMemory); far {
		return dist.NewDeviceBuffer(d, count, m)
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&b.Bytes()[0]), b.Memory())
}

// put and get copy bytes into a buffer and out of it, wherever its memory is.
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

// expectation is one operation's input and right output on one rank.
type expectation struct {
	in, out []byte
	inPlace bool // there is an in-place form
	shift   int  // elements from the start of the longer buffer to the shorter
}

// runs is how often each prepared call is run, every time with other inputs and an
// output that was spoilt before: what goes wrong in every second run shows.
const runs = 4

// expectations are those of the runs of one call: the inputs of each begin one element
// later, so all of them are parts of the same vectors, which are made once.
func expectations(op dist.Collective, d dist.DType, r dist.Reduction, size, rank, root, count int) (list [runs]expectation) {
	data, width := inputs(d, r, size), d.Size()
	mine := make([]func() []byte, size) // each rank's input
	for k := range mine {
		mine[k] = sync.OnceValue(func() []byte {
			return vector(d, count+runs, func(i int) float64 { return float64(data.Value(k, i)) })
		})
	}
	sum := sync.OnceValue(func() []byte {
		return vector(d, count+runs, func(i int) float64 { return result(d, r, size, i) })
	})
	for run := range list {
		part := func(of func() []byte, off, n int) []byte { return of()[(run+off)*width:][:n*width] }
		list[run] = expect(op, size, rank, root, count, mine, sum, part)
	}
	return list
}

// expect is the expectation of one run, made of parts of the ranks' inputs and of their
// reduction.
func expect(op dist.Collective, size, rank, root, count int, mine []func() []byte, sum func() []byte,
	part func(of func() []byte, off, n int) []byte) expectation {
	off, n := dist.Block(count, size, rank)
	// owned is the vector whose block k comes from rank k.
	owned := func() (v []byte) {
		for k := range size {
			o, n := dist.Block(count, size, k)
			v = append(v, part(mine[k], o, n)...)
		}
		return v
	}
	atRoot := func(b []byte) []byte {
		if rank == root {
			return b
		}
		return nil
	}
	whole := part(mine[rank], 0, count)
	switch op {
	case dist.AllReduce:
		return expectation{in: whole, out: part(sum, 0, count), inPlace: true}
	case dist.ReduceScatter:
		return expectation{in: whole, out: part(sum, off, n), inPlace: true, shift: off}
	case dist.AllGather:
		return expectation{in: part(mine[rank], off, n), out: owned(), inPlace: true, shift: off}
	case dist.Broadcast:
		return expectation{in: atRoot(whole), out: part(mine[root], 0, count), inPlace: true}
	case dist.Reduce:
		return expectation{in: whole, out: atRoot(part(sum, 0, count)), inPlace: true}
	case dist.Gather:
		return expectation{in: part(mine[rank], off, n), out: atRoot(owned()), inPlace: true, shift: off}
	case dist.Scatter:
		return expectation{in: atRoot(whole), out: part(mine[root], off, n), inPlace: true, shift: off}
	case dist.AllToAll:
		e := expectation{in: whole}
		for k := range size {
			e.out = append(e.out, part(mine[k], off, n)...)
		}
		return e
	}
	return expectation{} // a barrier
}

// cell checks one operation, type, reduction and count.
func (s Suite) cell(g *dist.Group, space space, op dist.Collective, d dist.DType, r dist.Reduction, count int) error {
	roots := []int{0}
	if op.Rooted() && g.Size() > 1 {
		roots = []int{0, g.Size() - 1}
	}
	chunks := []int{0}
	if count >= 1000 && !s.Short && (op == dist.AllReduce || op == dist.Broadcast) {
		chunks = []int{0, count/3 + 1}
	}
	algorithms := append([]string{"auto"}, g.Capabilities().Algorithms[op]...)
	for i, a := range g.Capabilities().Algorithms[op] {
		if g.Capabilities().Steps && (!s.Short || (count+i)%2 == 0) {
			algorithms = append(algorithms, dist.StepsPrefix+a)
		}
	}
	for _, root := range roots {
		list := expectations(op, d, r, g.Size(), g.Rank(), root, count)
		for _, algorithm := range algorithms {
			for _, chunk := range chunks {
				for kind := range space.in {
					if kind == 1 && !g.Capabilities().Symmetric {
						continue
					}
					for _, inPlace := range []bool{false, true} {
						if inPlace && !list[0].inPlace {
							continue
						}
						c := dist.Call{Op: op, Reduction: r, Root: root, Count: count, Algorithm: algorithm, Chunk: chunk}
						if err := runAll(list, g, c, d, space.in[kind], space.out[kind], space.fill, inPlace); err != nil {
							return fmt.Errorf("%s %s of %d %v %v, root %d, chunk %d, %s memory, in place %v: %w", algorithm, op, count, d, r, root, chunk,
								[]string{"private", "symmetric"}[kind], inPlace, err)
						}
					}
				}
			}
		}
	}
	return nil
}

// runAll prepares the call and makes all its runs.
func runAll(list [runs]expectation, g *dist.Group, c dist.Call, d dist.DType, in, out dist.Buffer, fill []byte, inPlace bool) error {
	c.In, c.Out = list[0].buffers(d, in, out, inPlace)
	op, err := g.Prepare(c)
	if err != nil {
		return err
	}
	for i, e := range list {
		if err := e.run(op, c, d, out, fill, inPlace); err != nil {
			return fmt.Errorf("run %d of one preparation: %w", i+1, err)
		}
	}
	return nil
}

// buffers are those of the call.
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

// run makes one run and compares what it left.
func (e expectation) run(op *dist.Op, c dist.Call, d dist.DType, out dist.Buffer, fill []byte, inPlace bool) error {
	width := d.Size()
	guarded := as(out, dist.U8, len(e.in)+len(e.out)+width)
	if err := errors.Join(put(guarded, fill[:guarded.Count()]), put(c.In, e.in)); err != nil { // what is not written stays wrong
		return err
	}
	if err := op.Run(); err != nil {
		return err
	}
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
	guard, err := get(guarded)
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
