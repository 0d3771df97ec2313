package accel_test

import (
	"fmt"
	"log"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
)

// Every cube doubles its row of a tensor.
func Example() {
	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
	x, err := system.Zeros(0, 16, 4, accel.PerCube)
	if err != nil {
		log.Fatal(err)
	}
	values := make([]accel.Float16, 16*4)
	for i := range values {
		values[i] = accel.Float16From(float32(i))
	}
	if err := x.Set(values); err != nil {
		log.Fatal(err)
	}
	double := func(p *tl.PE) {
		shard, _ := x.On(p.ID())
		row := p.Load(shard.Ptr, shard.Cols)
		p.Store(shard.Ptr, p.Add(row, row))
	}
	result, err := system.Launch(double, accel.OnPE0(system, 0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("row 3:", x.Data()[12].Float32(), x.Data()[13].Float32(), x.Data()[14].Float32(), x.Data()[15].Float32())
	fmt.Println("the breakdown adds up:", result.Breakdown.Total() == result.Crit && result.Crit == system.Now())
	// Output:
	// row 3: 24 26 28 30
	// the breakdown adds up: true
}

// Every SIP has one row; the all-reduce leaves the sum of the rows on each of them.
func ExampleSystem_AllReduce() {
	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
	var tensors []*accel.Tensor
	for sip := range system.Topo.SIPs.Count {
		x, err := system.Zeros(sip, 1, 8, accel.OnCube(0))
		if err != nil {
			log.Fatal(err)
		}
		row := make([]accel.Float16, 8)
		for i := range row {
			row[i] = accel.Float16From(float32(sip + 1))
		}
		if err := x.Set(row); err != nil {
			log.Fatal(err)
		}
		tensors = append(tensors, x)
	}
	if _, err := system.AllReduce(tensors); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(tensors), "SIPs, the sum is", tensors[0].Data()[0].Float32())
	// Output: 2 SIPs, the sum is 3
}
