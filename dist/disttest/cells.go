package disttest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// cell is one call of the matrix, which is prepared once and run several times.
type cell struct {
	dtype              dist.DType
	reduction          dist.Reduction
	count              int
	algorithm          string
	root               int
	chunk              int
	symmetric, inPlace bool
	lengths            []int // of the blocks, as in dist.Call.Counts; nil: they are equal
}

// block returns the position and the length of a rank's block in the vector.
func (c cell) block(rank, size int) (off, n int) {
	if c.lengths == nil {
		return dist.Block(c.count, size, rank)
	}
	return lists.Sum(c.lengths[:rank]), c.lengths[rank]
}

// pair returns the position of the block from one rank to another in the sender's input of an all-to-all, and its
// length.
func (c cell) pair(from, to, size int) (off, n int) {
	if c.lengths == nil {
		return dist.Block(c.count, size, to)
	}
	row := c.lengths[from*size:][:size]
	return lists.Sum(row[:to]), row[to]
}

func (c cell) String() string {
	memory := "private"
	if c.symmetric {
		memory = "symmetric"
	}
	return fmt.Sprintf("%d %v %v by %s, root %d, chunk %d, %s memory, in place %v",
		c.count, c.dtype, c.reduction, c.algorithm, c.root, c.chunk, memory, c.inPlace)
}

// cells returns the calls of one operation to check in a group. Checking all combinations would take
// too long, so it picks calls such that any three properties that can occur together do so in some
// call. In groups above three ranks, and in the short suite, any two do, with different picks for each
// size.
func (s Suite) cells(caps dist.Capabilities, op dist.Collective, size int) (list []cell) {
	either, never := []bool{false, true}, []bool{false}
	reductions, counts, roots, chunked, memories, places := caps.Reductions, s.counts(size), []int{0}, never, never, either
	if !op.Reduces() {
		reductions = []dist.Reduction{dist.Sum}
	}
	if op.Rooted() && size > 1 {
		roots = append(roots, size-1)
	}
	if op == dist.AllReduce || op == dist.Broadcast {
		chunked = either
	}
	if caps.Has(dist.SymmetricMemory) {
		memories = either
	}
	switch op {
	case dist.AllToAll:
		places = never
	case dist.Barrier:
		counts, memories, places = []int{0}, never, never
	}
	algorithms := append([]string{"auto"}, caps.Algorithms[op]...)
	if caps.Has(dist.ScheduleSteps) {
		for _, a := range caps.Algorithms[op] {
			algorithms = append(algorithms, tuning.StepsPrefix+a)
		}
	}
	lengths := []int{len(caps.DTypes), len(reductions), len(counts), len(algorithms), len(roots), len(chunked),
		len(memories), len(places)}
	together := 3
	if s.Short || size > 3 {
		together = 2
	}
	for _, at := range cover(lengths, together, uint64(size), func(at []int) bool {
		return !chunked[at[5]] || counts[at[2]] >= 1000
	}) {
		c := cell{dtype: caps.DTypes[at[0]], reduction: reductions[at[1]], count: counts[at[2]],
			algorithm: algorithms[at[3]], root: roots[at[4]], symmetric: memories[at[6]], inPlace: places[at[7]]}
		if chunked[at[5]] {
			c.chunk = c.count/3 + 1
		}
		list = append(list, c)
	}
	return list
}

// cover picks points of a grid with lengths[k] values on axis k. Any two or three values of different
// axes that occur together in a possible point occur together in a picked one. It visits the points in
// a shuffled order, which depends only on the seed, and picks a point if it has a new combination.
func cover(lengths []int, together int, seed uint64, possible func(at []int) bool) [][]int {
	points, values := 1, 0
	first := make([]int, len(lengths)) // index of the first value of each axis
	for axis, n := range lengths {
		first[axis] = values
		points, values = points*n, values+n
	}
	seen := make([]bool, values*values*values)
	var chosen []int
	for _, point := range rand.New(rand.NewPCG(seed, 0)).Perm(points) {
		at := pointAt(lengths, point)
		if !possible(at) {
			continue
		}
		for axis := range at {
			at[axis] += first[axis]
		}
		if addCombinations(seen, values, at, together) {
			chosen = append(chosen, point)
		}
	}
	slices.Sort(chosen) // neighbouring points share inputs, which are cached
	return lists.Map(chosen, func(point int) []int { return pointAt(lengths, point) })
}

// addCombinations records all pairs or triples of values of a point, and reports whether any was new.
func addCombinations(seen []bool, values int, at []int, together int) (fresh bool) {
	for i, a := range at {
		for j, b := range at[:i] {
			rest := at[:j]
			if together == 2 {
				rest = at[i : i+1]
			}
			for _, c := range rest {
				m := &seen[(a*values+b)*values+c]
				fresh, *m = fresh || !*m, true
			}
		}
	}
	return fresh
}

// pointAt returns the point with a number; the last axis varies fastest.
func pointAt(lengths []int, point int) []int {
	at := make([]int, len(lengths))
	for axis := len(lengths) - 1; axis >= 0; axis-- {
		at[axis] = point % lengths[axis]
		point /= lengths[axis]
	}
	return at
}
