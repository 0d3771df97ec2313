package sim

import (
	"iter"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
)

// Result is the outcome of a launch. The times in Exec and Crit count from the common start of the PEs;
// all others count from the beginning of the simulation.
type Result struct {
	Start     event.Time   // when the PEs started, after the launch
	Late      int          // number of PEs that the launch reached after Start; not 0 only if the model is wrong
	Exec      []event.Time // by program: time from start to end
	Crit      event.Time   // the longest time of Exec
	Slowest   int          // the program with that time
	Breakdown Breakdown    // of Crit
	Path      []Step       // the critical path of the slowest program
	Order     Effects
	Hops      int64 // passages of flits over links
	Messages  int
	Busy      LinkTimes
	Usage     []Usages // by program: what its engines did
	End       event.Time
	Unchecked string // what the check for races cannot decide, and why; set by the caller of Run
	Load      *Load  // if Config.Load, and there are not too many links
	Trace     *Trace // if Config.Trace
}

// Effects is a list of operations in the order in which they took effect.
type Effects struct {
	list     []Effect
	copies   int                // if not 0, list has only the operations of SIP 0, and this many SIPs do the same
	programs []*program.Program // if copies is not 0: the programs of all SIPs
}

// Len returns the number of effects.
func (e Effects) Len() int { return len(e.list) * max(1, e.copies) }

// All returns the effects in order.
func (e Effects) All() iter.Seq[Effect] {
	return func(yield func(Effect) bool) {
		for _, effect := range e.list {
			if e.copies == 0 && !yield(effect) {
				return
			}
			for sip := range e.copies {
				copied := effect
				copied.Program += int32(sip * len(e.programs) / e.copies)
				copied.Port = e.programs[copied.Program].Ops[copied.Op].Port
				if !yield(copied) {
					return
				}
			}
		}
	}
}

// Equal reports whether both have the same effects in the same order.
func (e Effects) Equal(o Effects) bool {
	return e.Len() == o.Len() && slices.Equal(slices.Collect(e.All()), slices.Collect(o.All()))
}

// LinkTimes holds how long each link was sending.
type LinkTimes struct {
	times []event.Time // by link; of SIP 0 if it stands for all SIPs
	links int
}

// NewLinkTimes returns the given times, by link.
func NewLinkTimes(times ...event.Time) LinkTimes { return LinkTimes{times, len(times)} }

// Of returns how long a link was sending.
func (t LinkTimes) Of(link int) event.Time {
	if len(t.times) < t.links && link >= t.links/len(t.times)*len(t.times) {
		return 0 // the host, which takes no part if SIP 0 stands for all
	}
	return t.times[link%len(t.times)]
}

// All returns the numbers of the links and how long each was sending.
func (t LinkTimes) All() iter.Seq2[int, event.Time] {
	return func(yield func(int, event.Time) bool) {
		for link := range t.links {
			if !yield(link, t.Of(link)) {
				return
			}
		}
	}
}

// Equal reports whether the times of all links are equal.
func (t LinkTimes) Equal(o LinkTimes) bool {
	for link, busy := range t.All() {
		if t.links != o.links || busy != o.Of(link) {
			return false
		}
	}
	return t.links == o.links
}

// Effect is an operation that took effect. For a receive, Port is the queue that it took its message from.
type Effect struct {
	Program, Op int32
	Port        program.Port
	At          event.Time // from the beginning of the simulation
}

// result assembles the result, including the critical path of the slowest program.
func (g *engine) result() *Result {
	r := &Result{Start: g.startTime, Late: g.latePEs, Order: Effects{list: g.order}, Hops: g.fabric.Hops(),
		Messages: g.fabric.Messages(), Busy: LinkTimes{g.fabric.Busy(), g.wiring.Links()}, End: g.now}
	for i, p := range g.pes {
		exec := p.ended - g.startTime
		r.Exec = append(r.Exec, exec)
		r.Usage = append(r.Usage, p.usage)
		if exec > r.Crit {
			r.Crit, r.Slowest = exec, i
		}
	}
	if len(g.pes) > 0 {
		r.Path = g.criticalPath(g.pes[r.Slowest])
		r.Breakdown = breakdown(r.Path)
	}
	if g.load != nil {
		r.Load = &g.load.Load
	}
	if g.Config.Trace {
		r.Trace = g.trace()
	}
	return r
}
