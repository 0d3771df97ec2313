package loggp

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/graph"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Network holds the parameters of the network and of memory.
type Network struct {
	Name     string
	Latency  event.Time
	Overhead event.Time
	Gap      event.Time
	Launch   event.Time // of a collective, on every rank, before its first step
	// A rate of 0 means that the operation takes no time. Bandwidth must not be 0.
	Bandwidth, Reduce, Copy Rate
	// Rates for ranks that share a memory; Load is 0 if they do not. Load is for data that no peer has written
	// during the call, Fetch for data that a peer has written, Store for writes.
	Load, Fetch, Store Rate
	// Graph has the links of the network. nil: the network is flat. Latency and Bandwidth are for flat networks only.
	Graph  *graph.Graph
	Energy Energy
	Faults []Fault
}

// Rate is a rate in bytes per millisecond, a millionth of a GB/s.
type Rate = graph.Rate

// Energy holds the energy that the parts of a machine take, in femtojoules; 0: not given.
type Energy struct {
	Link   int64 // for each byte on a link of a flat network; the links of a graph have their own
	Memory int64 // for each byte that is read from memory or written to it
	Op     int64 // for each arithmetic operation
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

// Open returns the network of a file, or the built-in one if path is empty, with more faults (see ParseFaultList).
func Open(path, faults string) (n Network, err error) {
	if n = Default(); path != "" {
		if n, err = Load(path); err != nil {
			return n, err
		}
	}
	more, err := ParseFaultList(faults)
	n.Faults = append(slices.Clip(n.Faults), more...)
	return n, err
}

// Load reads a network file.
func Load(path string) (Network, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return Network{}, fmt.Errorf("reading a network: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a network file; name appears in errors. The file describes a flat network, a graph
// (graph.Keys), or a network in the format of ASTRA-sim's analytical backend. All faults are reported at once,
// each with line and column.
func Parse(name string, data []byte) (Network, error) {
	r, root := yamlfile.Parse(name, data, "network", "name, latency_ns, overhead_ns, gap_ns and bandwidth_gbs")
	if root == nil {
		return Network{}, r.Err()
	}
	f := &networkFile{Reader: r, keys: map[string]yamlfile.Node{}}
	for _, e := range r.Peek(root) {
		f.keys[e.Key] = e.Value
	}
	switch has := func(key string) bool { return f.keys[key] != nil }; {
	case slices.ContainsFunc(graph.AstraKeys, has):
		f.astra(root)
	case slices.ContainsFunc(graph.Keys(), has):
		f.graph(root)
	default:
		f.flat(root)
	}
	if err := r.Err(); err != nil {
		return Network{}, err
	}
	if f.network.Name == "" {
		return Network{}, errors.New(name + ": the network has no name")
	}
	return f.network, nil
}

// networkFile reads a network file.
type networkFile struct {
	*yamlfile.Reader
	keys    map[string]yamlfile.Node // of the root
	network Network
}

func (f *networkFile) flat(root yamlfile.Node) {
	n := &f.network
	f.Struct(root, "the network", append(f.common(), f.name(), graph.NS(f.Reader, "latency_ns", &n.Latency),
		graph.NS(f.Reader, "overhead_ns", &n.Overhead), graph.NS(f.Reader, "gap_ns", &n.Gap),
		f.rate("bandwidth_gbs", &n.Bandwidth, false),
		graph.Energy(f.Reader, "pj_per_byte", &n.Energy.Link))...)
}

func (f *networkFile) graph(root yamlfile.Node) {
	fields := append(f.common(), f.name())
	found := ""
	for _, key := range graph.Keys() {
		fields = append(fields, yamlfile.Field{Key: key, Optional: true, Read: func(node yamlfile.Node, what string) {
			if found != "" {
				f.Fault(node, "the network has %s already: %s would be a second one", found, what)
				return
			}
			found, f.network.Graph = what, graph.Read(f.Reader, what, node)
		}})
	}
	f.Struct(root, "the network", append(fields, f.ends()...)...)
}

// astra reads a file in ASTRA-sim's format, which may also contain keys of our own format. Such a file has no name, so
// the network gets one.
func (f *networkFile) astra(root yamlfile.Node) {
	f.network.Name = "astra-sim"
	fields := append(append(f.common(), f.name().Opt()), f.ends()...)
	for _, key := range graph.AstraKeys {
		fields = append(fields, yamlfile.Field{Key: key, Read: func(yamlfile.Node, string) {}})
	}
	if f.Struct(root, "the network", fields...); f.Err() == nil {
		f.network.Graph = graph.ReadAstra(f.Reader, root, f.keys)
	}
}

func (f *networkFile) name() yamlfile.Field {
	return yamlfile.Field{Key: "name", Read: func(node yamlfile.Node, what string) {
		if s, ok := f.Text(node, what); ok {
			f.network.Name = s.Text
		}
	}}
}

// ends returns the fields of the ranks' ends, which a graph need not have.
func (f *networkFile) ends() []yamlfile.Field {
	return []yamlfile.Field{graph.NS(f.Reader, "overhead_ns", &f.network.Overhead).Opt(),
		graph.NS(f.Reader, "gap_ns", &f.network.Gap).Opt()}
}

// common returns the fields that all networks may have.
func (f *networkFile) common() []yamlfile.Field {
	n := &f.network
	return []yamlfile.Field{graph.NS(f.Reader, "launch_ns", &n.Launch).Opt(), f.rate("reduce_gbs", &n.Reduce, true),
		f.rate("copy_gbs", &n.Copy, true), graph.Energy(f.Reader, "memory_pj_per_byte", &n.Energy.Memory),
		graph.Energy(f.Reader, "pj_per_op", &n.Energy.Op), f.faults()}
}

func (f *networkFile) rate(key string, into *Rate, optional bool) yamlfile.Field {
	if optional {
		return yamlfile.DecimalField(f.Reader, key, into, 6, 0, graph.MaxRate).Opt()
	}
	return yamlfile.DecimalField(f.Reader, key, into, 6, graph.MinRate, graph.MaxRate)
}

// faults returns the field of the network's faults, in the notation of the options.
func (f *networkFile) faults() yamlfile.Field {
	return yamlfile.Field{Key: "faults", Optional: true, Read: func(node yamlfile.Node, what string) {
		var fields []yamlfile.Field
		for _, kind := range FaultKinds() {
			key := strings.ReplaceAll(kind.Name, "-", "_")
			fields = append(fields, yamlfile.Field{Key: key, Optional: true, Read: func(node yamlfile.Node, what string) {
				items := []yamlfile.Node{node}
				if f.IsList(node) {
					items, _ = f.List(node, what)
				}
				for _, item := range items {
					f.fault(kind.Name, item, what)
				}
			}})
		}
		f.Struct(node, what, fields...)
	}}
}

// fault reads a fault. In some places, YAML parses 3:2x without quotes as a mapping, so fault accepts a mapping too.
func (f *networkFile) fault(kind string, node yamlfile.Node, what string) {
	var texts []string
	if f.IsMapping(node) {
		entries, _ := f.Mapping(node, what)
		for _, e := range entries {
			if s, ok := f.Text(e.Value, what); ok {
				texts = append(texts, e.Key+":"+s.Text)
			}
		}
	} else if s, ok := f.Text(node, what); ok {
		texts = append(texts, s.Text)
	}
	for _, text := range texts {
		faults, err := ParseFaults(kind, text)
		if err != nil {
			f.Fault(node, "%s: %v", what, err)
		}
		f.network.Faults = append(f.network.Faults, faults...)
	}
}
