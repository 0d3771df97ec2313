package workload

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// onNetwork replays a workload on a simulated network, and once more without each of its faults.
func onNetwork(s *bench.State, w *replay.Workload, n loggp.Network) (*replay.Result, error) {
	r, network, err := replayOn(n, w, s.Str(algorithmAxis))
	if err != nil {
		return nil, err
	}
	m := network.Machine
	s.Detail("algorithms", network.Used())
	s.Record("messages", float64(m.Result().Messages))
	s.Record("bytes", float64(m.Result().Bytes))
	s.Detail("busiest_links", busiest(m.Links(), r.Time))
	ops, memory := w.Work()
	more, err := instrument.ExplainNetwork(n,
		instrument.NetworkRun{Time: r.Time, Machine: m, Ops: ops, MemoryBytes: memory},
		func(n loggp.Network) (event.Time, *loggp.Machine, error) {
			r, network, err := replayOn(n, w, s.Str(algorithmAxis))
			if err != nil {
				return 0, nil, err
			}
			return r.Time, network.Machine, nil
		})
	machine.Record(s, more)
	return r, err
}

// replayOn replays a workload on a network.
func replayOn(n loggp.Network, w *replay.Workload, algorithm string) (*replay.Result, *replay.Network, error) {
	m, err := loggp.NewMachine(n, w.Ranks())
	if err != nil {
		return nil, nil, err
	}
	network := replay.OnNetwork(m, replay.Choice(algorithm))
	r, err := w.Run(network)
	return r, network, err
}
