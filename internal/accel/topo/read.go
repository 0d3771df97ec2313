package topo

import (
	"errors"
	"fmt"
	"math/bits"
	"os"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Limits that keep a topology within what can be simulated.
const (
	mostSIPs  = 4096
	mostSide  = 32
	mostBytes = 1 << 20
	mostMB    = 1 << 20
	mostGB    = 1 << 12
)

// Load reads a topology file.
func Load(path string) (*Topology, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a topology: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a topology file; the name is for errors. All
// faults are reported at once, each with line and column.
func Parse(name string, data []byte) (*Topology, error) {
	return parse(name, data, func(*yamlfile.Reader) {})
}

func parse(name string, data []byte, watch func(*yamlfile.Reader)) (*Topology, error) {
	file, root := yamlfile.Parse(name, data, "topology", "system, io_chiplet, sip, cube and pe")
	if root == nil {
		return nil, file.Err()
	}
	watch(file)
	t := &Topology{}
	r := reader{file, t}
	file.Struct(root, "the topology",
		r.group("system", r.system),
		r.group("io_chiplet", func() []yamlfile.Field {
			return []yamlfile.Field{r.ns("pcie_ep_overhead_ns", &t.PCIeCost), r.ns("noc_overhead_ns", &t.IONocCost),
				r.ns("io_cpu_overhead_ns", &t.IOCPUCost), r.ns("ucie_overhead_ns", &t.IOUCIeCost), r.rate("noc_bw_gbs", &t.IONocBW)}
		}),
		r.group("sip", func() []yamlfile.Field {
			return []yamlfile.Field{r.grid("cubes", &t.Cubes), r.length("gap_mm", &t.Gap)}
		}),
		r.group("cube", r.cube),
		r.group("pe", r.pe))
	if err := file.Err(); err != nil {
		return nil, err
	}
	if err := t.settle(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// reader fills in a topology: one method per kind of value.
type reader struct {
	*yamlfile.Reader
	t *Topology
}

func (r reader) system() []yamlfile.Field {
	t := r.t
	return []yamlfile.Field{
		{Key: "fabric", Read: func(n yamlfile.Node, what string) {
			word, _ := r.Word(n, what, "fabric", string(Flits), string(Whole))
			t.Fabric = Fabric(word)
		}},
		r.whole("flit_bytes", &t.FlitBytes, 16, mostBytes),
		{Key: "ns_per_mm", Read: func(n yamlfile.Node, what string) {
			t.FsPerMM, _ = r.Decimal(n, what, 6, 0, 1000*1e6)
		}},
		{Key: "sips", Read: r.sips},
		r.group("switch", func() []yamlfile.Field { return []yamlfile.Field{r.ns("overhead_ns", &t.SwitchCost)} }),
		r.group("link", func() []yamlfile.Field {
			return []yamlfile.Field{r.rate("bw_gbs", &t.LinkBW), r.ns("latency_ns", &t.LinkLatency)}
		}),
	}
}

func (r reader) cube() []yamlfile.Field {
	c := &r.t.Cube
	return []yamlfile.Field{
		{Key: "size_mm", Read: func(n yamlfile.Node, what string) {
			p := r.pos(n, what, 1)
			c.W, c.H = p.X, p.Y
		}},
		r.group("noc", func() []yamlfile.Field {
			return []yamlfile.Field{
				r.whole("rows", &c.Noc.Rows, 1, mostSide), r.whole("cols", &c.Noc.Cols, 1, mostSide),
				r.group("hole", func() []yamlfile.Field {
					return []yamlfile.Field{r.whole("row", &c.Noc.HoleRow, 0, mostSide), r.whole("col", &c.Noc.HoleCol, 0, mostSide),
						r.whole("h", &c.Noc.HoleH, 0, mostSide), r.whole("w", &c.Noc.HoleW, 0, mostSide)}
				}),
				r.ns("router_overhead_ns", &c.Noc.RouterCost), r.rate("bw_gbs", &c.Noc.BW)}
		}),
		r.group("ucie", func() []yamlfile.Field {
			return []yamlfile.Field{r.whole("connections", &c.UCIeConns, 1, mostSide), r.rate("bw_gbs", &c.UCIeBW),
				r.ns("overhead_ns", &c.UCIeCost)}
		}),
		r.group("m_cpu", func() []yamlfile.Field {
			return []yamlfile.Field{r.position("pos_mm", &c.MCPUPos), r.ns("overhead_ns", &c.MCPUCost)}
		}),
		r.group("sram", func() []yamlfile.Field {
			return []yamlfile.Field{r.position("pos_mm", &c.SRAMPos), r.memory("size_mb", &c.SRAMBytes, 1<<20, mostMB),
				r.ns("overhead_ns", &c.SRAMCost), r.rate("router_bw_gbs", &c.SRAMBW)}
		}),
		r.group("hbm", r.hbm),
		r.grid("pe_grid", &c.PEGrid),
		{Key: "pe_pos_mm", Read: func(n yamlfile.Node, what string) {
			items, _ := r.List(n, what)
			for i, item := range items {
				c.PEPos = append(c.PEPos, r.pos(item, fmt.Sprintf("%s[%d]", what, i), 0))
			}
		}},
	}
}

func (r reader) hbm() []yamlfile.Field {
	h := &r.t.Cube.HBM
	var perMille int64
	return []yamlfile.Field{
		r.memory("total_gb", &h.Bytes, 1<<30, mostGB),
		r.power("pseudo_channels", &h.Channels), r.rate("channel_bw_gbs", &h.ChannelBW), r.power("burst_bytes", &h.Burst),
		{Key: "efficiency", Read: func(n yamlfile.Node, what string) {
			perMille, _ = r.Decimal(n, what, 3, 1, 1000)
			h.ChannelBW = h.ChannelBW * Bandwidth(perMille) / 1000
		}},
		r.ns("overhead_ns", &h.Cost), r.ns("switch_penalty_ns", &h.SwitchPenalty), r.rate("router_bw_gbs", &h.BW),
	}
}

func (r reader) pe() []yamlfile.Field {
	p := &r.t.PE
	p.Tiers = map[Space]Tier{}
	tier := func(s Space) yamlfile.Field {
		var tier Tier
		return yamlfile.Field{Key: string(s), Read: func(n yamlfile.Node, what string) {
			r.Struct(n, what, r.rate("bw_gbs", &tier.BW), r.ns("overhead_ns", &tier.Cost))
			p.Tiers[s] = tier
		}}
	}
	return []yamlfile.Field{
		r.group("cpu", func() []yamlfile.Field {
			return []yamlfile.Field{r.ns("overhead_ns", &p.CPUCost), r.ns("dispatch_ns", &p.DispatchCost)}
		}),
		r.group("scheduler", func() []yamlfile.Field { return []yamlfile.Field{r.ns("overhead_ns", &p.SchedulerCost)} }),
		r.group("tcm", func() []yamlfile.Field {
			return []yamlfile.Field{r.memory("size_mb", &p.TCMBytes, 1<<20, mostMB),
				r.rate("read_bw_gbs", &p.TCMRead), r.rate("write_bw_gbs", &p.TCMWrite)}
		}),
		r.group("mmu", func() []yamlfile.Field { return []yamlfile.Field{r.ns("tlb_overhead_ns", &p.TLBCost)} }),
		r.group("math", func() []yamlfile.Field {
			return []yamlfile.Field{r.whole("elements_per_ns", &p.MathPerNS, 1, mostBytes)}
		}),
		r.group("gemm", func() []yamlfile.Field {
			return []yamlfile.Field{{Key: "tile", Read: r.tile}, r.ns("tile_ns", &p.TileCost)}
		}),
		r.group("fetch_store", func() []yamlfile.Field { return []yamlfile.Field{r.rate("bw_gbs", &p.FetchBW)} }),
		r.group("ipcq", func() []yamlfile.Field {
			return []yamlfile.Field{tier(TCMSpace), tier(SRAMSpace), tier(HBMSpace), r.ns("poll_ns", &p.Poll)}
		}),
	}
}

// sips reads the SIPs; the grid of a torus or mesh is explicit, or a square.
func (r reader) sips(n yamlfile.Node, what string) {
	s := &r.t.SIPs
	*s = SIPs{}
	r.Struct(n, what,
		r.whole("count", &s.Count, 1, mostSIPs),
		yamlfile.Field{Key: "topology", Read: func(n yamlfile.Node, what string) {
			word, _ := r.Word(n, what, "SIP topology", Kinds()...)
			s.Kind = Kind(word)
		}},
		optional(r.whole("w", &s.Grid.W, 1, mostSIPs)),
		optional(r.whole("h", &s.Grid.H, 1, mostSIPs)))
	if s.Count == 0 || s.Kind == "" {
		return // reported already
	}
	switch given := s.Grid; {
	case given == Grid{} && s.Kind == Ring:
		s.Grid = Grid{s.Count, 1}
	case given == Grid{}:
		side := 1
		for side*side < s.Count {
			side++
		}
		if side*side != s.Count {
			r.Fault(n, "%s: a %s of %d SIPs is no square: give w and h", what, s.Kind, s.Count)
		}
		s.Grid = Grid{side, side}
	case given.W == 0 || given.H == 0:
		r.Fault(n, "%s: give both w and h, or neither", what)
	case given.Count() != s.Count:
		r.Fault(n, "%s: %d x %d are %d SIPs, but count is %d", what, given.W, given.H, given.Count(), s.Count)
	case s.Kind == Ring && given.H != 1:
		r.Fault(n, "%s: a %s is %d x 1, not %d x %d", what, s.Kind, s.Count, given.W, given.H)
	}
}

func (r reader) tile(n yamlfile.Node, what string) {
	items, _ := r.List(n, what)
	into := []*int{&r.t.PE.TileM, &r.t.PE.TileK, &r.t.PE.TileN}
	if len(items) != len(into) {
		r.Fault(n, "%s: want three numbers, M, K and N, have %d", what, len(items))
		return
	}
	for i, item := range items {
		*into[i], _ = r.Int(item, what, 1, mostBytes)
	}
}

func (r reader) group(key string, fields func() []yamlfile.Field) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { r.Struct(n, what, fields()...) }}
}

func optional(f yamlfile.Field) yamlfile.Field {
	f.Optional = true
	return f
}

func (r reader) whole(key string, into *int, least, most int) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { *into, _ = r.Int(n, what, least, most) }}
}

// power reads a power of two: addresses are cut into bit fields by it.
func (r reader) power(key string, into *int) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
		v, ok := r.Int(n, what, 1, mostBytes)
		if ok && bits.OnesCount(uint(v)) != 1 {
			r.Fault(n, "%s: want a power of two, have %d", what, v)
		}
		*into = v
	}}
}

// decimal reads a number with so many digits behind the point, in units of the last.
func decimal[T ~int64](r reader, key string, into *T, digits int, least, most, unit int64) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
		v, _ := r.Decimal(n, what, digits, least, most)
		*into = T(v * unit)
	}}
}

func (r reader) ns(key string, into *event.Time) yamlfile.Field {
	return decimal(r, key, into, 3, 0, int64(1000*event.Microsecond), 1)
}

func (r reader) rate(key string, into *Bandwidth) yamlfile.Field {
	return decimal(r, key, into, 3, 1, int64(GBps(1_000_000)), 1)
}

func (r reader) memory(key string, into *int64, unit, most int64) yamlfile.Field {
	return decimal(r, key, into, 0, 1, most, unit)
}

func (r reader) length(key string, into *Length) yamlfile.Field {
	return decimal(r, key, into, 3, 0, mostMM, 1)
}

func (r reader) position(key string, into *Pos) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { *into = r.pos(n, what, 0) }}
}

func (r reader) grid(key string, into *Grid) yamlfile.Field {
	return r.group(key, func() []yamlfile.Field {
		return []yamlfile.Field{r.whole("w", &into.W, 1, mostSide), r.whole("h", &into.H, 1, mostSide)}
	})
}

// mostMM is a metre in micrometres: nothing on a board is longer.
const mostMM = 1_000_000

// pos reads a pair of lengths in mm.
func (r reader) pos(n yamlfile.Node, what string, least int64) Pos {
	items, ok := r.List(n, what)
	if ok && len(items) != 2 {
		r.Fault(n, "%s: want x and y, have %d numbers", what, len(items))
	}
	if len(items) != 2 {
		return Pos{}
	}
	x, _ := r.Decimal(items[0], what, 3, least, mostMM)
	y, _ := r.Decimal(items[1], what, 3, least, mostMM)
	return Pos{Length(x), Length(y)}
}

// settle checks what no single line shows, and computes what follows from the
// file.
func (t *Topology) settle() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	c := &t.Cube
	noc := &c.Noc
	if noc.HoleRow+noc.HoleH > noc.Rows || noc.HoleCol+noc.HoleW > noc.Cols {
		fault("cube.noc.hole reaches over the %d x %d routers", noc.Rows, noc.Cols)
	}
	if c.UCIeConns > noc.Rows || c.UCIeConns > noc.Cols {
		fault("cube.ucie.connections is %d, but a side has %d or %d routers", c.UCIeConns, noc.Rows, noc.Cols)
	}
	if len(c.PEPos) != c.PEGrid.Count() {
		fault("cube.pe_pos_mm has %d positions, but cube.pe_grid is %d x %d", len(c.PEPos), c.PEGrid.W, c.PEGrid.H)
	}
	if t.HBMSlice() == 0 || t.HBMSlice()%int64(c.HBM.Burst*c.HBM.Channels) != 0 {
		fault("cube.hbm: a PE's share of %d bytes is not a multiple of %d channels of %d bytes", t.HBMSlice(),
			c.HBM.Channels, c.HBM.Burst)
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	noc.pitchX, noc.pitchY = c.W/Length(noc.Cols), c.H/Length(noc.Rows)
	if err := noc.check(c.UCIeConns); err != nil {
		return err
	}
	attach := func(key string, p Pos) router {
		if p.X > c.W || p.Y > c.H {
			fault("%s lies outside of the cube", key)
		}
		return noc.nearest(p)
	}
	c.mcpu, c.sram = attach("cube.m_cpu.pos_mm", c.MCPUPos), attach("cube.sram.pos_mm", c.SRAMPos)
	c.peRouter = nil
	for i, p := range c.PEPos {
		c.peRouter = append(c.peRouter, attach(fmt.Sprintf("cube.pe_pos_mm[%d]", i), p))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	var err error
	t.addressWidth, err = t.addressWidths()
	return err
}
