package run

import (
	"cmp"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// starvation describes the longest silence of a rank that is alive but gets no processor.
type starvation struct {
	rank   int
	silent time.Duration
	waited time.Duration // the time for which its threads waited for a processor, summed over the threads
}

// conditions returns the condition of the row, if a rank starved.
func (s starvation) conditions() []journal.Condition {
	if s.silent == 0 {
		return nil
	}
	c := journal.NewCondition(journal.CodeStarved,
		journal.Named{"silent_s": s.silent.Seconds(), "waited_s": s.waited.Seconds()})
	return []journal.Condition{c.OfRank(s.rank)}
}

// checkHeartbeats counts a tick of silence for every rank. A rank that is silent for too long has failed if it is
// stopped or dead. If it is alive, it only waits for a processor: the row is then disturbed but valid. A rank on
// another host counts as lost, with the cause that its connection shows.
func (w *workerGroup) checkHeartbeats() *failure {
	limit := cmp.Or(w.slot.opts.Heartbeat, connection.SilenceLimit)
	for rank := range w.ranks {
		s := &w.ranks[rank]
		s.silent++
		pid := w.stops.pids[min(rank, w.procs-1)]
		if s.silent == 2 { // at most half a second is normal
			if s.quiet = w.hub.Observe(rank); s.quiet.TCP {
				w.hub.Ping(rank)
			}
			if pid > 0 {
				_, s.waited = hostinfo.TreeDelay(hostinfo.Root(), pid)
			}
		}
		silent := time.Duration(s.silent) * tickTime
		if silent <= limit {
			continue
		}
		if why := w.silenceCause(rank, pid, limit); why != "" {
			return &failure{status: journal.Failed, rank: &rank, phase: s.phase,
				reason: fmt.Sprintf("lost heartbeat: no message for %v (%s)", limit, why)}
		}
		if silent > w.starved.silent {
			_, waited := hostinfo.TreeDelay(hostinfo.Root(), pid)
			w.starved = starvation{rank, silent, time.Duration(waited - min(waited, s.waited))}
		}
	}
	return nil
}

// silenceCause returns why a rank cannot send heartbeats, or "" if its process is alive and only waits for a
// processor. A pid of 0 means that the process is on another host, where only its connection can be observed.
func (w *workerGroup) silenceCause(rank, pid int, limit time.Duration) string {
	return explainSilence(w.hub.Observe(rank).Since(w.ranks[rank].quiet), pid, limit)
}

func explainSilence(seen connection.Evidence, pid int, limit time.Duration) string {
	const advice = "; --heartbeat waits longer"
	if pid == 0 {
		return cmp.Or(seen.Cause(limit), "stopped, starved of CPU or cut off") + advice
	}
	// Containers may share process IDs but have separate networks. The network is checked first, because a launcher
	// that is cut off stops its processes before it ends them.
	if network := seen.NetworkCause(limit); network != "" {
		return network + advice
	}
	switch hostinfo.ProcessState(hostinfo.Root(), pid) {
	case "T", "t":
		return "stopped by a signal"
	case "", "Z", "X":
		return "its process has ended"
	}
	return ""
}
