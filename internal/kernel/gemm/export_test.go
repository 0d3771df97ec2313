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
	job := func(_ *engine, who int) {
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

// TilesOf returns the arithmetic of the best kernel for a type with its operands in the first-level cache: what a
// product could do if packing, the other caches and memory cost nothing. Without tile registers it is PeakOf.
func TilesOf(d dtype.DType) Peak {
	k := tile.For(tile.Best(), d)
	if !k.Strips {
		return PeakOf(d)
	}
	const groups = 8 // 16 KiB of each operand
	var room buffer
	if err := room.grow(hugePage); err != nil {
		panic(err)
	}
	args := tile.Args{A: uintptr(room.at(0)), B: uintptr(room.at(groups * tile.GroupBytes)),
		C: uintptr(room.at(2 * groups * tile.GroupBytes)), K: groups * k.Unit, ARow: tile.RowBytes, AStep: tile.GroupBytes}
	return Peak{Flops: groups * k.PeakFlops, Run: func(n int) {
		args.Tiles = n
		k.Whole(&args)
	}}
}
