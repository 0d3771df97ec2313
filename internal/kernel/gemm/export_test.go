package gemm

import (
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/tile"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Twisted returns the built-in provider restricted to one type, with a kernel that the test has changed.
func Twisted(d dtype.DType, twist func(*tile.Kernel)) Provider { return twisted{Builtin(), d, twist} }

type twisted struct {
	Provider
	d     dtype.DType
	twist func(*tile.Kernel)
}

func (p twisted) Types() []dtype.DType { return []dtype.DType{p.d} }

func (p twisted) Open(threads int) (Engine, error) {
	opened, err := p.Provider.Open(threads)
	if err != nil {
		return nil, err
	}
	e := opened.(*engine)
	kern := *e.kernels[p.d]
	p.twist(&kern)
	e.kernels[p.d] = &kern
	return e, nil
}

// Reader returns a function that reads b with the threads of a built-in engine, as fast as they can: four streams at a
// time are added up in the first-level cache. It returns nil for other engines.
func Reader(x Engine, b Matrix) func() error {
	e, ok := x.(*engine)
	if !ok {
		return nil
	}
	const block, streams = 4 << 10, 4
	n, sums := len(e.members), make([][]byte, len(e.members))
	for i := range sums {
		sums[i] = make([]byte, block)
	}
	kernel := vec.Lookup(dtype.I32, vec.Max)
	job := func(who int) {
		part := b.Data[len(b.Data)/n*who:][:len(b.Data)/n]
		length := len(part) / streams
		var from [streams][]byte
		for at := 0; at+block <= length; at += block {
			for i := range from {
				from[i] = part[i*length+at:][:block]
			}
			kernel.Reduce(sums[who], from[:])
		}
	}
	return func() error {
		e.alone = false
		e.all(job)
		return nil
	}
}

// NewHuge is New with huge pages, if the system grants them. The memory is never freed.
func NewHuge(d dtype.DType, rows, cols int) Matrix {
	var b buffer
	if err := b.grow(rows * cols * d.Size()); err != nil {
		panic(err)
	}
	return Matrix{Type: d, Rows: rows, Cols: cols, RowStep: cols, ColStep: 1, Data: b.room[:rows*cols*d.Size()]}
}
