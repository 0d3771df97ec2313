package graph

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// The kinds of dimensions, in ASTRA-sim's spelling.
const (
	ring           = "Ring"
	fullyConnected = "FullyConnected"
	star           = "Switch"
)

// dimension is one dimension of a network whose ranks form a grid. Ranks that differ only in this coordinate are
// connected with each other.
type dimension struct {
	Spec
	kind string
	size int
}

// buildDimensions returns a grid of ranks; the first coordinate varies fastest. A ring of two ranks has one cable. The
// latency of a switch is on the links to it, so that a message through it has this latency once.
func buildDimensions(list []dimension) *builder {
	ranks := 1
	for _, d := range list {
		ranks *= d.size
	}
	b := newBuilder(ranks)
	stride := 1
	for i, d := range list {
		name := fmt.Sprintf("dim%d", i)
		for rank := range ranks {
			at := rank / stride % d.size
			first := rank - at*stride
			switch {
			case d.kind == star:
				node := b.node(fmt.Sprintf("switch%d.%d", i, rank/(stride*d.size)*stride+rank%stride))
				cable := b.cable("", int32(rank), node)
				b.link(cable, name, int32(rank), node, d.Spec)
				b.link(cable, name, node, int32(rank), Spec{Rate: d.Rate, Energy: d.Energy})
			case d.kind == ring && (at+1 < d.size || d.size > 2):
				b.connect(name, int32(rank), int32(first+(at+1)%d.size*stride), d.Spec)
			case d.kind == fullyConnected:
				for other := at + 1; other < d.size; other++ {
					b.connect(name, int32(rank), int32(first+other*stride), d.Spec)
				}
			}
		}
		stride *= d.size
	}
	return b
}

// readTorus reads a torus: every rank has a link to both neighbours in every dimension.
func readTorus(f *file, n yamlfile.Node, what string) *builder {
	var s Spec
	var list []dimension
	f.Struct(n, what, append(f.spec(&s), yamlfile.Field{Key: "shape", Read: func(n yamlfile.Node, what string) {
		nodes, _ := f.List(n, what)
		for _, node := range nodes {
			size, _ := f.Int(node, what, 1, maxRanks)
			list = append(list, dimension{kind: ring, size: size})
		}
	}})...)
	ranks := 1
	var sizes []string
	for i := range list {
		list[i].Spec = s
		sizes = append(sizes, fmt.Sprint(list[i].size))
		if ranks *= max(list[i].size, 1); !f.fits(n, what, maxRanks, ranks) {
			return nil
		}
	}
	if f.Err() != nil {
		return nil
	}
	b := buildDimensions(list)
	b.Text = strings.Join(sizes, "x") + " torus"
	return b
}

// AstraKeys are the keys of a network file of ASTRA-sim's analytical backend.
var AstraKeys = []string{"topology", "npus_count", "bandwidth", "latency"}

// ReadAstra reads the values of the AstraKeys: one list each, with one entry per dimension. Bandwidths are in GB/s
// of 10⁹ bytes, latencies in ns. It returns nil after a fault.
func ReadAstra(r *yamlfile.Reader, root yamlfile.Node, values map[string]yamlfile.Node) *Graph {
	f := &file{r}
	var list []dimension
	each := func(key string, read func(d *dimension, n yamlfile.Node)) {
		nodes, ok := f.List(values[key], key)
		switch {
		case !ok:
			return
		case list == nil:
			list = make([]dimension, len(nodes))
		case len(nodes) != len(list):
			f.Fault(values[key], "%s: %d dimensions, but topology has %d", key, len(nodes), len(list))
			return
		}
		for i, n := range nodes {
			read(&list[i], n)
		}
	}
	each("topology", func(d *dimension, n yamlfile.Node) {
		d.kind, _ = f.Word(n, "topology", "kind of dimension", ring, fullyConnected, star)
	})
	each("npus_count", func(d *dimension, n yamlfile.Node) { d.size, _ = f.Int(n, "npus_count", 1, maxRanks) })
	each("bandwidth", func(d *dimension, n yamlfile.Node) {
		v, _ := f.Decimal(n, "bandwidth", 6, MinRate, MaxRate)
		d.Rate = Rate(v)
	})
	each("latency", func(d *dimension, n yamlfile.Node) {
		v, _ := f.Decimal(n, "latency", 3, 0, MaxNS*1000)
		d.Latency = event.Time(v)
	})
	ranks := 1
	var parts []string
	for _, d := range list {
		ranks *= max(d.size, 1)
		links := ranks
		if d.kind == fullyConnected {
			links = ranks * max(d.size, 1)
		}
		if f.Err() != nil || !f.fits(values["npus_count"], "npus_count", maxRanks, ranks) ||
			!f.fits(values["npus_count"], "npus_count", maxLinks, links) {
			return nil
		}
		parts = append(parts, fmt.Sprintf("%s of %d", d.kind, d.size))
	}
	b := buildDimensions(list)
	b.Text = strings.Join(parts, " x ")
	return finished(r, root, "the network", b)
}
