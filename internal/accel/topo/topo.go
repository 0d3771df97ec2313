// Package topo describes the simulated accelerator: the number and positions of its SIPs (packages), cubes (dies) and
// PEs (processing elements), which of them are neighbours, and the latency and bandwidth of each part. A Topology is
// read from a YAML file, in which unknown keys are errors. topology.yaml is the built-in one. The package computes
// positions, neighbours, addresses and paths. It simulates nothing.
package topo

import (
	_ "embed"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

//go:embed topology.yaml
var defaultFile []byte

// DefaultFile returns the text of the built-in topology.
func DefaultFile() []byte { return defaultFile }

// Default returns the built-in topology.
func Default() *Topology {
	t, err := Parse("topology.yaml", defaultFile)
	if err != nil {
		panic(err) // cannot happen: a test parses the built-in file
	}
	return t
}

// Fabric is the model of how messages move over links.
type Fabric string

// The models of a message in transit.
const (
	Flits Fabric = "flits" // a sequence of pieces of FlitBytes bytes, which move hop by hop
	Whole Fabric = "whole" // one piece, whose bytes take time only once, at the slowest link
)

// Arbitration is the rule by which a link chooses among the flits that wait for it.
type Arbitration string

// The arbitration rules.
const (
	FIFO       Arbitration = "fifo"        // serves the flit that arrived first
	RoundRobin Arbitration = "round-robin" // serves the links from which flits come in turn
	Age        Arbitration = "age"         // serves the flit whose message was sent first
)

// Queueing is how flits wait at links. The zero value is FIFO with unlimited buffers.
type Queueing struct {
	Rule Arbitration // "" is FIFO
	// Buffer is the number of flits that fit in the buffer at the end of each link; 0: any number. A link sends only if
	// the buffer has room, so a full buffer blocks the links before it (backpressure).
	Buffer int
}

// Plain reports whether flits are served in order of arrival, with unlimited buffers.
func (q Queueing) Plain() bool { return (q.Rule == "" || q.Rule == FIFO) && q.Buffer == 0 }

// Kind is the topology of the SIPs.
type Kind string

// The SIP topologies. They determine which SIPs are neighbours. Physically every SIP is connected to
// one switch.
const (
	Ring  Kind = "ring_1d"
	Torus Kind = "torus_2d"
	Mesh  Kind = "mesh_2d_no_wrap"
)

// Kinds returns the names of the SIP topologies.
func Kinds() []string { return []string{string(Ring), string(Torus), string(Mesh)} }

// Bandwidth is a rate in bytes per microsecond, that is GB/s with three decimals.
type Bandwidth int64

// GBps returns a bandwidth of n GB/s.
func GBps(n int) Bandwidth { return Bandwidth(n) * 1000 }

// Time returns how long a transfer takes, rounded up to a picosecond.
func (b Bandwidth) Time(bytes int) event.Time {
	return event.Time((int64(bytes)*1_000_000 + int64(b) - 1) / int64(b))
}

// Length is a distance in micrometres.
type Length int64

// Pos is a position on a die, from its north-west corner.
type Pos struct{ X, Y Length }

// Grid is a rectangle of cells with the numbers row*W + column.
type Grid struct{ W, H int }

// Count returns the number of cells.
func (g Grid) Count() int { return g.W * g.H }

func (g Grid) String() string { return fmt.Sprintf("%dx%d", g.W, g.H) }

// Topology is the whole accelerator. Cost fields are the time that a node takes for one message or
// command.
type Topology struct {
	Fabric       Fabric
	FlitBytes    int
	queueing     Queueing
	FsPerMM      int64 // propagation delay of wires, in femtoseconds per millimetre
	SIPs         SIPs
	SwitchCost   event.Time
	LinkBW       Bandwidth
	LinkLatency  event.Time
	PCIeCost     event.Time
	IONocCost    event.Time
	IOCPUCost    event.Time
	IOUCIeCost   event.Time
	IONocBW      Bandwidth
	Cubes        Grid
	Gap          Length // between neighbouring cubes
	Cube         Cube
	PE           PE
	addressWidth widths
	overrides    overrides
}

// SIPs describes the packages and how they are connected.
type SIPs struct {
	Count int
	Kind  Kind
	Grid  Grid // a ring is Count x 1

	uneven bool // a link or device of one SIP differs from the others
}

// Cube is one die with its HBM.
type Cube struct {
	W, H       Length
	Noc        Noc
	UCIeConns  int
	UCIeBW     Bandwidth
	UCIeCost   event.Time
	MCPUPos    Pos
	MCPUCost   event.Time
	SRAMPos    Pos
	SRAMBytes  int64
	SRAMCost   event.Time
	SRAMBW     Bandwidth // of the link to its router
	HBM        HBM
	PEGrid     Grid
	PEPos      []Pos
	peRouter   []router // the router nearest to each PE
	mcpu, sram router
}

// Noc is the network on chip of a cube: a grid of routers with a rectangular hole, where the HBM is.
type Noc struct {
	Rows, Cols     int
	HoleRow        int
	HoleCol        int
	HoleH, HoleW   int
	RouterCost     event.Time
	BW             Bandwidth
	pitchX, pitchY Length
}

// HBM is the memory of a cube, divided equally among its PEs. The addresses of a PE's share are
// interleaved over its channels, burst by burst.
type HBM struct {
	Bytes         int64 // per cube
	Channels      int   // per PE
	ChannelBW     Bandwidth
	Burst         int
	Cost          event.Time
	SwitchPenalty event.Time // when a channel changes between reading and writing
	BW            Bandwidth  // of the link to its router
}

// PE describes the costs and sizes of a processing element.
type PE struct {
	CPUCost       event.Time
	DispatchCost  event.Time
	SchedulerCost event.Time
	TCMBytes      int64
	TCMRead       Bandwidth
	TCMWrite      Bandwidth
	TLBCost       event.Time
	MathPerNS     int // f16 elements per nanosecond
	TileM         int
	TileK         int
	TileN         int
	TileCost      event.Time
	FetchBW       Bandwidth
	Tiers         map[Space]Tier // cost of a receive slot, by its memory
	Poll          event.Time     // interval at which a sender polls for a free slot
}

// Tier is the cost of one access to a receive slot in a kind of memory.
type Tier struct {
	BW   Bandwidth
	Cost event.Time
}

// Wire returns the propagation delay over a distance.
func (t *Topology) Wire(l Length) event.Time {
	const fsPerPs, umPerMM = 1000, 1000
	return event.Time((int64(l)*t.FsPerMM + fsPerPs*umPerMM/2) / (fsPerPs * umPerMM))
}

// PEs returns the number of PEs of a cube.
func (t *Topology) PEs() int { return len(t.Cube.PEPos) }

// PEID identifies a PE by its SIP, its cube in the SIP and its number in the cube.
type PEID struct{ SIP, Cube, PE int }

func (p PEID) String() string { return fmt.Sprintf("sip%d.cube%d.pe%d", p.SIP, p.Cube, p.PE) }

// has reports whether the system has a PE.
func (t *Topology) has(p PEID) bool {
	return p.SIP >= 0 && p.SIP < t.SIPs.Count && p.Cube >= 0 && p.Cube < t.Cubes.Count() && p.PE >= 0 && p.PE < t.PEs()
}

// Index returns the number of a PE in the system: SIP by SIP, cube by cube.
func (t *Topology) Index(p PEID) int { return (p.SIP*t.Cubes.Count()+p.Cube)*t.PEs() + p.PE }

// At returns the PE with a number. It is the inverse of Index.
func (t *Topology) At(index int) PEID {
	pes, cubes := t.PEs(), t.Cubes.Count()
	return PEID{index / pes / cubes, index / pes % cubes, index % pes}
}

// TotalPEs returns the number of PEs of the system.
func (t *Topology) TotalPEs() int { return t.SIPs.Count * t.Cubes.Count() * t.PEs() }

// Clone returns a copy whose values can be changed. The slices and maps are shared.
func (t *Topology) Clone() *Topology {
	c := *t
	return &c
}

// WithSIPs returns a copy with w x h SIPs of the given kind.
func (t *Topology) WithSIPs(kind Kind, w, h int) (*Topology, error) {
	c := t.Clone()
	if w < 1 || h < 1 || w > maxSIPs || h > maxSIPs || w*h > maxSIPs {
		return nil, fmt.Errorf("SIPs of %d x %d: want 1 x 1 at least, and %d at most", w, h, maxSIPs)
	}
	c.SIPs = SIPs{Count: w * h, Kind: kind, Grid: Grid{w, h}}
	if kind == Ring && h != 1 {
		return nil, fmt.Errorf("a %s of %d x %d: want a height of 1", kind, w, h)
	}
	return c, c.resolve()
}

// WithCubes returns a copy with another mesh of cubes.
func (t *Topology) WithCubes(w, h int) (*Topology, error) {
	c := t.Clone()
	c.Cubes = Grid{w, h}
	if w < 1 || h < 1 {
		return nil, fmt.Errorf("a cube mesh of %d x %d: want at least 1 x 1", w, h)
	}
	return c, c.resolve()
}

// fieldBits returns the number of bits of an address field with n values.
func fieldBits(n int64) int { return bits.Len64(uint64(n - 1)) }

// neighbor returns the cell next to id on a side, and whether there is one. With wrap the first and
// last cells of a line are neighbours. A cell is never its own neighbour.
func (g Grid) neighbor(id int, side Side, wrap bool) (int, bool) {
	rows, cols := side.Step()
	row, col := id/g.W+rows, id%g.W+cols
	if wrap {
		row, col = (row+g.H)%g.H, (col+g.W)%g.W
	}
	next := row*g.W + col
	ok := row >= 0 && row < g.H && col >= 0 && col < g.W && next != id
	return next, ok
}

// Peer returns the neighbour of a PE in its own cube.
func (t *Topology) Peer(p PEID, side Side) (PEID, bool) {
	pe, ok := t.Cube.PEGrid.neighbor(p.PE, side, false)
	return PEID{p.SIP, p.Cube, pe}, ok
}

// NextCube returns the PE with the same number in the next cube on a side.
func (t *Topology) NextCube(p PEID, side Side) (PEID, bool) {
	cube, ok := t.Cubes.neighbor(p.Cube, side, false)
	return PEID{p.SIP, cube, p.PE}, ok
}

// NextSIP returns the PE with the same number and cube in the next SIP on a side. The SIPs of a ring
// have neighbours in the east and west only.
func (t *Topology) NextSIP(p PEID, side Side) (PEID, bool) {
	sip, ok := t.SIPs.Grid.neighbor(p.SIP, side, t.SIPs.Kind != Mesh)
	return PEID{sip, p.Cube, p.PE}, ok
}

// Symmetric reports whether all SIPs are equal and have neighbours on the same sides. The SIPs at the edges of a mesh
// have fewer neighbours.
func (s SIPs) Symmetric() bool { return s.Kind != Mesh && !s.uneven }

// Shift returns the SIP at the same distance from sip, in rows and columns, as to is from origin, wrapping around. The
// SIPs must be Symmetric.
func (s SIPs) Shift(sip, origin, to int) int {
	w, h := s.Grid.W, s.Grid.H
	row := (sip/w + to/w - origin/w + h) % h
	col := (sip%w + to%w - origin%w + w) % w
	return row*w + col
}

// shortKinds holds the names of kinds that may follow a size.
var shortKinds = map[string]Kind{"ring": Ring, "torus": Torus, "mesh": Mesh,
	string(Ring): Ring, string(Torus): Torus, string(Mesh): Mesh}

// ParseArrangement reads a SIP topology: a kind, or a size and a kind, as in 4x4:torus and 8:ring.
// Without a size the returned grid is zero.
func ParseArrangement(text string) (Kind, Grid, error) {
	size, word, sized := strings.Cut(text, ":")
	if !sized {
		size, word = "", text
	}
	kind, known := shortKinds[word]
	if !known {
		return "", Grid{}, fmt.Errorf("SIPs %q: %w; write a size before the kind, as in 4x4:torus", text,
			suggest.Unknown("SIP topology", word, Kinds()))
	}
	if !sized {
		return kind, Grid{}, nil
	}
	g, err := ParseGrid(size)
	if err == nil && (g.W < 1 || g.H < 1) { // a zero grid means "as in the file"
		err = errors.New("it is empty")
	}
	if err == nil && !strings.Contains(size, "x") && kind != Ring {
		err = errors.New("it has no height")
	}
	if err != nil {
		return kind, g, fmt.Errorf("SIPs %q: want WIDTHxHEIGHT:torus, WIDTHxHEIGHT:mesh or COUNT:ring", text)
	}
	return kind, g, nil
}

// ParseGrid reads WIDTHxHEIGHT, or a width for a single row.
func ParseGrid(text string) (g Grid, err error) {
	g.H = 1
	w, h, two := strings.Cut(text, "x")
	if g.W, err = strconv.Atoi(w); err == nil && two {
		g.H, err = strconv.Atoi(h)
	}
	return g, err
}

// Arrange returns a copy with the SIP topology that a text names (see ParseArrangement). A kind alone
// keeps the number of SIPs, and the grid if possible.
func (t *Topology) Arrange(text string) (*Topology, error) {
	kind, g, err := ParseArrangement(text)
	if err != nil {
		return nil, err
	}
	if g == (Grid{}) {
		g = t.SIPs.gridFor(kind)
	}
	return t.WithSIPs(kind, g.W, g.H)
}

// gridFor returns the grid of the same number of SIPs in a topology of another kind.
func (s SIPs) gridFor(kind Kind) Grid {
	if kind == Ring {
		return Grid{W: s.Count, H: 1}
	}
	if s.Kind != Ring {
		return s.Grid
	}
	w := 1 // the most nearly square grid
	for i := 1; i*i <= s.Count; i++ {
		if s.Count%i == 0 {
			w = i
		}
	}
	return Grid{W: w, H: s.Count / w}
}

// QueueingOf returns how flits wait at the links of a topology.
func QueueingOf(t *Topology) Queueing { return t.queueing }

// WithQueueing returns a copy of a topology with another rule for flits that wait at links.
func WithQueueing(t *Topology, q Queueing) *Topology {
	c := t.Clone()
	c.queueing = q
	return c
}
