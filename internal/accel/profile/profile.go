// Package profile records the inside of a launch on the simulated accelerator: the load of each link over
// time, the positions of the links on the floor plan, and the critical path. A Record is plain data that is
// stored next to a row of results. Of makes it from a result of package sim; Encode and Decode convert it to
// and from a file. Its size is bounded.
package profile

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Version is the version of the file format.
const Version = 1

// The bounds of a record. It has the number of links and steps that exceed them.
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
	Others  int    `json:"others"` // number of links with load that are not in Links
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

// Link is the load of one directed link.
type Link struct {
	Name  string     `json:"name"`
	SIP   int        `json:"sip"`
	Line  [4]float64 `json:"line"` // x and y of both ends on the floor plan
	Bytes int64      `json:"bytes"`
	Busy  int64      `json:"busy_ps"`
	Wait  int64      `json:"wait_ps"` // sum of the times that flits or messages waited for it
	Load  []byte     `json:"load"`    // by bucket: busy share in 255ths; trailing zeros are omitted
}

// Share returns the percentage of the kernel's time for which a link was sending.
func (r *Record) Share(l *Link) float64 { return 100 * float64(l.Busy) / float64(r.Kernel) }

// Step is a piece of the critical path of one PE.
type Step struct {
	PE     string           `json:"pe"`
	Sender string           `json:"sender,omitempty"` // of the message that the PE waited for
	Part   string           `json:"part"`             // an engine, pe_cpu, receive slot or link
	Link   string           `json:"link,omitempty"`   // the slowest link of the message's path
	Op     string           `json:"op"`
	From   int64            `json:"from_ps"` // after the common start
	To     int64            `json:"to_ps"`
	Causes map[string]int64 `json:"causes"` // picoseconds by cause; they add up to the length of the step
	Merged int              `json:"merged,omitempty"`
}

// Causes returns the names of the causes of time on a critical path.
func Causes() (names []string) {
	for c := range sim.Causes {
		names = append(names, c.String())
	}
	return names
}

// Of returns the record of a launch, or nil if it was made without sim.Config.Load.
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
	slices.SortStableFunc(used, func(a, b int) int { return cmp.Compare(r.Busy.Of(b), r.Busy.Of(a)) })
	kept := used[:min(MaxLinks, len(used))]
	rec.Others = len(used) - len(kept)
	for _, link := range kept {
		l := r.Load.Links[link]
		sip, from, to := w.Place(link)
		one := Link{Name: w.LinkName(link), SIP: sip, Line: [4]float64{mm(from.X), mm(from.Y), mm(to.X), mm(to.Y)},
			Bytes: l.Bytes, Busy: int64(r.Busy.Of(link)), Wait: int64(l.Wait), Load: make([]byte, len(l.Busy))}
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

// steps returns the critical path. Consecutive steps of one part of a PE become one step.
func steps(w *topo.Wiring, r *sim.Result) (path []Step) {
	for _, s := range r.Path {
		one := Step{PE: s.PE.String(), Part: s.Part, Op: s.Op.String(), From: int64(s.From - r.Start),
			To: int64(s.To - r.Start), Causes: map[string]int64{s.Cause.String(): int64(s.To - s.From)}}
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

// add appends the next step to s.
func (s *Step) add(next Step) {
	s.To = next.To
	for cause, time := range next.Causes {
		s.Causes[cause] += time
	}
}

// Condense returns a path of at most n steps. It keeps the longest steps and merges the ones between them, so
// that no time is lost.
func Condense(path []Step, n int) []Step {
	if len(path) <= n {
		return path
	}
	longest := lists.Range[int](len(path))
	slices.SortStableFunc(longest, func(a, b int) int {
		return cmp.Compare(path[b].To-path[b].From, path[a].To-path[a].From)
	})
	keep := make([]bool, len(path))
	for _, i := range longest[:n/2] { // half of them, because a merged step may lie between any two
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
			out[i].PE, out[i].Part = unit.Plural(m, "shorter step"), "several"
		}
	}
	return out
}

// Clock is simulated time for benches (bench.State.UseClock) and process groups. It also returns the profile of the
// latest launch.
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

// StartProfile makes later launches record a profile, which [Clock.Profile] returns.
func (c Clock) StartProfile() { c.Record() }

// Profile returns the encoded profile of the latest launch, or nil if it was not recorded.
func (c Clock) Profile() ([]byte, error) { return Of(c.Latest()).Encode() }

// MaxFile is the size limit of an encoded record in bytes; maxText limits it after decompression.
const (
	MaxFile = 4 << 20
	maxText = 16 << 20
	maxName = 200
	maxBox  = 100_000
)

// Encode returns the record as compressed JSON, or nil if r is nil.
func (r *Record) Encode() ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("storing what was seen inside a kernel: %w", err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(text)
		err = errors.Join(err, z.Close())
	}
	if err == nil && b.Len() > MaxFile {
		err = fmt.Errorf("it takes %d bytes, more than %d", b.Len(), MaxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("storing what was seen inside a kernel: %w", err)
	}
	return b.Bytes(), nil
}

// Decode reads an encoded record. It checks everything, because the file may be damaged or not be ours.
func Decode(data []byte) (*Record, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("it has %d bytes, a record has at most %d", len(data), MaxFile)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", maxText)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	return &r, r.check()
}

// check verifies the invariants of a record.
func (r *Record) check() error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("it is of version %d, want %d", r.Version, Version)
	case r.Kernel <= 0 || r.Bucket <= 0 || r.Kernel > math.MaxInt64/512 || r.Bucket > math.MaxInt64/512:
		return fmt.Errorf("a kernel of %d ps in buckets of %d: want both positive", r.Kernel, r.Bucket)
	case r.Buckets < 0 || r.Buckets > MaxBuckets || len(r.Links) > MaxLinks || len(r.Path) > MaxSteps ||
		len(r.Plan.Boxes) > maxBox:
		return fmt.Errorf("%d buckets, %d links, %d steps and %d boxes: want at most %d, %d, %d and %d",
			r.Buckets, len(r.Links), len(r.Path), len(r.Plan.Boxes), MaxBuckets, MaxLinks, MaxSteps, maxBox)
	case r.SIPs < 1 || r.Others < 0 || !drawable(r.Plan.W, r.Plan.H) || r.Plan.W <= 0 || r.Plan.H <= 0:
		return fmt.Errorf("%d SIPs of %g x %g mm, %d other links", r.SIPs, r.Plan.W, r.Plan.H, r.Others)
	}
	for i, b := range r.Plan.Boxes {
		if !drawable(b.X, b.Y, b.W, b.H) || b.W < 0 || b.H < 0 || len(b.Name) > maxName {
			return fmt.Errorf("box %d of the floor plan cannot be drawn", i)
		}
	}
	for i := range r.Links {
		l := &r.Links[i]
		if !drawable(l.Line[:]...) || len(l.Name) > maxName || len(l.Load) > r.Buckets || l.SIP < 0 || l.SIP >= r.SIPs ||
			l.Bytes < 0 || l.Busy < 0 || l.Wait < 0 {
			return fmt.Errorf("link %d (%.60q) has %d buckets of %d, SIP %d of %d, %d bytes, busy %d and waits %d ps",
				i, l.Name, len(l.Load), r.Buckets, l.SIP, r.SIPs, l.Bytes, l.Busy, l.Wait)
		}
	}
	return r.checkPath()
}

// checkPath verifies that each picosecond of the critical path has exactly one cause.
func (r *Record) checkPath() error {
	var at int64
	for i, s := range r.Path {
		var sum int64
		for cause, time := range s.Causes {
			if !slices.Contains(Causes(), cause) || time < 0 || time > r.Kernel {
				return fmt.Errorf("step %d of the critical path has %d ps of %.60q", i, time, cause)
			}
			sum += time
		}
		if s.From != at || s.To <= s.From || sum != s.To-s.From {
			return fmt.Errorf("step %d of the critical path is from %d to %d ps, after one that ended at %d, and its causes "+
				"add up to %d", i, s.From, s.To, at, sum)
		}
		if max(len(s.PE), len(s.Sender), len(s.Part), len(s.Link), len(s.Op)) > maxName {
			return fmt.Errorf("step %d of the critical path has a name of more than %d bytes", i, maxName)
		}
		at = s.To
	}
	if len(r.Path) > 0 && at != r.Kernel {
		return fmt.Errorf("the critical path ends at %d ps, the kernel at %d", at, r.Kernel)
	}
	return nil
}

// drawable reports whether lengths in millimetres are finite and small enough to draw.
func drawable(lengths ...float64) bool {
	for _, l := range lengths {
		if !(math.Abs(l) < 1e6) {
			return false
		}
	}
	return true
}
