package sim

import (
	"cmp"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Activity is what an engine of a PE is used for: a stage of a composite's
// pipeline, or an operation of the program's own.
type Activity uint8

// The stages of a composite, then what programs ask for themselves.
const (
	DMARead Activity = iota
	DMAWrite
	Fetch
	Store
	Gemm
	Math
	OwnLoad
	OwnStore
	OwnDot
	OwnMath
	Activities
)

func (a Activity) String() string {
	return [...]string{"DMA_READ", "DMA_WRITE", "FETCH", "STORE", "GEMM", "MATH", "load", "store", "dot", "math"}[a]
}

// Stage reports whether it is a stage of a composite.
func (a Activity) Stage() bool { return a < OwnLoad }

// Engine is the part of the PE that does it.
func (a Activity) Engine() string {
	switch a {
	case DMARead, DMAWrite, OwnLoad, OwnStore:
		return "pe_dma"
	case Fetch, Store:
		return "pe_fetch_store"
	case Gemm, OwnDot:
		return "pe_gemm"
	}
	return "pe_math"
}

// Engines lists them.
func Engines() []string { return []string{"pe_dma", "pe_fetch_store", "pe_gemm", "pe_math"} }

// Usage is how much one PE did of something.
type Usage struct {
	Count       int
	Busy        event.Time // sum of the durations
	First, Last event.Time // from the start of the first to the end of the last
}

// Active is the time from the start of the first to the end of the last.
func (u Usage) Active() event.Time { return u.Last - u.First }

// Plus is the usage of both.
func (u Usage) Plus(o Usage) Usage {
	switch {
	case u.Count == 0:
		return o
	case o.Count == 0:
		return u
	}
	return Usage{u.Count + o.Count, u.Busy + o.Busy, min(u.First, o.First), max(u.Last, o.Last)}
}

// Usages are all activities of one PE.
type Usages [Activities]Usage

// Of adds up the activities that are wanted.
func (u *Usages) Of(wanted func(Activity) bool) (sum Usage) {
	for a := range Activities {
		if wanted(a) {
			sum = sum.Plus(u[a])
		}
	}
	return sum
}

// used records an engine's work.
func (p *pe) used(a Activity, from, to event.Time) {
	p.usage[a] = p.usage[a].Plus(Usage{1, to - from, from, to})
	if p.tracing {
		lane := a.Engine()
		if a == DMAWrite || a == OwnStore || a == Store {
			lane += " write" // the other direction
		}
		p.spans = append(p.spans, Span{Lane: lane, Name: a.String(), From: from, To: to})
	}
}

// LinkUse is how much one link carried.
type LinkUse struct {
	Name string
	Busy event.Time
}

// Busiest are the links that were sending longest, at most n; of equals the first.
func (r *Result) Busiest(t *topo.Topology, n int) []LinkUse {
	var links []int
	for link, busy := range r.Busy {
		if busy > 0 {
			links = append(links, link)
		}
	}
	slices.SortStableFunc(links, func(a, b int) int { return cmp.Compare(r.Busy[b], r.Busy[a]) })
	w := topo.NewWiring(t)
	return lists.Map(links[:min(n, len(links))], func(link int) LinkUse { return LinkUse{w.LinkName(link), r.Busy[link]} })
}
