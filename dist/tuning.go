package dist

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// Tuning says which algorithm "auto" takes: the first entry that matches.
type Tuning struct {
	entries []TuningEntry
	hash    string
	host    string // where it is used; "" matches no entry that names a host
	device  string // that its ranks have, and how many share one
	sharing int
	knobs   map[string]string // of the group
}

// TuningEntry matches calls and names an algorithm for them. Zero values match
// everything.
type TuningEntry struct {
	Backend  string     `json:"backend,omitempty"`
	Host     string     `json:"host,omitempty"` // the name of the host that all ranks are on
	Op       Collective `json:"op,omitempty"`
	MinRanks int        `json:"min_ranks,omitempty"`
	MaxRanks int        `json:"max_ranks,omitempty"`
	DTypes   []DType    `json:"dtypes,omitempty"`
	Buffers  string     `json:"buffers,omitempty"` // "symmetric" or "private"
	MaxBytes int        `json:"max_bytes,omitempty"`
	// Device is the kind of device that every rank has, and PerDevice how many ranks share
	// one: [Capabilities]' Device and Sharing.
	Device    string            `json:"device,omitempty"`
	PerDevice int               `json:"ranks_per_device,omitempty"`
	Knobs     map[string]string `json:"knobs,omitempty"` // of the backend, as the group has them

	Algorithm  string `json:"algorithm"`
	ChunkBytes int    `json:"chunk_bytes,omitempty"`
	Blocks     int    `json:"blocks,omitempty"`
}

//go:embed tuning.json
var builtInTuning []byte

// DefaultTuning is the built-in table.
func DefaultTuning() *Tuning { return defaultTuning() }

var defaultTuning = sync.OnceValue(func() *Tuning {
	t, err := ParseTuning(builtInTuning)
	if err != nil {
		panic("dist: the built-in tuning table: " + err.Error())
	}
	return t
})

// ParseTuning reads a table: {"entries": [...]}.
func ParseTuning(text []byte) (*Tuning, error) {
	var file struct {
		Entries []TuningEntry `json:"entries"`
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&file); err != nil {
		return nil, fmt.Errorf("reading a tuning table: %w", err)
	}
	for i, e := range file.Entries {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("reading a tuning table: entry %d: %w", i, err)
		}
	}
	sum := sha256.Sum256(text)
	return &Tuning{entries: file.Entries, hash: hex.EncodeToString(sum[:6])}, nil
}

// LoadTuning reads a table from a file.
func LoadTuning(path string) (*Tuning, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a tuning table: %w", err)
	}
	t, err := ParseTuning(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (e TuningEntry) check() error {
	if _, err := ParseCollective(string(e.Op)); e.Op != "" && err != nil {
		return err
	}
	switch {
	case e.Algorithm == "":
		return fmt.Errorf("no algorithm")
	case strings.Contains(e.Algorithm, piecesMark):
		return fmt.Errorf("algorithm is %q: the size of its pieces is chunk_bytes", e.Algorithm)
	case strings.Contains(e.Algorithm, blocksMark):
		return fmt.Errorf("algorithm is %q: the number of its blocks is blocks", e.Algorithm)
	case e.Buffers != "" && e.Buffers != "symmetric" && e.Buffers != "private":
		return fmt.Errorf("buffers is %q, want symmetric or private", e.Buffers)
	case e.MinRanks < 0 || e.MaxRanks < 0:
		return fmt.Errorf("min_ranks is %d and max_ranks %d, want 0 or more", e.MinRanks, e.MaxRanks)
	case e.MaxBytes < 0 || e.ChunkBytes < 0:
		return fmt.Errorf("max_bytes is %d and chunk_bytes %d, want 0 or more", e.MaxBytes, e.ChunkBytes)
	case e.PerDevice > 0 && e.Device == "":
		return fmt.Errorf("ranks_per_device is %d, of no device", e.PerDevice)
	case e.PerDevice < 0 || e.Blocks < 0:
		return fmt.Errorf("ranks_per_device is %d and blocks %d, want 0 or more", e.PerDevice, e.Blocks)
	}
	return nil
}

// Entries are the table's entries, in order.
func (t *Tuning) Entries() []TuningEntry { return slices.Clone(t.entries) }

// Hash names the table's contents, for the record of a result.
func (t *Tuning) Hash() string { return t.hash }

// On is the table as a group uses it whose ranks are all on one host, or, with "",
// on several: only there do entries that name a host match.
func (t *Tuning) On(host string) *Tuning {
	on := *t
	on.host = host
	return &on
}

// OnDevice is the table as a group uses it whose ranks have this kind of device, so many
// of them one, and whose knobs have these values: only there do entries that name a device
// match.
func (t *Tuning) OnDevice(name string, ranks int, knobs map[string]string) *Tuning {
	on := *t
	on.device, on.sharing, on.knobs = name, ranks, knobs
	return &on
}

// suits tells whether an entry is for the table's device.
func (t *Tuning) suits(e TuningEntry) bool {
	for name, value := range e.Knobs {
		if t.knobs[name] != value {
			return false
		}
	}
	return (e.Device == "" || e.Device == t.device) && (e.PerDevice == 0 || e.PerDevice == t.sharing)
}

// namesHosts tells whether any choice depends on the host.
func (t *Tuning) namesHosts() bool {
	return slices.ContainsFunc(t.entries, func(e TuningEntry) bool { return e.Host != "" })
}

// Choose gives the entry for a call of so many bytes, or one without an
// algorithm when none matches.
func (t *Tuning) Choose(backend string, op Collective, ranks int, d DType, bytes int, symmetric bool) TuningEntry {
	buffers := "private"
	if symmetric {
		buffers = "symmetric"
	}
	for _, e := range t.entries {
		if (e.Backend == "" || e.Backend == backend) && (e.Host == "" || e.Host == t.host) && (e.Op == "" || e.Op == op) &&
			ranks >= e.MinRanks && (e.MaxRanks == 0 || ranks <= e.MaxRanks) &&
			(len(e.DTypes) == 0 || slices.Contains(e.DTypes, d)) &&
			(e.Buffers == "" || e.Buffers == buffers) &&
			(e.MaxBytes == 0 || bytes <= e.MaxBytes) && t.suits(e) {
			return e
		}
	}
	return TuningEntry{}
}
