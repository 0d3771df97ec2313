package collectives

import (
	"strconv"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// hostOf is the host that a rank counts as being on: neighbouring ranks
// together, or where it really is when the run does not say.
func hostOf(s *bench.State) string {
	hosts := s.Int("hosts")
	if hosts < 1 {
		return ""
	}
	return "host" + strconv.Itoa(s.Rank()*hosts/s.Size())
}

// loopback is probed once per process.
var loopback = sync.OnceValues(tcp.ProbeLoopback)

// loopbackLimit gives the function that records what TCP within this machine
// allows, where ranks are on different hosts in name. Only rank 0, whose numbers
// make the row, does anything. With more ranks than two the bytes that cross
// depend on the algorithm, so that the latency alone is a limit for all.
func loopbackLimit(s *bench.State) func(sh shape) {
	if s.Rank() != 0 || s.Int("hosts") < 2 || s.Size() < 2 {
		return func(shape) {}
	}
	l, err := loopback()
	if err != nil {
		s.Warn("limits: %v", err)
		return func(shape) {}
	}
	return func(sh shape) {
		bytes := 0.0
		if sh.ranks == 2 {
			bytes = crossing(sh)
		}
		s.Limit("loopback", l.US(bytes))
	}
}

// crossing is how many bytes must go from one of two ranks to the other, the
// way on which they are more.
func crossing(sh shape) float64 {
	whole := float64(sh.count) * float64(sh.dtype.Size())
	switch sh.op {
	case barrier:
		return 0
	case allReduce, "broadcast", "reduce", sendRecv:
		return whole
	}
	return whole / 2 // half of it is the other rank's
}
