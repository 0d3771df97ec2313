// Package tuning defines the tables that choose an algorithm for a call ("auto"), and the notation for such a choice,
// for example ring@64K. It measures nothing: package tune searches for the best settings, and package model makes
// tables from measured times.
package tuning

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/fastjson"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Table is a tuning table: the first entry that matches a call decides. A table is immutable;
// [Table.For] returns a copy for one group.
type Table struct {
	entries []Entry
	hash    string
	group   Group
}

// Group has the properties of a group that entries may depend on.
type Group struct {
	Host      string            // the host that all ranks are on; "" if there are several or it is not known
	Device    string            // the kind of device that every rank has
	PerDevice int               // number of ranks that share a device
	Knobs     map[string]string // the values of all knobs of the backend
}

// Entry matches calls and names an algorithm for them. Zero values match everything.
type Entry struct {
	Backend  string        `json:"backend,omitempty"`
	Host     string        `json:"host,omitempty"` // the name of the host that all ranks are on
	Op       string        `json:"op,omitempty"`
	MinRanks int           `json:"min_ranks,omitempty"`
	MaxRanks int           `json:"max_ranks,omitempty"`
	DTypes   []dtype.DType `json:"dtypes,omitempty"`
	Buffers  string        `json:"buffers,omitempty"` // "symmetric" or "private"
	MinBytes int           `json:"min_bytes,omitempty"`
	MaxBytes int           `json:"max_bytes,omitempty"`

	Device    string            `json:"device,omitempty"`           // the kind of device that every rank has
	PerDevice int               `json:"ranks_per_device,omitempty"` // ranks that share one device
	Knobs     map[string]string `json:"knobs,omitempty"`            // values of the backend's knobs in the group

	Algorithm  string `json:"algorithm"`
	ChunkBytes int    `json:"chunk_bytes,omitempty"`
	Blocks     int    `json:"blocks,omitempty"`
}

// Choice returns the algorithm that the entry names, with its parameters.
func (e Entry) Choice() Choice {
	return Choice{Algorithm: e.Algorithm, ChunkBytes: e.ChunkBytes, Blocks: e.Blocks}
}

//go:embed tuning.json
var builtIn []byte

// Default returns the built-in table.
var Default = sync.OnceValue(func() *Table {
	t, err := Parse(builtIn)
	if err != nil {
		panic("the built-in tuning table: " + err.Error())
	}
	return t
})

// Parse reads a table: {"entries": [...]}. A note is allowed and ignored.
func Parse(text []byte) (*Table, error) {
	var file struct {
		Note    string  `json:"note"`
		Entries []Entry `json:"entries"`
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&file); err != nil {
		return nil, fmt.Errorf("reading a tuning table: %w", err)
	}
	if _, err := strict.Token(); err != io.EOF {
		return nil, fmt.Errorf("reading a tuning table: something follows the object, which ends at byte %d",
			strict.InputOffset())
	}
	if name := fastjson.Duplicate(text); name != "" {
		return nil, fmt.Errorf("reading a tuning table: duplicate key %q", name)
	}
	for i, e := range file.Entries {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("reading a tuning table: entry %d: %w", i, err)
		}
	}
	sum := sha256.Sum256(text)
	return &Table{entries: file.Entries, hash: hex.EncodeToString(sum[:6])}, nil
}

// Load reads a table from a file. Calls that match no entry of the file keep the choice of the
// built-in table.
func Load(path string) (*Table, error) {
	text, err := infile.Read(path, infile.Table)
	if err != nil {
		return nil, fmt.Errorf("reading a tuning table: %w", err)
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t.entries = append(t.entries, Default().entries...)
	return t, nil
}

// ops are the operations that an entry may name.
var ops = []string{schedule.AllReduce, schedule.ReduceScatter, schedule.AllGather, schedule.Broadcast,
	schedule.ReduceTo, schedule.Gather, schedule.Scatter, schedule.AllToAll, schedule.Barrier, "send", "recv"}

func (e Entry) check() error {
	empty := func(what string, low, high int) error {
		if high > 0 && low > high {
			return fmt.Errorf("min_%s is %d and max_%s is %d: no call has such a number", what, low, what, high)
		}
		return nil
	}
	negative := func(a string, av int, b string, bv int) error {
		if av < 0 || bv < 0 {
			return fmt.Errorf("%s is %d and %s is %d, want 0 or more", a, av, b, bv)
		}
		return nil
	}
	switch {
	case e.Op != "" && !slices.Contains(ops, e.Op):
		return suggest.Unknown("operation", e.Op, ops)
	case e.Algorithm == "":
		return fmt.Errorf("no algorithm")
	case strings.Contains(e.Algorithm, pieceMark):
		return fmt.Errorf("algorithm is %q: write the size of the pieces as chunk_bytes", e.Algorithm)
	case strings.Contains(e.Algorithm, blockMark):
		return fmt.Errorf("algorithm is %q: write the number of blocks as blocks", e.Algorithm)
	case e.Buffers != "" && e.Buffers != "symmetric" && e.Buffers != "private":
		return fmt.Errorf("buffers is %q, want symmetric or private", e.Buffers)
	case e.PerDevice > 0 && e.Device == "":
		return fmt.Errorf("ranks_per_device is %d, but there is no device", e.PerDevice)
	}
	return cmp.Or(negative("min_ranks", e.MinRanks, "max_ranks", e.MaxRanks),
		negative("min_bytes", e.MinBytes, "max_bytes", e.MaxBytes), negative("chunk_bytes", e.ChunkBytes, "blocks", e.Blocks),
		negative("ranks_per_device", e.PerDevice, "blocks", e.Blocks), empty("ranks", e.MinRanks, e.MaxRanks),
		empty("bytes", e.MinBytes, e.MaxBytes))
}

// Entries returns the entries of the table, in order.
func (t *Table) Entries() []Entry { return slices.Clone(t.entries) }

// Hash identifies the contents of the table; results record it.
func (t *Table) Hash() string { return t.hash }

// NamesHosts reports whether any entry depends on the host.
func (t *Table) NamesHosts() bool {
	return slices.ContainsFunc(t.entries, func(e Entry) bool { return e.Host != "" })
}

// For returns the table for one group. Entries that name a host, a device or knobs match only there.
func (t *Table) For(g Group) *Table { return &Table{t.entries, t.hash, g} }

// Group returns the group that the table is for.
func (t *Table) Group() Group { return t.group }

// Choose returns the first entry that matches a call on a vector of the given size in bytes, or an
// entry without an algorithm if none does.
func (t *Table) Choose(backend, op string, ranks int, d dtype.DType, bytes int, symmetric bool) Entry {
	buffers := "private"
	if symmetric {
		buffers = "symmetric"
	}
	for _, e := range t.entries {
		if (e.Backend == "" || e.Backend == backend) && (e.Op == "" || e.Op == op) &&
			ranks >= e.MinRanks && (e.MaxRanks == 0 || ranks <= e.MaxRanks) &&
			(len(e.DTypes) == 0 || slices.Contains(e.DTypes, d)) &&
			(e.Buffers == "" || e.Buffers == buffers) &&
			bytes >= e.MinBytes && (e.MaxBytes == 0 || bytes <= e.MaxBytes) && e.suits(t.group) {
			return e
		}
	}
	return Entry{}
}

// suits reports whether the entry matches the group.
func (e Entry) suits(g Group) bool {
	for name, value := range e.Knobs {
		if g.Knobs[name] != value {
			return false
		}
	}
	return (e.Host == "" || e.Host == g.Host) && (e.Device == "" || e.Device == g.Device) &&
		(e.PerDevice == 0 || e.PerDevice == g.PerDevice)
}
