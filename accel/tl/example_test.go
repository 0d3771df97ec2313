package tl_test

import (
	"fmt"
	"log"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
)

// Each cube of a row adds what the cubes west of it have: a prefix sum.
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
