package probe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Schema is the version of the result's form and of the way it is measured. A
// stored result of another version is not used.
const Schema = 3

// Result is what one probe measured.
type Result struct {
	Schema  int       `json:"schema"`
	Class   string    `json:"class"`   // of the host: see Class
	Version string    `json:"version"` // of the kernbench that measured
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Profile string    `json:"profile"`
	Cores   int       `json:"cores"` // that could be used
	// Disturbed is what went on meanwhile that makes the numbers worse than they are, if anything did.
	Disturbed string `json:"disturbed,omitempty"`

	// Copy and Read are ordered by cores, then size, and have a cell for every
	// combination.
	Copy []Cell `json:"copy"`
	Read []Cell `json:"read"`

	// Hops are the one-way times between pairs of cores; none with a single one.
	Hops []Hop `json:"hops,omitempty"`
	// Exchange is the rate at which each of some cores sends private memory to the
	// others through shared memory, all at once, by the bytes that each of them
	// touches; none with a single core.
	Exchange []Cell `json:"exchange,omitempty"`
	// One-way times in microseconds between the first two cores, 0 when there is
	// only one core: a futex wake to the run of the woken, and eight bytes over a
	// socket with both ends spinning.
	FutexWake float64 `json:"futex_wake_us,omitempty"`
	Unix      float64 `json:"unix_us,omitempty"`
	TCP       float64 `json:"tcp_us,omitempty"`
}

// Cell is the bandwidth of so many cores, each with a working set of so many
// bytes. A copy's working set is source and destination.
type Cell struct {
	Cores int     `json:"cores"`
	Bytes int64   `json:"bytes"`
	GBps  float64 `json:"gbps"` // 1e9 bytes read and written, all cores together
}

// Hop is the one-way time of a cache line between two cores.
type Hop struct {
	From int     `json:"from"`
	To   int     `json:"to"`
	US   float64 `json:"us"`
}

// Class is the host's class without regard to the binding of this process: a
// rank bound to one core belongs to the same machine.
func Class(h hostinfo.Host) string {
	usable := float64(h.CPU.Threads)
	if n := float64(h.CPU.Cpuset); n > 0 {
		usable = min(usable, n)
	}
	if h.CPU.Quota > 0 {
		usable = min(usable, h.CPU.Quota)
	}
	h.CPU.Usable = usable
	return h.Class()
}

// Version names the build as far as it decides what is measured.
func Version(b hostinfo.Build) string {
	if b.Revision == "" {
		return b.Version
	}
	return b.Version + " " + b.Revision
}

// ErrStale marks a result that another machine or another kernbench made.
var ErrStale = errors.New("stale probe result")

// Check says whether the result may be used on this host by this build. A
// result that another host or version made is ErrStale; one that is malformed
// is another error.
func (r Result) Check(h hostinfo.Host) error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("%w: its schema is %d, this kernbench's is %d", ErrStale, r.Schema, Schema)
	case r.Class != Class(h):
		return fmt.Errorf("%w: it was measured on a host of class %s, this one's is %s", ErrStale, r.Class, Class(h))
	case r.Version != Version(h.Build):
		return fmt.Errorf("%w: it was measured by kernbench %s, this is %s", ErrStale, r.Version, Version(h.Build))
	}
	return r.valid()
}

// disturbance says what others did on the host while it was probed by processes that used
// own ticks; nothing if it was little.
func disturbance(before, after hostinfo.Load, own uint64, processes int) string {
	d := journal.Disturbance{Steal: hostinfo.Between(before, after).Steal,
		Foreign: hostinfo.Foreign(before, after, own, processes)}
	if d.Quality() == journal.QualitySettled {
		return ""
	}
	return fmt.Sprintf("meanwhile the hypervisor took %.0f %% of this host's cores away and other programs used %.0f %%",
		100*d.Steal, 100*d.Foreign)
}

// wait is how long a quick result that was disturbed is used before it is measured again.
const wait = time.Minute

// again reports whether a stored result is to be measured again. One that somebody made by
// hand stays until they make another.
func (r Result) again(now time.Time) bool {
	return r.Disturbed != "" && r.Profile == Quick.Name && now.Sub(r.Time).Abs() >= wait
}

// better has the better number of two results of a host where both have one: others make numbers worse,
// never better.
func (r Result) better(old Result) Result {
	for _, cells := range [][2][]Cell{{r.Copy, old.Copy}, {r.Read, old.Read}, {r.Exchange, old.Exchange}} {
		for i, c := range cells[0] {
			for _, o := range cells[1] {
				if o.Cores == c.Cores && o.Bytes == c.Bytes {
					cells[0][i].GBps = max(c.GBps, o.GBps)
				}
			}
		}
	}
	for i, h := range r.Hops {
		for _, o := range old.Hops {
			if o.From == h.From && o.To == h.To {
				r.Hops[i].US = min(h.US, o.US)
			}
		}
	}
	for _, us := range [][2]*float64{{&r.FutexWake, &old.FutexWake}, {&r.Unix, &old.Unix}, {&r.TCP, &old.TCP}} {
		if *us[1] > 0 {
			*us[0] = min(*us[0], *us[1])
		}
	}
	return r
}

// valid reports what the derivations could not compute with.
func (r Result) valid() error {
	for _, table := range []struct {
		name  string
		cells []Cell
	}{{"copy", r.Copy}, {"read", r.Read}, {"exchange", r.Exchange}} {
		if len(table.cells) == 0 && table.name != "exchange" {
			return fmt.Errorf("the probe result has no %s bandwidth", table.name)
		}
		for i, c := range table.cells {
			if c.Cores < 1 || c.Bytes < 1 || !(c.GBps > 0) || math.IsInf(c.GBps, 0) {
				return fmt.Errorf("the probe result's %s bandwidth of %d cores at %d bytes is %v GB/s: want positive numbers",
					table.name, c.Cores, c.Bytes, c.GBps)
			}
			if i > 0 && compareCells(table.cells[i-1], c) >= 0 {
				return fmt.Errorf("the probe result's %s bandwidths are not in the order of cores and size", table.name)
			}
		}
	}
	return nil
}

func compareCells(a, b Cell) int {
	return cmp.Or(cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.Bytes, b.Bytes))
}

// HopUS is the one-way time of a cache line, the median over the probed pairs;
// 0 when there is none.
func (r Result) HopUS() float64 {
	if len(r.Hops) == 0 {
		return 0
	}
	return stats.Median(lists.Map(r.Hops, func(h Hop) float64 { return h.US }))
}
