package tl_test

import (
	"fmt"
	"log"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
)

// A prefix sum: each cube of a row adds its value to the sum of the cubes west of it.
func Example() {
	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
	x, err := system.Zeros(0, 16, 1, accel.PerCube)
	if err != nil {
		log.Fatal(err)
	}
	ones := make([]accel.Float16, 16)
	for i := range ones {
		ones[i] = accel.Float16From(1)
	}
	if err := x.Set(ones); err != nil {
		log.Fatal(err)
	}
	prefix := func(p *tl.PE) {
		shard, _ := x.On(p.ID())
		sum := p.Load(shard.Ptr, 1)
		width := p.Topology().Cubes.W
		if column := p.ProgramID(1) % width; column > 0 {
			sum = p.Add(sum, p.Recv(tl.W, 1))
		}
		if column := p.ProgramID(1) % width; column < width-1 {
			p.Send(tl.E, sum)
		}
		p.Store(shard.Ptr, sum)
	}
	if _, err := system.Launch(prefix, accel.OnPE0(system, 0)); err != nil {
		log.Fatal(err)
	}
	for _, v := range x.Data()[:4] {
		fmt.Print(v.Float32(), " ")
	}
	// Output: 1 2 3 4
}

// A PE streams both operands of C = A x B from its HBM and adds a bias to every row of C.
func ExamplePE_Composite() {
	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
	const n = 64
	matrix := func(rows int, value float32) tl.Ptr {
		x, err := system.Alloc(accel.PEID{}, rows, n)
		if err != nil {
			log.Fatal(err)
		}
		for i := range x.Cells() {
			x.Cells()[i] = accel.Float16From(value)
		}
		return x.Ptr
	}
	a, b, bias := matrix(n, 1), matrix(n, 2), matrix(1, 0.5)
	c, err := system.Alloc(accel.PEID{}, n, n)
	if err != nil {
		log.Fatal(err)
	}
	_, err = system.Launch(func(p *tl.PE) {
		p.Wait(p.Composite(tl.Gemm{M: n, K: n, N: n, A: tl.Ref(a), B: tl.Ref(b), Out: c.Ptr,
			Epilogue: []tl.Epilogue{{Fn: tl.Add, Arg: p.Load(bias, n)}}}))
	}, []accel.PEID{{}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Cells()[0].Float32())
	// Output: 128.5
}
