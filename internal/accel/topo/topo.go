// Package topo describes the simulated accelerator: how many SIPs, cubes and
// PEs there are, where they are, which are neighbours, and what each part
// costs. A Topology is read from a YAML file, strictly; the one built in is
// topology.yaml. The package computes positions, neighbours and addresses, and
// simulates nothing.
package topo

import (
	_ "embed"
	"fmt"
	"math/bits"

	"github.com/kernbench/kernbench/internal/accel/event"
)

//go:embed topology.yaml
var defaultFile []byte

// DefaultFile is the text of the built-in topology.
func DefaultFile() []byte { return defaultFile }

// Default is the built-in topology.
func Default() *Topology {
	t, err := Parse("topology.yaml", defaultFile)
	if err != nil {
		panic(err) // a test reads it, so it cannot be wrong
	}
	return t
}

// Fabric is how messages move over links.
type Fabric string

// The two models of a message in transit.
const (
	Flits Fabric = "flits" // pieces that follow each other, hop by hop
	Whole Fabric = "whole" // one piece: it drains once, at its slowest link
)

// Kind is how SIPs are connected.
type Kind string

// The SIP topologies. They say which SIPs are neighbours; the wires all go
// to the switch.
const (
	Ring  Kind = "ring_1d"
	Torus Kind = "torus_2d"
	Mesh  Kind = "mesh_2d_no_wrap"
)

// Kinds lists the SIP topologies.
func Kinds() []string { return []string{string(Ring), string(Torus), string(Mesh)} }

// Bandwidth is a rate in bytes per microsecond: GB/s with three decimals.
type Bandwidth int64

// GBps is a whole number of GB/s.
func GBps(n int) Bandwidth { return Bandwidth(n) * 1000 }

// Time is how long so many bytes take, rounded up to a picosecond.
func (b Bandwidth) Time(bytes int) event.Time {
	return event.Time((int64(bytes)*1_000_000 + int64(b) - 1) / int64(b))
}

// Length is a distance in micrometres.
type Length int64

// Pos is a position on a die, from its north-west corner.
type Pos struct{ X, Y Length }

// Grid is a rectangle of numbered cells: id = row*W + column.
type Grid struct{ W, H int }

// Count is the number of cells.
func (g Grid) Count() int { return g.W * g.H }

func (g Grid) String() string { return fmt.Sprintf("%dx%d", g.W, g.H) }

// Topology is the whole accelerator. Times are of one passage or command.
type Topology struct {
	Fabric       Fabric
	FlitBytes    int
	FsPerMM      int64 // of wires, in femtoseconds
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
	Gap          Length
	Cube         Cube
	PE           PE
	addressWidth widths
}

// SIPs says how many packages there are and how they are connected.
type SIPs struct {
	Count int
	Kind  Kind
	Grid  Grid // of a ring: Count x 1
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
	SRAMBW     Bandwidth // of its link to the router
	HBM        HBM
	PEGrid     Grid
	PEPos      []Pos
	peRouter   []router // the router nearest to each
	mcpu, sram router
}

// Noc is the network of routers on a cube.
type Noc struct {
	Rows, Cols     int
	HoleRow        int
	HoleCol        int
	HoleH, HoleW   int
	RouterCost     event.Time
	BW             Bandwidth
	pitchX, pitchY Length
}

// HBM is one PE's share of the memory, as channels that addresses are spread
// over.
type HBM struct {
	Bytes         int64 // of the whole cube
	Channels      int   // of each PE
	ChannelBW     Bandwidth
	Burst         int
	Cost          event.Time
	SwitchPenalty event.Time
	BW            Bandwidth // of its link to the router
}

// PE is a processing element's costs.
type PE struct {
	CPUCost       event.Time
	DispatchCost  event.Time
	SchedulerCost event.Time
	TCMBytes      int64
	TCMRead       Bandwidth
	TCMWrite      Bandwidth
	TLBCost       event.Time
	MathPerNS     int // f16 elements
	TileM         int
	TileK         int
	TileN         int
	TileCost      event.Time
	FetchBW       Bandwidth
	Tiers         map[Space]Tier // cost of a receive slot
	Poll          event.Time
}

// Tier is the cost of one access to a receive slot in a kind of memory.
type Tier struct {
	BW   Bandwidth
	Cost event.Time
}

// Wire is the time a signal takes over a distance.
func (t *Topology) Wire(l Length) event.Time {
	const fsPerPs, umPerMM = 1000, 1000
	return event.Time((int64(l)*t.FsPerMM + fsPerPs*umPerMM/2) / (fsPerPs * umPerMM))
}

// PEs is the number of PEs of a cube.
func (t *Topology) PEs() int { return len(t.Cube.PEPos) }

// PEID names a PE of the system.
type PEID struct{ SIP, Cube, PE int }

func (p PEID) String() string { return fmt.Sprintf("sip%d.cube%d.pe%d", p.SIP, p.Cube, p.PE) }

// Index numbers the PEs of the system.
func (t *Topology) Index(p PEID) int { return (p.SIP*t.Cubes.Count()+p.Cube)*t.PEs() + p.PE }

// At is the inverse of Index.
func (t *Topology) At(index int) PEID {
	pes, cubes := t.PEs(), t.Cubes.Count()
	return PEID{index / pes / cubes, index / pes % cubes, index % pes}
}

// TotalPEs is the number of PEs of the system.
func (t *Topology) TotalPEs() int { return t.SIPs.Count * t.Cubes.Count() * t.PEs() }

// Clone copies the topology, so that a case can differ from the file.
func (t *Topology) Clone() *Topology {
	c := *t
	return &c
}

// WithSIPs is a copy with other SIPs: w x h of the given kind.
func (t *Topology) WithSIPs(kind Kind, w, h int) (*Topology, error) {
	c := t.Clone()
	if w < 1 || h < 1 || w > mostSIPs || h > mostSIPs || w*h > mostSIPs {
		return nil, fmt.Errorf("SIPs of %d x %d: want 1 x 1 at least, and %d at most", w, h, mostSIPs)
	}
	c.SIPs = SIPs{Count: w * h, Kind: kind, Grid: Grid{w, h}}
	if kind == Ring && h != 1 {
		return nil, fmt.Errorf("a %s of %d x %d: want a height of 1", kind, w, h)
	}
	if err := c.settle(); err != nil {
		return nil, err
	}
	return c, nil
}

// WithCubes is a copy with another cube mesh.
func (t *Topology) WithCubes(w, h int) (*Topology, error) {
	c := t.Clone()
	c.Cubes = Grid{w, h}
	if w < 1 || h < 1 {
		return nil, fmt.Errorf("a cube mesh of %d x %d: want at least 1 x 1", w, h)
	}
	if err := c.settle(); err != nil {
		return nil, err
	}
	return c, nil
}

// fieldBits is how many bits number n things.
func fieldBits(n int64) int { return bits.Len64(uint64(n - 1)) }
