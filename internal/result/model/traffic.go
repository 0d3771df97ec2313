package model

import (
	"sync"

	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// Traffic is how many bytes the busiest rank moves to or from its peers in an
// all-reduce by the named algorithm: counted from its steps where it has some,
// else by the formula of its registration. known is false for other names.
func Traffic(algorithm string, ranks int, bytes int64) (moved int64, known bool) {
	if ranks < 1 || bytes < 0 {
		return 0, false
	}
	algorithm = baseName(algorithm)
	size := float64(bytes)
	info, _ := schedule.Lookup(allReduce, algorithm)
	if info.Traffic != nil {
		return int64(info.Traffic(ranks, size)), true
	}
	t, known := cost(info.Name, ranks)
	if !known {
		return 0, false
	}
	return int64(float64(max(t.Sent.Max, t.Read.Max, t.Written.Max)) / costElements * size), true
}

// costElements is the vector over which the schedules are counted: divisible by
// every usual number of ranks, so that shares come out even.
const costElements = 1 << 10 * 3 * 5 * 7

// costs remembers what was counted: sweeps ask for the same few again and again.
var costs sync.Map // of costKey: schedule.Traffic

type costKey struct {
	algorithm string
	ranks     int
}

// cost counts the steps of one of our own algorithms.
func cost(algorithm string, ranks int) (schedule.Traffic, bool) {
	key := costKey{algorithm, ranks}
	if t, has := costs.Load(key); has {
		return t.(schedule.Traffic), true
	}
	s, err := schedule.New(allReduce, algorithm, schedule.Params{Ranks: ranks, Count: costElements})
	if err != nil {
		return schedule.Traffic{}, false
	}
	t, err := schedule.Cost(s)
	if err != nil {
		return schedule.Traffic{}, false
	}
	costs.Store(key, t)
	return t, true
}

// LeastTraffic is what the busiest rank must move whatever the algorithm: that
// of two-stage, or of a switch that adds, which is less from three ranks on.
func LeastTraffic(ranks int, bytes int64) float64 {
	return float64(bytes) * min(busFactor(ranks), 1+1/float64(max(ranks, 1)))
}

// sameSteps reports whether two algorithms are, at so many ranks, the same steps
// by construction, so that equal times are no surprise.
func sameSteps(a, b string, ranks int) bool {
	ta, oka := cost(baseName(a), ranks)
	tb, okb := cost(baseName(b), ranks)
	return oka && okb && ta == tb
}

// baseName is an algorithm's name without how it is executed: neither blocks, pieces nor
// single steps change what it moves.
func baseName(algorithm string) string {
	choice, _ := tuning.ParseChoice(algorithm)
	return choice.Algorithm
}
