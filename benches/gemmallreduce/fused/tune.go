package fused

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// Trial is a number of partitions with its times in microseconds. Each time belongs to the slowest
// rank.
type Trial struct {
	Partitions int
	Times      []float64
}

// Median returns the median time, or 0 without times.
func (t Trial) Median() float64 {
	if len(t.Times) == 0 {
		return 0
	}
	return stats.Median(t.Times)
}

// Limits of the numbers of partitions to try: a partition must be large enough that its product
// consists of whole blocks, and that its reduction takes longer than waiting for the other ranks.
const (
	minExtent    = 64        // rows or columns per partition
	minBytes     = 256 << 10 // of C per partition
	maxCandidate = 16        // more partitions gain little, and every late rank delays each of them
)

// Candidates returns the numbers of partitions to try for a result with elements of size bytes: powers
// of two from 1, which is the product and then the reduction.
func Candidates(p Plan, size int) []int {
	out := []int{1}
	if !p.Overlap {
		return out
	}
	extent, _ := p.extent()
	for n := 2; n <= maxCandidate && extent/n >= minExtent && p.M*p.N*size/n >= minBytes; n *= 2 {
		out = append(out, n)
	}
	return out
}

// margin is the relative gain over one partition that a larger number must have. Differences below the
// resolution of the measurement do not justify more partitions.
const margin = 0.01

// Choose returns the number of partitions of the fastest trial. If no trial is clearly faster than the
// first one, which has one partition, it returns the number of the first trial.
func Choose(trials []Trial) int {
	best := trials[0]
	for _, t := range trials[1:] {
		if t.beats(trials[0]) && t.Median() < best.Median() {
			best = t
		}
	}
	return best.Partitions
}

// beats reports whether the trial is faster than the first one: in the median by margin, and in at least four of five
// rounds, because the machine may have been slow in some.
func (t Trial) beats(first Trial) bool {
	wins := 0
	for round, us := range first.Times {
		if t.Times[round] < us {
			wins++
		}
	}
	return 5*wins >= 4*len(first.Times) && t.Median() < (1-margin)*first.Median()
}

// Tuning makes fewer rounds if calls take long.
const (
	maxRounds, minRounds = 5, 2
	tuningLimit          = 10e6 // microseconds
)

// FindFastest tries numbers of partitions and returns the index of the fastest. Only a trial can find it, because it
// depends on properties that no data sheet lists: the caches, the bandwidth of a few threads, the noise of the machine.
// The first number must be 1, so that except for noise the choice is never slower than the product and then the
// reduction. time must return the microseconds of one call with the number at index, on the slowest rank, so that all
// ranks choose alike.
func FindFastest(counts []int, time func(index int) (us float64, err error)) (index int, trials []Trial, err error) {
	if len(counts) == 1 {
		return 0, nil, nil
	}
	trials = lists.Map(counts, func(n int) Trial { return Trial{Partitions: n} })
	if _, err := time(0); err != nil { // warm-up
		return 0, nil, err
	}
	spent := 0.0
	for round := 0; round < minRounds || round < maxRounds && spent < tuningLimit; round++ {
		for i := range counts {
			us, err := time(i)
			if err != nil {
				return 0, nil, fmt.Errorf("trying %d partitions: %w", trials[i].Partitions, err)
			}
			trials[i].Times = append(trials[i].Times, us)
			spent += us // equal on all ranks, so that they stop after the same round
		}
	}
	return slices.Index(counts, Choose(trials)), trials, nil
}
