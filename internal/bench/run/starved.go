package run

import (
	"cmp"
	"fmt"
	"time"

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
		pid := w.stops.pids[min(rank, w.procs-1)] // 0 on another host
		if s.silent == 2 {                        // at most half a second is normal
			if s.quiet = w.hub.Observe(rank, pid); s.quiet.TCP {
				w.hub.Ping(rank)
			}
		}
		silent := time.Duration(s.silent) * tickTime
		if silent <= limit {
			continue
		}
		seen := w.hub.Observe(rank, pid).Since(s.quiet)
		if why := explainSilence(seen, limit); why != "" {
			return &failure{status: journal.Failed, rank: &rank, phase: s.phase,
				reason: fmt.Sprintf("lost heartbeat: no message for %v (%s)", limit, why)}
		}
		if silent > w.starved.silent {
			w.starved = starvation{rank, silent, seen.Waited}
		}
	}
	return nil
}

// explainSilence returns why a rank cannot send heartbeats, or "" if its process is alive and only waits for a
// processor. Containers may share process IDs but have separate networks, so a process of this host may be cut off.
func explainSilence(seen connection.Evidence, limit time.Duration) string {
	if seen.Alive() && seen.NetworkCause(limit) == "" {
		return ""
	}
	why := cmp.Or(seen.Cause(limit), "stopped, starved of CPU or cut off")
	if !seen.Local || seen.NetworkCause(limit) != "" {
		why += "; --heartbeat waits longer"
	}
	return why
}
