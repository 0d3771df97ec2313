// Package ccl is the collectives of the simulated accelerator: which algorithm,
// with which receive queues (ccl.yaml), and the algorithms themselves, as
// kernels in package tl and as schedules in the sense of package schedule.
package ccl

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

//go:embed ccl.yaml
var defaultFile []byte

// DefaultFile is the text of the built-in configuration.
func DefaultFile() []byte { return defaultFile }

// Default is the built-in configuration.
func Default() *Config {
	c, err := Parse("ccl.yaml", defaultFile)
	if err != nil {
		panic(err) // a test reads it, so it cannot be wrong
	}
	return c
}

// Config says which algorithm is used, and how each is set up.
type Config struct {
	Algorithm  string
	Algorithms map[string]Settings
}

// Settings is how an algorithm runs.
type Settings struct {
	Buffer      topo.Space
	Poll        bool
	Slots       int
	SlotBytes   int
	CreditBytes int
	Root        Root // of LRAB
}

// Root says where in a SIP the sum is made.
type Root string

// The roots.
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

// Names lists the algorithms.
func Names() []string { return []string{LRAB, FlatRing, Tree} }

// Settings are those of the chosen algorithm.
func (c *Config) Settings() Settings { return c.Algorithms[c.Algorithm] }

// With is a copy that uses another algorithm, with changed settings.
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

const mostBytes = 1 << 30

// Load reads a configuration file.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a ccl file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a configuration; the name stands in errors.
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
					fields = append(fields, yamlfile.Field{Key: "root", Optional: true, Read: func(n yamlfile.Node, what string) {
						word, _ := r.Word(n, what, "root", string(Center), string(Corner))
						s.Root = Root(word)
					}})
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

// settings are the keys that defaults must and algorithms may have.
func settings(r *yamlfile.Reader, s *Settings, optional bool) []yamlfile.Field {
	whole := func(key string, into *int, least int) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: optional, Read: func(n yamlfile.Node, what string) {
			*into, _ = r.Int(n, what, least, mostBytes)
		}}
	}
	return []yamlfile.Field{
		{Key: "buffer_kind", Optional: optional, Read: func(n yamlfile.Node, what string) {
			word, _ := r.Word(n, what, "buffer kind", topo.Spaces()...)
			s.Buffer = topo.Space(word)
		}},
		{Key: "backpressure", Optional: optional, Read: func(n yamlfile.Node, what string) {
			word, _ := r.Word(n, what, "back-pressure", "sleep", "poll")
			s.Poll = word == "poll"
		}},
		whole("n_slots", &s.Slots, 1), whole("slot_size", &s.SlotBytes, 2),
		whole("ipcq_credit_size_bytes", &s.CreditBytes, 0),
	}
}
