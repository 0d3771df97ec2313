// Package profile is what a launch on the simulated accelerator looked like from inside: what each
// link carried when, where the links run on the floor plan, and the critical path. A Record is plain
// data that is kept beside a row of results; Of makes it from what package sim found, Encode and Decode
// give it its form as a file. It is bounded, and a file is trusted in nothing.
package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Version is that of the form of a record.
const Version = 1

// The bounds of a record. What is beyond them is left out, and the record says how much.
const (
	MaxLinks   = 4096
	MaxBuckets = sim.MaxBuckets
	MaxSteps   = 2000
)

// Record is one launch.
type Record struct {
	Version int    `json:"version"`
	Fabric  string `json:"fabric"`
	SIPs    int    `json:"sips"`
	Kernel  int64  `json:"kernel_ps"` // from the common start to the end of the last PE
	Plan    Plan   `json:"plan"`      // of each SIP
	Bucket  int64  `json:"bucket_ps"`
	Buckets int    `json:"buckets"`
	Links   []Link `json:"links"`  // the busiest first
	Others  int    `json:"others"` // links that carried something and are not among them
	Path    []Step `json:"path"`
}

// Plan is a floor plan in millimetres, y downward.
type Plan struct {
	W     float64 `json:"w"`
	H     float64 `json:"h"`
	Boxes []Box   `json:"boxes"`
}

// Box is a part of a floor plan.
type Box struct {
	Kind string  `json:"kind"` // io, cube, hbm, pe
	Name string  `json:"name"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	W    float64 `json:"w"`
	H    float64 `json:"h"`
}

// Link is what one directed link carried.
type Link struct {
	Name  string     `json:"name"`
	SIP   int        `json:"sip"`
	Line  [4]float64 `json:"line"` // x and y of its ends on the floor plan
	Bytes int64      `json:"bytes"`
	Busy  int64      `json:"busy_ps"`
	Wait  int64      `json:"wait_ps"` // of all flits or messages together, behind others
	Load  []byte     `json:"load"`    // by bucket: busy for so many 255ths; those after the last are 0
}

// Share is for which part of the kernel a link was sending, in per cent.
func (r *Record) Share(l *Link) float64 { return 100 * float64(l.Busy) / float64(r.Kernel) }

// Step is a piece of the critical path: what one PE waited for.
type Step struct {
	PE     string           `json:"pe"`
	Sender string           `json:"sender,omitempty"` // of the message that it waited for
	Part   string           `json:"part"`             // an engine, pe_cpu, receive slot, link
	Link   string           `json:"link,omitempty"`   // the slowest on the message's way
	Op     string           `json:"op"`
	From   int64            `json:"from_ps"` // after the common start
	To     int64            `json:"to_ps"`
	Causes map[string]int64 `json:"causes"` // each of its picoseconds has one
	Merged int              `json:"merged,omitempty"`
}

// Causes are what time on a critical path goes to.
func Causes() (names []string) {
	for c := range sim.Causes {
		names = append(names, c.String())
	}
	return names
}

// Of makes the record of a launch that was made with sim.Config.Load.
func Of(t *topo.Topology, r *sim.Result) *Record {
	if r == nil || r.Load == nil || r.Crit <= 0 {
		return nil
	}
	rec := &Record{Version: Version, Fabric: string(t.Fabric), SIPs: t.SIPs.Count, Kernel: int64(r.Crit), Plan: planOf(t),
		Bucket: int64(r.Load.Bucket), Buckets: r.Load.Buckets}
	w := topo.NewWiring(t)
	var used []int
	for link, l := range r.Load.Links {
		if l != nil {
			used = append(used, link)
		}
	}
	slices.SortStableFunc(used, func(a, b int) int { return cmp.Compare(r.Busy[b], r.Busy[a]) })
	kept := used[:min(MaxLinks, len(used))]
	rec.Others = len(used) - len(kept)
	for _, link := range kept {
		l := r.Load.Links[link]
		sip, from, to := w.Place(link)
		one := Link{Name: w.LinkName(link), SIP: sip, Line: [4]float64{mm(from.X), mm(from.Y), mm(to.X), mm(to.Y)},
			Bytes: l.Bytes,
			Busy:  int64(r.Busy[link]), Wait: int64(l.Wait), Load: make([]byte, len(l.Busy))}
		for k, busy := range l.Busy {
			one.Load[k] = byte((busy*255 + r.Load.Bucket/2) / r.Load.Bucket)
		}
		rec.Links = append(rec.Links, one)
	}
	rec.Path = Condense(steps(w, r), MaxSteps)
	return rec
}

func mm(l topo.Length) float64 { return float64(l) / 1000 }

func planOf(t *topo.Topology) Plan {
	w, h := t.Plan()
	return Plan{W: mm(w), H: mm(h), Boxes: lists.Map(t.Boxes(), func(b topo.Box) Box {
		return Box{b.Kind, b.Name, mm(b.At.X), mm(b.At.Y), mm(b.W), mm(b.H)}
	})}
}

// steps are the critical path; what one part of a PE does without a break is one step.
func steps(w *topo.Wiring, r *sim.Result) (path []Step) {
	for _, s := range r.Path {
		one := Step{PE: s.PE.String(), Part: s.Part, Op: s.Op.String(), From: int64(s.From - r.Start),
			To:     int64(s.To - r.Start),
			Causes: map[string]int64{s.Cause.String(): int64(s.To - s.From)}}
		if s.Host {
			one.PE = fmt.Sprintf("host of sip%d", s.PE.SIP)
		}
		if s.Sender != nil {
			one.Sender = s.Sender.String()
		}
		if s.Link >= 0 {
			one.Link = w.LinkName(int(s.Link))
		}
		if n := len(path); n > 0 && path[n-1].PE == one.PE && path[n-1].Sender == one.Sender && path[n-1].Part == one.Part &&
			path[n-1].Link == one.Link {
			path[n-1].add(one)
			continue
		}
		path = append(path, one)
	}
	return path
}

// add makes one step of two that follow each other.
func (s *Step) add(next Step) {
	s.To = next.To
	for cause, time := range next.Causes {
		s.Causes[cause] += time
	}
}

// Condense keeps the n longest steps at most; those between two of them become one, so that
// nothing of the time is lost.
func Condense(path []Step, n int) []Step {
	if len(path) <= n {
		return path
	}
	longest := lists.Range[int](len(path))
	slices.SortStableFunc(longest, func(a, b int) int {
		return cmp.Compare(path[b].To-path[b].From, path[a].To-path[a].From)
	})
	keep := make([]bool, len(path))
	for _, i := range longest[:n/2] { // between two there may be one of the others
		keep[i] = true
	}
	var out []Step
	for i, s := range path {
		if last := len(out) - 1; !keep[i] && last >= 0 && out[last].Merged > 0 {
			out[last].add(s)
			out[last].Merged += max(1, s.Merged)
			continue
		}
		if !keep[i] {
			s.Merged, s.Sender, s.Link, s.Op = max(1, s.Merged), "", "", ""
			s.Causes = maps.Clone(s.Causes)
		}
		out = append(out, s)
	}
	for i := range out {
		if m := out[i].Merged; m > 0 {
			out[i].PE, out[i].Part = fmt.Sprintf("%d shorter steps", m), "several"
		}
	}
	return out
}

// Clock is simulated time for benches (bench.State.UseClock) and process groups. Besides the time it
// gives the profile of the latest launch.
type Clock struct {
	Time   func() event.Time
	Record func()                               // makes later launches record what the links carry
	Latest func() (*topo.Topology, *sim.Result) // the latest launch and its machine
}

// Now returns the simulated time in picoseconds.
func (c Clock) Now() int64 { return int64(c.Time()) }

// Deterministic reports true: the same launch always takes the same time.
func (Clock) Deterministic() bool { return true }

// Name returns the name of the clock in results.
func (Clock) Name() string { return "simulated" }

// Look makes later launches record what Inside returns.
func (c Clock) Look() { c.Record() }

// Inside returns the encoded profile of the latest launch, or nil if it was not recorded.
func (c Clock) Inside() ([]byte, error) { return Of(c.Latest()).Encode() }
