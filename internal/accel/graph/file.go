package graph

import (
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// generator builds a graph from the value of its key in a network file.
type generator struct {
	key  string
	read func(f *file, n yamlfile.Node, what string) *builder // nil after a fault
}

// generators lists all generators. A new one is a file and an entry.
var generators = []generator{
	{"levels", readLevels}, {"fat_tree", readFatTree}, {"rails", readRails}, {"dragonfly", readDragonfly},
	{"torus", readTorus}, {"edges", readEdges},
}

// Keys lists the keys of a network file that describe a graph.
func Keys() []string { return lists.Map(generators, func(g generator) string { return g.key }) }

// Read reads the value of one of the Keys. It returns nil after a fault, which the reader has recorded.
func Read(r *yamlfile.Reader, key string, n yamlfile.Node) *Graph {
	i := slices.IndexFunc(generators, func(g generator) bool { return g.key == key })
	return finished(r, n, key, generators[i].read(&file{r}, n, key))
}

func finished(r *yamlfile.Reader, n yamlfile.Node, what string, b *builder) *Graph {
	if b == nil || r.Err() != nil {
		return nil
	}
	g, err := b.finish()
	if err != nil {
		r.Fault(n, "%s: %v", what, err)
	}
	return g
}

// Bounds of the values in a file: a second, 1 MB/s and 1,000 TB/s, 1 µJ.
const (
	MaxNS     = 1e9
	MinRate   = 1e3
	MaxRate   = 1e12
	MaxEnergy = 1e9
)

// file reads the values of a network file.
type file struct{ *yamlfile.Reader }

// spec returns the fields of a link's parameters.
func (f *file) spec(s *Spec) []yamlfile.Field {
	return []yamlfile.Field{f.rate("bandwidth_gbs", &s.Rate), NS(f.Reader, "latency_ns", &s.Latency), f.energy(s)}
}

// rate returns a field for a bandwidth.
func (f *file) rate(key string, into *Rate) yamlfile.Field {
	return yamlfile.DecimalField(f.Reader, key, into, 6, MinRate, MaxRate)
}

// NS returns a field for a time in nanoseconds.
func NS(r *yamlfile.Reader, key string, into *event.Time) yamlfile.Field {
	return yamlfile.DecimalField(r, key, into, 3, 0, MaxNS*1000)
}

// Energy returns an optional field for an energy in picojoules.
func Energy(r *yamlfile.Reader, key string, into *int64) yamlfile.Field {
	return yamlfile.DecimalField(r, key, into, 3, 0, MaxEnergy).Opt()
}

// energy returns the field for the energy of a link.
func (f *file) energy(s *Spec) yamlfile.Field { return Energy(f.Reader, "pj_per_byte", &s.Energy) }

// share returns an optional field for an over-subscription, in thousandths.
func (f *file) share(into *int64) yamlfile.Field {
	return yamlfile.DecimalField(f.Reader, "oversubscription", into, 3, 1, 1000_000).Opt()
}

// link returns a field whose value is a mapping with a link's parameters and more fields.
func (f *file) link(key string, s *Spec, more ...yamlfile.Field) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
		f.Struct(n, what, append(f.spec(s), more...)...)
	}}
}

// fits reports whether the product of numbers of nodes is not too large, and records a fault if it is.
func (f *file) fits(n yamlfile.Node, what string, high int, factors ...int) bool {
	product := 1
	for _, x := range factors {
		if product *= x; product > high || product < 1 {
			f.Fault(n, "%s: more than %d nodes or links of one kind", what, high)
			return false
		}
	}
	return f.Err() == nil
}
