package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Span is an interval in which a program performed an operation, an engine of a PE was busy, or a link sent a message.
type Span struct {
	Group, Lane, Name string // such as sip0.cube1.pe0, pe_dma, DMA_READ
	From, To          event.Time
}

// Arrow leads from a send to the receive that took its message. Both times lie within their spans.
type Arrow struct {
	From, To       [2]string // group and lane
	Sent, Received event.Time
}

// Count is the number of messages in a receive queue from a time on.
type Count struct {
	Group, Queue string // the receiving PE; the input and sender of the queue
	At           event.Time
	Messages     int
}

// Trace records all activity of a launch, in simulated time.
type Trace struct {
	Spans  []Span
	Arrows []Arrow
	Counts []Count // in order of time for each queue
}

// The lane of programs and the group of links in a trace. The other lanes are engines.
const (
	ProgramLane = "program"
	LinkGroup   = "links"
)

// onLink records that a link has sent a part of a message. Adjacent parts are merged into one span.
func (g *engine) onLink(p fabric.Passage) {
	spans := g.links[p.Link]
	if n := len(spans); n > 0 && spans[n-1].message == p.Message && spans[n-1].to == p.From {
		spans[n-1].to = p.To
		return
	}
	g.links[p.Link] = append(spans, linkSpan{p.Message, p.From, p.To})
}

type linkSpan struct {
	message  int32
	from, to event.Time
}

// trace assembles the trace from the records.
func (g *engine) trace() *Trace {
	t := &Trace{}
	for _, p := range g.pes {
		for i := range p.log {
			if l := &p.log[i]; l.done && l.end > l.issued {
				at := p.laneOf(i)
				t.Spans = append(t.Spans, Span{at[0], at[1], p.prog.Ops[i].Kind.String(), l.issued, l.end})
			}
		}
		for _, s := range p.spans {
			s.Group = p.prog.ID.String()
			t.Spans = append(t.Spans, s)
		}
	}
	for link := range g.wiring.Links() {
		for _, s := range g.links[int32(link)] {
			if s.to > s.from {
				name := fmt.Sprintf("message %d", s.message)
				t.Spans = append(t.Spans, Span{LinkGroup, g.wiring.LinkName(link), name, s.from, s.to})
			}
		}
	}
	for _, q := range g.queues {
		for _, a := range q.arrivals {
			sent := a.sender.log[a.op].issued
			t.Arrows = append(t.Arrows, Arrow{a.sender.laneOf(a.op), a.receiver.laneOf(a.recv), sent, a.read})
		}
		t.Counts = append(t.Counts, g.counts(q)...)
	}
	return t
}

// counts returns the fill level of a queue over time. A message is in the queue from when it is visible
// until it has been read.
func (g *engine) counts(q *queue) (counts []Count) {
	input := "SendTo"
	if q.port.Input < int32(program.Dirs) {
		input = program.Dir(q.port.Input).String()
	}
	name := fmt.Sprintf("queue %s of %v", input, g.Topo.At(int(q.port.From)))
	level, readOut := 0, 0
	record := func(at event.Time) {
		if n := len(counts); n > 0 && counts[n-1].At == at {
			counts = counts[:n-1]
		}
		counts = append(counts, Count{g.Topo.At(int(q.port.To)).String(), name, at, level})
	}
	for _, a := range q.arrivals { // visible and read both increase along the list
		for ; readOut < len(q.arrivals) && q.arrivals[readOut].read <= a.visible; readOut++ {
			level--
			record(q.arrivals[readOut].read)
		}
		level++
		record(a.visible)
	}
	for ; readOut < len(q.arrivals); readOut++ {
		level--
		record(q.arrivals[readOut].read)
	}
	return counts
}

// laneOf returns the group and lane of an operation. Operations that run concurrently have their own lanes.
func (p *pe) laneOf(op int) [2]string {
	lane := ProgramLane
	if k := p.prog.Ops[op].Kind; k == program.Composite || k == program.RecvAsync {
		lane = fmt.Sprintf("%v %d", k, op)
	}
	return [2]string{p.prog.ID.String(), lane}
}

// Load holds the load of links over the time of a launch, from the common start on.
type Load struct {
	Bucket  event.Time  // length of a bucket
	Buckets int         // number of buckets
	Links   []*LinkLoad // by link; nil for a link that sent nothing
}

// LinkLoad is the load of one link.
type LinkLoad struct {
	Bytes int64
	Wait  event.Time   // sum of the times that flits or whole messages waited for the link
	Busy  []event.Time // by bucket: how long it was sending; trailing zeros are omitted
}

// The bounds of a Load. When one would be exceeded, the buckets become twice as long.
const (
	MaxBuckets = 200
	maxCells   = 4 << 20 // of all links together
	firstWidth = event.Nanosecond
)

// maxRecordedLinks is the largest number of links for which the load is recorded. It is about 400 SIPs. In larger
// machines, recording every flit would take more time and memory than the simulation itself. A test lowers it.
var maxRecordedLinks = 2 << 20

// recorder fills a Load. The duration of the launch is not known in advance, so it starts with short buckets and merges
// them when there are too many.
type recorder struct {
	Load
	start  event.Time
	active int // number of links that have sent something
}

func newRecorder(links int) *recorder {
	return &recorder{Load: Load{Bucket: firstWidth, Links: make([]*LinkLoad, links)}}
}

// record records a passage. Messages before the common start belong to the launch and are ignored.
func (r *recorder) record(p fabric.Passage) {
	if p.Bytes == 0 || p.From < r.start {
		return
	}
	l := r.Links[p.Link]
	if l == nil {
		l = &LinkLoad{}
		r.Links[p.Link] = l
		r.active++
	}
	l.Bytes += int64(p.Bytes)
	l.Wait += p.Wait
	from, to := p.From-r.start, p.To-r.start
	r.Buckets = max(r.Buckets, int((to+r.Bucket-1)/r.Bucket))
	for r.Buckets > min(MaxBuckets, max(1, maxCells/r.active)) {
		r.coarsen()
	}
	for from < to {
		k := int(from / r.Bucket)
		end := min(to, event.Time(k+1)*r.Bucket)
		for len(l.Busy) <= k {
			l.Busy = append(l.Busy, 0)
		}
		l.Busy[k] += end - from
		from = end
	}
}

// recordsLoad reports whether the load of links is recorded: if it is requested and there are not too many links.
func recordsLoad(cfg Config, w *topo.Wiring) bool { return cfg.Load && w.Links() <= maxRecordedLinks }

// coarsen merges every two adjacent buckets into one.
func (r *recorder) coarsen() {
	r.Bucket *= 2
	r.Buckets = (r.Buckets + 1) / 2
	for _, l := range r.Links {
		if l == nil {
			continue
		}
		half := l.Busy[:0]
		for k := 0; k < len(l.Busy); k += 2 {
			busy := l.Busy[k]
			if k+1 < len(l.Busy) {
				busy += l.Busy[k+1]
			}
			half = append(half, busy)
		}
		l.Busy = half
	}
}

// Activity is a use of an engine of a PE: a stage of a composite's pipeline, or an operation of the program
// itself (Own...).
type Activity uint8

// The stages of a composite, then the operations of the program itself.
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

// Stage reports whether a is a stage of a composite.
func (a Activity) Stage() bool { return a < OwnLoad }

// Engine returns the name of the engine that performs a.
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

// Engines returns the names of the engines.
func Engines() []string { return []string{"pe_dma", "pe_fetch_store", "pe_gemm", "pe_math"} }

// Usage summarizes the work of one PE in an activity.
type Usage struct {
	Count       int
	Busy        event.Time // sum of the durations
	First, Last event.Time // start of the first and end of the last
}

// Active returns the time from the start of the first to the end of the last.
func (u Usage) Active() event.Time { return u.Last - u.First }

// Plus returns the combined usage.
func (u Usage) Plus(o Usage) Usage {
	switch {
	case u.Count == 0:
		return o
	case o.Count == 0:
		return u
	}
	return Usage{u.Count + o.Count, u.Busy + o.Busy, min(u.First, o.First), max(u.Last, o.Last)}
}

// Usages holds the usage of one PE by activity.
type Usages [Activities]Usage

// Of combines the selected activities.
func (u *Usages) Of(wanted func(Activity) bool) (sum Usage) {
	for a := range Activities {
		if wanted(a) {
			sum = sum.Plus(u[a])
		}
	}
	return sum
}

// recordUsage records an engine's work.
func (p *pe) recordUsage(a Activity, from, to event.Time) {
	p.usage[a] = p.usage[a].Plus(Usage{1, to - from, from, to})
	if p.tracing {
		lane := a.Engine()
		if a == DMAWrite || a == OwnStore || a == Store {
			lane += " write" // the two directions overlap, so they need separate lanes
		}
		p.spans = append(p.spans, Span{Lane: lane, Name: a.String(), From: from, To: to})
	}
}

// LinkUse is the time for which a link was sending.
type LinkUse struct {
	Name string
	Busy event.Time
}

// Busiest returns the up to n links that were sending longest. Equally busy links keep their order.
func (r *Result) Busiest(t *topo.Topology, n int) []LinkUse {
	var links []int
	for link, busy := range r.Busy.All() {
		if busy > 0 {
			links = append(links, link)
		}
	}
	slices.SortStableFunc(links, func(a, b int) int { return cmp.Compare(r.Busy.Of(b), r.Busy.Of(a)) })
	w := topo.NewWiring(t)
	return lists.Map(links[:min(n, len(links))], func(link int) LinkUse {
		return LinkUse{w.LinkName(link), r.Busy.Of(link)}
	})
}
