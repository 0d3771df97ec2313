package loggp

import (
	_ "embed"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Network holds the parameters of the network and of memory.
type Network struct {
	Name     string
	Latency  event.Time
	Overhead event.Time
	Gap      event.Time
	// A rate of 0 means that the operation takes no time. Bandwidth must not be 0.
	Bandwidth, Reduce, Copy Rate
	// Rates for ranks that share a memory; Load is 0 if they do not. Load is for data that no peer has written
	// during the call, Fetch for data that a peer has written, Store for writes.
	Load, Fetch, Store Rate
}

// Rate is a rate in bytes per millisecond, a millionth of a GB/s.
type Rate int64

// Time returns how long a number of bytes takes, rounded up to whole picoseconds.
func (r Rate) Time(bytes int64) event.Time {
	if r == 0 {
		return 0
	}
	const millisecond = uint64(1000 * event.Microsecond)
	high, low := bits.Mul64(uint64(bytes), millisecond)
	whole, rest := bits.Div64(high, low, uint64(r))
	if rest > 0 {
		whole++
	}
	return event.Time(whole)
}

//go:embed network.yaml
var builtIn []byte

// Default returns the built-in network.
var Default = sync.OnceValue(func() Network {
	n, err := Parse("network.yaml", builtIn)
	if err != nil {
		panic("loggp: " + err.Error())
	}
	return n
})

// Load reads a network file.
func Load(path string) (Network, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return Network{}, fmt.Errorf("reading a network: %w", err)
	}
	return Parse(path, data)
}

// Bounds of the values in a file: a second, 1 MB/s and 1,000 TB/s.
const (
	maxNS   = 1e9
	minRate = 1e3
	maxRate = 1e12
)

// Parse reads the text of a network file; name appears in errors. All faults are reported at once, each
// with line and column.
func Parse(name string, data []byte) (Network, error) {
	r, root := yamlfile.Parse(name, data, "network", "name, latency_ns, overhead_ns, gap_ns and bandwidth_gbs")
	if root == nil {
		return Network{}, r.Err()
	}
	var n Network
	ns := func(key string, into *event.Time) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(node yamlfile.Node, what string) {
			v, _ := r.Decimal(node, what, 3, 0, maxNS*1000)
			*into = event.Time(v)
		}}
	}
	rate := func(key string, into *Rate, optional bool) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: optional, Read: func(node yamlfile.Node, what string) {
			least := int64(minRate)
			if optional {
				least = 0
			}
			v, _ := r.Decimal(node, what, 6, least, maxRate)
			*into = Rate(v)
		}}
	}
	r.Struct(root, "the network",
		yamlfile.Field{Key: "name", Read: func(node yamlfile.Node, what string) {
			if s, ok := r.Text(node, what); ok {
				n.Name = s.Text
			}
		}},
		ns("latency_ns", &n.Latency), ns("overhead_ns", &n.Overhead), ns("gap_ns", &n.Gap),
		rate("bandwidth_gbs", &n.Bandwidth, false), rate("reduce_gbs", &n.Reduce, true), rate("copy_gbs", &n.Copy, true))
	if err := r.Err(); err != nil {
		return Network{}, err
	}
	if n.Name == "" {
		return Network{}, errors.New(name + ": the network has no name")
	}
	return n, nil
}
