// Package ccl implements the collectives of the simulated accelerator. It reads their configuration (ccl.yaml), which
// selects an algorithm and sets up the receive queues, and contains the algorithms as kernels of package tl.
package ccl

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

//go:embed ccl.yaml
var defaultFile []byte

// DefaultFile returns the text of the built-in configuration.
func DefaultFile() []byte { return defaultFile }

// Default returns the built-in configuration.
func Default() *Config {
	c, err := Parse("ccl.yaml", defaultFile)
	if err != nil {
		panic(err) // a test reads it, so it cannot be wrong
	}
	return c
}

// Config holds the algorithm in use and the settings of each algorithm.
type Config struct {
	Algorithm  string
	Algorithms map[string]Settings
}

// Settings are the settings of an algorithm.
type Settings struct {
	Buffer      topo.Space // memory of the receive slots
	Poll        bool       // a sender without a free slot polls instead of sleeping
	Slots       int        // per receive queue
	SlotBytes   int
	CreditBytes int  // size of the message that returns a slot to the sender
	Root        Root // LRAB only
}

// Root is the cube of a SIP in which LRAB computes the sum.
type Root string

// The roots: the cube in the middle of the grid, or the one in the south-east corner.
const (
	Center Root = "center"
	Corner Root = "corner"
)

// The algorithms.
const (
	LRAB     = "lrab_hierarchical_allreduce"
	FlatRing = "flat_ring"
	Tree     = "tree"
)

// Names returns the names of the algorithms.
func Names() []string { return []string{LRAB, FlatRing, Tree} }

// Settings returns the settings of the algorithm in use.
func (c *Config) Settings() Settings { return c.Algorithms[c.Algorithm] }

// With returns a copy that uses the given algorithm, with its settings changed by change.
func (c *Config) With(algorithm string, change func(*Settings)) (*Config, error) {
	s, known := c.Algorithms[algorithm]
	if !known {
		return nil, suggest.Unknown("algorithm", algorithm, slices.Collect(maps.Keys(c.Algorithms)))
	}
	change(&s)
	copied := &Config{Algorithm: algorithm, Algorithms: maps.Clone(c.Algorithms)}
	copied.Algorithms[algorithm] = s
	return copied, nil
}

const maxBytes = 1 << 30 // upper limit of all sizes

// Load reads a configuration file.
func Load(path string) (*Config, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return nil, fmt.Errorf("reading a ccl file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a configuration; name appears in errors.
func Parse(name string, data []byte) (*Config, error) {
	r, root := yamlfile.Parse(name, data, "ccl configuration", "defaults and algorithms")
	if root == nil {
		return nil, r.Err()
	}
	c := &Config{Algorithms: map[string]Settings{}}
	defaults := Settings{Root: Center}
	var chosen yamlfile.Node
	r.Struct(root, "the ccl configuration",
		yamlfile.Field{Key: "defaults", Read: func(n yamlfile.Node, what string) {
			r.Struct(n, what, append(settings(r, &defaults, false),
				yamlfile.Field{Key: "algorithm", Read: func(n yamlfile.Node, what string) {
					chosen = n
					c.Algorithm, _ = r.Word(n, what, "algorithm", Names()...)
				}})...)
		}},
		yamlfile.Field{Key: "algorithms", Read: func(n yamlfile.Node, what string) {
			entries, _ := r.Mapping(n, what)
			for _, e := range entries {
				if !slices.Contains(Names(), e.Key) {
					r.Fault(e.At, "%s: %v", what, suggest.Unknown("algorithm", e.Key, Names()))
					continue
				}
				s := defaults
				fields := settings(r, &s, true)
				if e.Key == LRAB {
					fields = append(fields,
						yamlfile.WordField(r, "root", "root", &s.Root, string(Center), string(Corner)).Opt())
				}
				r.Struct(e.Value, what+"."+e.Key, fields...)
				c.Algorithms[e.Key] = s
			}
		}})
	if _, there := c.Algorithms[c.Algorithm]; !there && r.Err() == nil {
		r.Fault(chosen, "defaults.algorithm: %q is not among the algorithms", c.Algorithm)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// settings returns the fields of Settings. They are required in defaults and optional in algorithms.
func settings(r *yamlfile.Reader, s *Settings, optional bool) []yamlfile.Field {
	fields := []yamlfile.Field{
		yamlfile.WordField(r, "buffer_kind", "buffer kind", &s.Buffer, topo.Spaces()...),
		{Key: "backpressure", Read: func(n yamlfile.Node, what string) {
			word, _ := r.Word(n, what, "back-pressure", "sleep", "poll")
			s.Poll = word == "poll"
		}},
		r.IntField("n_slots", &s.Slots, 1, maxBytes), r.IntField("slot_size", &s.SlotBytes, 2, maxBytes),
		r.IntField("ipcq_credit_size_bytes", &s.CreditBytes, 0, maxBytes),
	}
	for i := range fields {
		fields[i].Optional = optional
	}
	return fields
}
