package milestone1h

import (
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Inputs are whole numbers from 0 on, so small that every partial sum over all cubes,
// in any order, is at most 2048 and so exact in f16. They are hashed from the
// position, so that a tile that is missing, duplicated or swapped shows. Of more than
// 2048 cubes each is 0 but at every so many elements, others at others.

const exact = 2048 // all whole numbers up to it are f16

func (c Case) input(sip, cube, i int) int {
	cubes := c.Topo.Cubes.Count()
	all := c.Topo.SIPs.Count * cubes
	if all <= exact {
		return input(sip, cube, i, exact/all)
	}
	if every := (2*all + exact - 1) / exact; (sip*cubes+cube+i)%every != 0 {
		return 0
	}
	return 1 + input(sip, cube, i, 1)
}

func input(sip, cube, i, top int) int {
	h := uint64(i)*0x9E3779B97F4A7C15 + uint64(sip)*0xBF58476D1CE4E5B9 + uint64(cube)*0x94D049BB133111EB
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return int(h >> 33 % uint64(top+1))
}

// fill sets the tiles of all cubes of a SIP.
func (c Case) fill(sip int, tiles []dist.Float16) {
	for at := range tiles {
		tiles[at] = dtype.Float16From(float32(c.input(sip, at/c.N, at%c.N)))
	}
}

// sums are what every cube must hold in the end.
func (c Case) sums() []int {
	sums := make([]int, c.N)
	for sip := range c.Topo.SIPs.Count {
		for cube := range c.Topo.Cubes.Count() {
			for i := range sums {
				sums[i] += c.input(sip, cube, i)
			}
		}
	}
	return sums
}

// check compares the tiles of all cubes of a SIP with the exact sums.
func (c Case) check(sip int, tiles []dist.Float16, sums []int) *bench.Wrong {
	var wrong *bench.Wrong
	for at, got := range tiles {
		if want := float32(sums[at%c.N]); got.Float32() != want {
			if wrong == nil {
				wrong = &bench.Wrong{Detail: fmt.Sprintf("element %d of sip%d.cube%d is %v, the sum is %v", at%c.N, sip, at/c.N,
					got.Float32(), want)}
			}
			wrong.Count++
		}
	}
	return wrong
}
