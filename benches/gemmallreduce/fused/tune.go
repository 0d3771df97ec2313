package fused

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Trial is a number of partitions that was tried, and its times in microseconds,
// each the slowest rank's.
type Trial struct {
	Partitions int
	Times      []float64
}

// Median of the times.
func (t Trial) Median() float64 {
	if len(t.Times) == 0 {
		return 0
	}
	return stats.Median(t.Times)
}

// What is worth trying: partitions that are large enough for the product to be
// made of whole blocks and for the reduction to be more than waiting.
const (
	minExtent    = 64        // rows or columns
	minBytes     = 256 << 10 // of C
	maxCandidate = 16        // more have little to gain, and are hit by every rank that is late
)

// Candidates are the numbers of partitions worth trying for a result of elements
// of so many bytes: one, which is the product and then the reduction, and powers
// of two.
func Candidates(p Plan, size int) []int {
	out := []int{1}
	if !p.Overlap {
		return out
	}
	extent, _ := p.Extent()
	for n := 2; n <= maxCandidate && extent/n >= minExtent && p.M*p.N*size/n >= minBytes; n *= 2 {
		out = append(out, n)
	}
	return out
}

// margin is how much faster than one partition others must be to be preferred:
// what the clock cannot tell apart should stay simple.
const margin = 0.01

// Choose gives the number of partitions of the fastest trial, or 1, the first
// trial's, unless that is beaten clearly.
func Choose(trials []Trial) int {
	best := trials[0]
	for _, t := range trials[1:] {
		if t.beats(trials[0]) && t.Median() < best.Median() {
			best = t
		}
	}
	return best.Partitions
}

// beats tells whether a trial that was not given up is faster than the first: in
// the median, and in four of five rounds, since the machine may have been slow in
// some.
func (t Trial) beats(first Trial) bool {
	if len(t.Times) < len(first.Times) {
		return false
	}
	wins := 0
	for round, us := range first.Times {
		if t.Times[round] < us {
			wins++
		}
	}
	return 5*wins >= 4*len(first.Times) && t.Median() < (1-margin)*first.Median()
}

// After each round of trials the slower half is given up, so that the numbers that
// matter are tried most. Calls that take long get fewer rounds.
const (
	maxRounds, minRounds = 5, 2
	tuningLimit          = 10e6 // microseconds
)

// fasterHalf is which trials to go on with: the first, which the others must
// beat, and of those the faster half, one at least.
func fasterHalf(trials []Trial, alive []int) (keep []int) {
	rest := slices.Clone(alive[1:])
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(trials[a].Median(), trials[b].Median()) })
	keep = append(alive[:1:1], rest[:(len(rest)+1)/2]...)
	slices.Sort(keep)
	return keep
}

// FindFastest tries numbers of partitions, of which the first is one, and gives the place of that
// to take. time is of one call with those at a place: the slowest rank's, so that all ranks
// decide alike.
func FindFastest(counts []int, time func(place int) (us float64, err error)) (place int, trials []Trial, err error) {
	if len(counts) == 1 {
		return 0, nil, nil
	}
	alive := lists.Range[int](len(counts)) // places
	trials = lists.Map(counts, func(n int) Trial { return Trial{Partitions: n} })
	if _, err := time(0); err != nil { // warms up
		return 0, nil, err
	}
	spent := 0.0
	for round := 0; round < minRounds || round < maxRounds && spent < tuningLimit; round++ {
		for _, i := range alive {
			us, err := time(i)
			if err != nil {
				return 0, nil, fmt.Errorf("trying %d partitions: %w", trials[i].Partitions, err)
			}
			trials[i].Times = append(trials[i].Times, us)
			spent += us // all ranks stop after the same round
		}
		alive = fasterHalf(trials, alive)
	}
	return slices.Index(counts, Choose(trials)), trials, nil
}

// Tune finds the number of partitions by trying, since what decides it (the
// caches, how much of the memory's bandwidth a few threads get, the noise of the
// machine) is in no data sheet. One partition is always tried, so that the choice
// is not slower than the product and then the reduction, but for noise. All ranks
// call it and get the same answer.
func (r *Rank) Tune(p Plan, c dist.Buffer, a, b gemm.Matrix) (*Op, []Trial, error) {
	var ops []*Op
	counts := Candidates(p, c.DType().Size())
	for _, n := range counts {
		p.Partitions = n
		op, err := r.Prepare(p, c, a, b)
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, op)
	}
	place, trials, err := FindFastest(counts, func(place int) (float64, error) { return r.time(ops[place]) })
	if err != nil {
		return nil, nil, err
	}
	return ops[place], trials, nil
}

// time runs once on all ranks together and gives the slowest one's microseconds.
func (r *Rank) time(op *Op) (float64, error) {
	if err := r.group.Barrier(); err != nil {
		return 0, err
	}
	start := r.group.Clock().Now()
	if err := op.Run(); err != nil {
		return 0, err
	}
	us := []float64{float64(r.group.Clock().Now()-start) / 1e6}
	err := r.group.AllReduce(dist.Of(us), dist.Of(us), dist.Max)
	return us[0], err
}
