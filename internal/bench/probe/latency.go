package probe

import (
	"fmt"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// latency fills in the one-way times of a cache line between cores, which are half of a round trip. The two ends of a
// round trip are the calls that two ranks sample together. Both ranks make the same number of calls, so
// one call is one round trip.
func (b *prober) latency(r *Result) error {
	for _, other := range partners(len(b.cores), b.profile.Hops) {
		pair := []int{b.cores[0], b.cores[other]}
		round, err := b.minTime(pair, linePair().call)
		if err != nil {
			return fmt.Errorf("probing the cache line: %w", err)
		}
		r.Hops = append(r.Hops, Hop{From: pair[0], To: pair[1], US: round / 2})
	}
	return nil
}

// partners chooses the cores with which the first core is paired: at most limit of them, evenly spread from
// the nearest to the last.
func partners(cores, limit int) []int {
	others := cores - 1
	n := min(others, limit)
	out := make([]int, n)
	for i := range out {
		out[i] = 1
		if n > 1 {
			out[i] += i * (others - 1) / (n - 1)
		}
	}
	return out
}

// roundTrip holds the two calls of a round trip: ask sends and waits for the answer, answer waits and
// sends.
type roundTrip struct{ ask, answer func() error }

// call returns the call of the i-th core.
func (e roundTrip) call(i int) func() error { return [...]func() error{e.ask, e.answer}[i] }

// pad separates two words, so that they are neither in the same cache line nor in adjacent lines, which
// processors prefetch together.
type pad [128]byte

// linePair bounces one cache line: ask makes the word odd, answer makes it even.
func linePair() roundTrip {
	shared := new(struct {
		_    pad
		word atomic.Uint64
		_    pad
	})
	var asked, answered uint64
	await := func(v uint64) {
		for shared.word.Load() != v {
			vec.Pause()
		}
	}
	return roundTrip{
		ask:    func() error { asked += 2; shared.word.Store(asked - 1); await(asked); return nil },
		answer: func() error { answered += 2; await(answered - 1); shared.word.Store(answered); return nil },
	}
}
