package collectives

import (
	"context"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// limits are the least times of a call, in microseconds.
type limits struct {
	bandwidth float64 // its traffic at this host's bandwidth
	hops      float64 // its longest chain of hops between caches
	exchange  float64 // what crosses between ranks' own memories; 0 where peers reach the memory
}

// limitOf derives them from what the algorithm moves by itself. Chunks change
// neither the traffic nor, when pipelined, the shortest chain.
func limitOf(p probe.Result, sh shape, algorithm string) (limits, error) {
	t, err := trafficOf(sh, algorithm)
	if err != nil {
		return limits{}, err
	}
	elem := float64(sh.dtype.Size())
	l := limits{
		bandwidth: p.US(probe.Traffic{
			Cores:  min(sh.ranks, p.Cores),
			Set:    elem * float64(t.Loads.Max+t.Stores.Max),
			Loads:  elem * float64(t.Loads.Total),
			Stores: elem * float64(t.Stores.Total),
		}),
		hops: float64(t.Rounds) * p.HopUS(),
	}
	if sh.buffers == private && sh.ranks <= p.Cores {
		crossing := elem * float64(t.Sent.Max+t.Read.Max+t.Written.Max)
		l.exchange = p.ExchangeUS(sh.ranks, crossing, elem*float64(sh.memory()))
	}
	return l, nil
}

// trafficOf counts what the algorithm moves and its data's hops.
func trafficOf(sh shape, algorithm string) (schedule.Traffic, error) {
	if sh.op == sendRecv {
		one := schedule.Load{Max: sh.count, Total: sh.count * sh.ranks}
		return schedule.Traffic{Sent: one, Loads: one, Stores: one, Rounds: 1}, nil
	}
	if sh.ranks == 1 && sh.op == barrier {
		return schedule.Traffic{}, nil
	}
	s, err := schedule.New(sh.op, algorithm, schedule.Params{Ranks: sh.ranks, Count: sh.count, Root: root, InPlace: sh.inPlace})
	if err != nil {
		return schedule.Traffic{}, fmt.Errorf("the limit: %w", err)
	}
	t, err := schedule.Cost(s)
	if err != nil {
		return schedule.Traffic{}, fmt.Errorf("the limit: %w", err)
	}
	// The last flags of an algorithm that reads peers' memory only say that the
	// memory is free again. No result waits for them, so they are no limit.
	if sh.op != barrier && t.Rounds > 1 && direct(sh.op, algorithm) {
		t.Rounds--
	}
	return t, nil
}

func direct(op, algorithm string) bool {
	for _, info := range schedule.Algorithms(op) {
		if info.Name == algorithm {
			return info.Direct
		}
	}
	return false
}

// hostLimits is this host's own probe result, obtained once per process.
var hostLimits = sync.OnceValues(func() (probe.Result, error) { return probe.Obtain(context.Background()) })

// limitsFor finds the probe result and gives the function that records a
// call's limits. Only rank 0, whose numbers make the row, does anything; a row
// without limits says why.
func limitsFor(s *bench.State) func(sh shape, plan dist.Plan) {
	if s.Rank() != 0 {
		return func(shape, dist.Plan) {}
	}
	var p probe.Result
	var err error
	if path := s.Str("probe"); path != "" {
		p, err = probe.Load(path, hostinfo.Local())
	} else {
		p, err = hostLimits()
	}
	if err != nil {
		s.Warn("limits: %v", err)
	}
	if len(p.Copy) == 0 {
		return func(shape, dist.Plan) {}
	}
	s.Detail("probe", fmt.Sprintf("%s, %s", p.Profile, p.Time.Format("2006-01-02 15:04:05Z")))
	return func(sh shape, plan dist.Plan) {
		l, err := limitOf(p, sh, plan.Algorithm)
		if err != nil {
			s.Warn("%v", err)
			return
		}
		for _, named := range []struct {
			name string
			us   float64
		}{{"bandwidth", l.bandwidth}, {"hops", l.hops}, {"exchange", l.exchange}} {
			if named.us > 0 {
				s.Limit(named.name, named.us)
			}
		}
	}
}
