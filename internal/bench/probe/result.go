package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Schema is the version of the result's format and of the measuring method. Stored results of
// another version are not used.
const Schema = 3

// Result is the measurement of one probe.
type Result struct {
	Schema  int       `json:"schema"`
	Class   string    `json:"class"`   // of the host: see Class
	Version string    `json:"version"` // of the kernbench that measured
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Profile string    `json:"profile"`
	Cores   int       `json:"cores"` // available cores
	// Disturbed describes other load during the probe, which makes the numbers too low. It is "" if
	// there was none.
	Disturbed string `json:"disturbed,omitempty"`

	// Copy and Read are ordered by cores, then size, and have a cell for every combination.
	Copy []Cell `json:"copy"`
	Read []Cell `json:"read"`

	// Hops are the one-way times between pairs of cores, empty with a single core.
	Hops []Hop `json:"hops,omitempty"`
	// Exchange is the rate per core at which several cores send private memory to each other through
	// shared memory, all at the same time. Bytes is the memory that each core touches. It is empty with a
	// single core.
	Exchange []Cell `json:"exchange,omitempty"`
}

// Cell is the bandwidth of a number of cores, each with a working set of Bytes. The working set of a copy
// includes source and destination.
type Cell struct {
	Cores int     `json:"cores"`
	Bytes int64   `json:"bytes"`
	GBps  float64 `json:"gbps"` // 1e9 bytes read and written per second, by all cores together
}

// Hop is the one-way time of a cache line between two cores.
type Hop struct {
	From int     `json:"from"`
	To   int     `json:"to"`
	US   float64 `json:"us"`
}

// Class returns the host's class. It does not depend on the CPU binding of this process, so that a rank
// bound to one core finds the result of its machine.
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

// Version identifies the build, as far as it affects measurements.
func Version(b hostinfo.Build) string {
	if b.Revision == "" {
		return b.Version
	}
	return b.Version + " " + b.Revision
}

// ErrStale means that another machine or another kernbench made the result.
var ErrStale = errors.New("stale probe result")

// Check reports whether the result may be used on this host by this build. The error wraps ErrStale
// if another host or version made it; otherwise the result is malformed.
func (r Result) Check(h hostinfo.Host) error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("%w: its schema is %d, this kernbench's is %d", ErrStale, r.Schema, Schema)
	case r.Class != Class(h):
		return fmt.Errorf("%w: it was measured on a host of class %s, this one's is %s", ErrStale, r.Class, Class(h))
	case r.Version != Version(h.Build):
		return fmt.Errorf("%w: it was measured by kernbench %s, this is %s", ErrStale, r.Version, Version(h.Build))
	}
	return r.validate()
}

// disturbance describes the load of others while this process tree used own ticks, or returns "" if
// it was small.
func disturbance(before, after hostinfo.Load, own uint64, processes int) string {
	foreign, _ := hostinfo.Foreign(before, after, own, processes) // a probe is long enough to know it
	row := journal.Row{Status: journal.OK, Kind: journal.Measured,
		Load: &journal.Load{Steal: hostinfo.Between(before, after).Steal, Foreign: &foreign}}
	if journal.Judge(&row); !row.Disturbed() {
		return ""
	}
	return fmt.Sprintf("during the probe the hypervisor took %.0f %% of this host's CPU time and other programs "+
		"used %.0f %%",
		100*row.Load.Steal, 100*foreign)
}

// remeasureAfter is the age at which a disturbed quick result is measured again.
const remeasureAfter = time.Minute

// needsRemeasure reports whether a stored result should be measured again. A thorough result was made by
// the user, so only the user replaces it.
func (r Result) needsRemeasure(now time.Time) bool {
	return r.Disturbed != "" && r.Profile == Quick.Name && now.Sub(r.Time).Abs() >= remeasureAfter
}

// withBest combines two results of a host. It takes the better value of each number, because disturbances
// only make numbers worse.
func (r Result) withBest(old Result) Result {
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
	return r
}

// validate reports values with which nothing can be computed.
func (r Result) validate() error {
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

// HopUS returns the one-way time of a cache line in microseconds, as the median over the probed
// pairs, or 0 if there are none.
func (r Result) HopUS() float64 {
	if len(r.Hops) == 0 {
		return 0
	}
	return stats.Median(lists.Map(r.Hops, func(h Hop) float64 { return h.US }))
}

// Path returns the default file of a host's result: in the user's cache folder, named after the
// host's class.
func Path(h hostinfo.Host) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the probe result: %w", err)
	}
	return filepath.Join(dir, "kernbench", "probe-"+Class(h)+".json"), nil
}

// Load reads a result and checks that it belongs to this host and build.
func Load(path string, h hostinfo.Host) (Result, error) {
	return read(path, func(r Result) error { return r.Check(h) })
}

// Read reads a result of any host and build, for computing with it.
func Read(path string) (Result, error) {
	return read(path, func(r Result) error {
		if r.Schema != Schema {
			return fmt.Errorf("%w: its schema is %d, this kernbench's is %d", ErrStale, r.Schema, Schema)
		}
		return r.validate()
	})
}

func read(path string, check func(Result) error) (Result, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return Result{}, err
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return Result{}, fmt.Errorf("reading probe result %s: %w", path, err)
	}
	if err := check(r); err != nil {
		return Result{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Save writes a result atomically.
func Save(path string, r Result) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = journal.WriteFileAtomic(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("storing the probe result: %w", err)
	}
	return nil
}

// LoadOrMeasure returns this host's stored result. If there is no usable result, or if it was disturbed
// and is older than remeasureAfter, it measures a quick one and stores it. If the new result cannot be
// stored, it is returned together with the error.
func LoadOrMeasure(ctx context.Context) (Result, error) {
	host := hostinfo.Local()
	path, pathErr := Path(host)
	var old Result // the zero value if there is no usable result
	if pathErr == nil {
		var err error
		if old, err = Load(path, host); err == nil && !old.needsRemeasure(time.Now()) {
			return old, nil
		}
	}
	r, err := Measure(ctx, Quick, time.Now())
	if err != nil {
		return Result{}, err
	}
	r = r.withBest(old)
	if pathErr != nil {
		return r, pathErr
	}
	return r, Save(path, r)
}

// CopyGBps returns the total copy bandwidth of a number of cores, each with a working set of the
// given size.
func (r Result) CopyGBps(cores int, bytes float64) float64 { return lookup(r.Copy, cores, bytes) }

// ReadGBps returns the total read bandwidth of a number of cores, each with a working set of the
// given size.
func (r Result) ReadGBps(cores int, bytes float64) float64 { return lookup(r.Read, cores, bytes) }

// ExchangeGBps returns the rate at which each of a number of cores sends private memory to others
// and receives theirs, all at the same time, each with a working set of the given size. It is 0 if
// that was not probed.
func (r Result) ExchangeGBps(cores int, bytes float64) float64 {
	if len(r.Exchange) == 0 {
		return 0
	}
	return lookup(r.Exchange, cores, bytes)
}

// Traffic is the memory traffic of several cores.
type Traffic struct {
	Cores  int     // that work at the same time
	Set    float64 // bytes of memory that each core touches
	Loads  float64 // bytes read, by all cores
	Stores float64 // bytes written, by all cores
}

// TimeUS returns the time in µs that the traffic needs at the probed bandwidths. A load costs as much as
// in the probed read. A store costs the time of the probed copy minus the time of its loads. So a kernel
// that copies needs exactly the time of the probed copy, and a kernel that only reads needs exactly the
// time of the probed read. A reduction, which has two or more loads per store, is in between.
func (r Result) TimeUS(t Traffic) float64 {
	perLoad := 1 / r.ReadGBps(t.Cores, t.Set)
	perStore := max(0, 2/r.CopyGBps(t.Cores, t.Set)-perLoad)
	return (t.Loads*perLoad + t.Stores*perStore) / 1e3
}

// ExchangeUS returns the time in microseconds of an exchange between a number of cores, all at the
// same time: each core sends crossing bytes of its private memory to another core and receives as
// many, and touches memory bytes of its own. It is 0 if exchanges were not probed. The crossing bytes
// are charged at the rate between caches. The touched memory is charged once, even if its bytes cross
// several times: with the extra time, compared with that rate, that an exchange of working sets of
// this size takes.
func (r Result) ExchangeUS(cores int, crossing, memory float64) float64 {
	if len(r.Exchange) == 0 {
		return 0
	}
	fastest := lookup(r.Exchange, cores, 0)
	beyond := 1/lookup(r.Exchange, cores, memory) - 1/fastest
	return (crossing/fastest + memory/2*beyond) / 1e3
}

// lookup interpolates between the probed cells, linearly over the number of cores and over the logarithm
// of the size. Outside the probed range it uses the nearest cell: a set larger than the largest probed one
// is in memory as well, and more ranks than cores do not have more bandwidth.
func lookup(cells []Cell, cores int, bytes float64) float64 {
	below, above := neighbours(cells, cores)
	low := interpolateSize(below, bytes)
	if len(above) == 0 || above[0].Cores == below[0].Cores {
		return low
	}
	share := float64(cores-below[0].Cores) / float64(above[0].Cores-below[0].Cores)
	return low + share*(interpolateSize(above, bytes)-low)
}

// neighbours returns the cells of the largest probed number of cores that is at most cores, and the cells
// of the next larger number, if there is one. If all probed numbers are larger, below has the cells of the
// smallest one.
func neighbours(cells []Cell, cores int) (below, above []Cell) {
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].Cores == cells[0].Cores {
			n++
		}
		if cells[0].Cores > cores && below != nil {
			return below, cells[:n]
		}
		below, cells = cells[:n], cells[n:]
		if below[0].Cores >= cores {
			break
		}
	}
	return below, nil
}

// interpolateSize interpolates within the cells of one number of cores. A smaller set is at least as fast
// as a larger one. So a cell that is slower than a larger set was disturbed, and is raised to its rate.
func interpolateSize(cells []Cell, bytes float64) float64 {
	var rate float64
	for i := len(cells) - 1; i >= 0; i-- {
		larger := rate
		rate = max(rate, cells[i].GBps)
		size := float64(cells[i].Bytes)
		switch {
		case bytes < size:
		case i == len(cells)-1:
			return rate
		default:
			share := math.Log(bytes/size) / math.Log(float64(cells[i+1].Bytes)/size)
			return rate + share*(larger-rate)
		}
	}
	return rate
}
