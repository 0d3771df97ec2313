// Package loggp is a flat network that runs schedules: LogGP (Alexandrov et al., 1995) with
// contention at the receiver. Every rank reaches every other one alike. It is pure: no data
// moves, only time, and the same input gives the same picosecond.
//
// A message of k bytes keeps its sender busy for the overhead o. Then its bytes leave, one
// after the other at the bandwidth, as soon as those of the sender's earlier messages have
// left; the first is at the receiver a latency L later, and they are taken in as soon as
// those of messages that came earlier have been. Each end is busy with a message for the gap g
// longer than its bytes take. When the last byte is there and the receiver asks for it, it is
// busy for o again. So a message that meets nobody takes 2o + L + k/B.
//
// A send is complete when its bytes have left, both halves of an exchange go on at once, and
// flags are messages without bytes. Reading a peer's memory is a message without bytes to the
// peer's end of the network, which sends the data without the peer's help; writing to it is a
// message that nobody receives. Adding and copying take their bytes at rates of their own.
// Where ranks share a memory (Load is not 0) there are no such messages: a rank loads what it
// reads and stores what it writes, wherever it lies, and what a peer wrote during the call it
// fetches from the peer's caches. Flags go between caches as they do over a network.
//
// Not modelled: what lies between the ends, so no congestion there; finite buffers; a
// hand-shake before large messages.
package loggp

import (
	_ "embed"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Network is what a message costs.
type Network struct {
	Name     string
	Latency  event.Time
	Overhead event.Time
	Gap      event.Time
	// The rates are in bytes per millisecond; 0: no time, of all but Bandwidth.
	Bandwidth, Reduce, Copy Rate
	// Of a rank that reads and writes peers' memory by itself, all or none: Load is of what no peer
	// has written during the call, Fetch of what one has, Store of what is written.
	Load, Fetch, Store Rate
}

// Rate is bytes per millisecond: a millionth of a GB/s.
type Rate int64

// Time is how long so many bytes take, rounded up to whole picoseconds.
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

// Default is the built-in network.
var Default = sync.OnceValue(func() Network {
	n, err := Parse("network.yaml", builtIn)
	if err != nil {
		panic("loggp: " + err.Error())
	}
	return n
})

// Load reads a network file.
func Load(path string) (Network, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Network{}, fmt.Errorf("reading a network: %w", err)
	}
	return Parse(path, data)
}

// Bounds of what a file may say: a second, 1 MB/s and 1,000 TB/s.
const (
	mostNS    = 1e9
	leastRate = 1e3
	mostRate  = 1e12
)

// Parse reads the text of a network file; the name is for errors. All faults are reported at
// once, each with line and column.
func Parse(name string, data []byte) (Network, error) {
	r, root := yamlfile.Parse(name, data, "network", "name, latency_ns, overhead_ns, gap_ns and bandwidth_gbs")
	if root == nil {
		return Network{}, r.Err()
	}
	var n Network
	ns := func(key string, into *event.Time) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(node yamlfile.Node, what string) {
			v, _ := r.Decimal(node, what, 3, 0, mostNS*1000)
			*into = event.Time(v)
		}}
	}
	rate := func(key string, into *Rate, optional bool) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: optional, Read: func(node yamlfile.Node, what string) {
			least := int64(leastRate)
			if optional {
				least = 0
			}
			v, _ := r.Decimal(node, what, 6, least, mostRate)
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
