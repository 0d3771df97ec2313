package topo

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// Upper limits of the values in a topology file. They keep a topology within what can be simulated.
const (
	maxSIPs  = 4096
	maxSide  = 32
	maxBytes = 1 << 20
	maxMB    = 1 << 20
	maxGB    = 1 << 12
)

// Load reads a topology file.
func Load(path string) (*Topology, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return nil, fmt.Errorf("reading a topology: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the text of a topology file; name appears in errors. All faults are reported at once,
// each with line and column.
func Parse(name string, data []byte) (*Topology, error) {
	return parse(name, data, func(*yamlfile.Reader) {})
}

// parse is Parse with a function that may set hooks of the reader first.
func parse(name string, data []byte, watch func(*yamlfile.Reader)) (*Topology, error) {
	file, root := yamlfile.Parse(name, data, "topology", "system, io_chiplet, sip, cube and pe")
	if root == nil {
		return nil, file.Err()
	}
	watch(file)
	t := &Topology{}
	r := reader{file, t, new([]yamlfile.Node)}
	file.Struct(root, "the topology",
		r.Group("system", r.system()...),
		r.Group("io_chiplet", r.ns("pcie_ep_overhead_ns", &t.PCIeCost), r.ns("noc_overhead_ns", &t.IONocCost),
			r.ns("io_cpu_overhead_ns", &t.IOCPUCost), r.ns("ucie_overhead_ns", &t.IOUCIeCost),
			r.rate("noc_bw_gbs", &t.IONocBW)),
		r.Group("sip", r.grid("cubes", &t.Cubes), r.length("gap_mm", &t.Gap)),
		r.Group("cube", r.cube()...),
		r.Group("pe", r.pe()...),
		r.overridden())
	if err := file.Err(); err != nil {
		return nil, err
	}
	list := t.overrides.list
	t.overrides.list = nil
	if err := t.resolve(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if t.overrides.list = list; Uneven(t) {
		t.SIPs.uneven = true
		for i, err := range t.applyOverrides() {
			if err != nil {
				file.Fault((*r.named)[i], "overrides: %v", err)
			}
		}
	}
	return t, file.Err()
}

// reader fills in a topology. It has one method per kind of value, which returns a field for a key.
type reader struct {
	*yamlfile.Reader
	t     *Topology
	named *[]yamlfile.Node // the names of the overrides, for faults
}

func (r reader) system() []yamlfile.Field {
	t := r.t
	return []yamlfile.Field{
		yamlfile.WordField(r.Reader, "fabric", "fabric", &t.Fabric, string(Flits), string(Whole)),
		r.IntField("flit_bytes", &t.FlitBytes, 16, maxBytes),
		yamlfile.WordField(r.Reader, "arbitration", "arbitration", &t.queueing.Rule, string(FIFO), string(RoundRobin),
			string(Age)).Opt(),
		r.IntField("buffer_flits", &t.queueing.Buffer, 0, maxBytes).Opt(),
		yamlfile.DecimalField(r.Reader, "ns_per_mm", &t.FsPerMM, 6, 0, 1000*1e6),
		{Key: "sips", Read: r.sips},
		r.Group("switch", r.ns("overhead_ns", &t.SwitchCost)),
		r.Group("link", r.rate("bw_gbs", &t.LinkBW), r.ns("latency_ns", &t.LinkLatency)),
	}
}

// cube returns the fields of the section cube.
func (r reader) cube() []yamlfile.Field {
	c := &r.t.Cube
	noc, h := &c.Noc, &c.HBM
	return []yamlfile.Field{
		{Key: "size_mm", Read: func(n yamlfile.Node, what string) {
			p := r.pos(n, what, 1)
			c.W, c.H = p.X, p.Y
		}},
		r.Group("noc", r.IntField("rows", &noc.Rows, 1, maxSide), r.IntField("cols", &noc.Cols, 1, maxSide),
			r.Group("hole", r.IntField("row", &noc.HoleRow, 0, maxSide), r.IntField("col", &noc.HoleCol, 0, maxSide),
				r.IntField("h", &noc.HoleH, 0, maxSide), r.IntField("w", &noc.HoleW, 0, maxSide)),
			r.ns("router_overhead_ns", &noc.RouterCost), r.rate("bw_gbs", &noc.BW)),
		r.Group("ucie", r.IntField("connections", &c.UCIeConns, 1, maxSide), r.rate("bw_gbs", &c.UCIeBW),
			r.ns("overhead_ns", &c.UCIeCost)),
		r.Group("m_cpu", r.position("pos_mm", &c.MCPUPos), r.ns("overhead_ns", &c.MCPUCost)),
		r.Group("sram", r.position("pos_mm", &c.SRAMPos), r.memory("size_mb", &c.SRAMBytes, 1<<20, maxMB),
			r.ns("overhead_ns", &c.SRAMCost), r.rate("router_bw_gbs", &c.SRAMBW)),
		r.Group("hbm", r.memory("total_gb", &h.Bytes, 1<<30, maxGB), r.power("pseudo_channels", &h.Channels),
			r.rate("channel_bw_gbs", &h.ChannelBW), r.power("burst_bytes", &h.Burst),
			yamlfile.Field{Key: "efficiency", Read: func(n yamlfile.Node, what string) {
				perMille, _ := r.Decimal(n, what, 3, 1, 1000)
				h.ChannelBW = h.ChannelBW * Bandwidth(perMille) / 1000
			}},
			r.ns("overhead_ns", &h.Cost), r.ns("switch_penalty_ns", &h.SwitchPenalty), r.rate("router_bw_gbs", &h.BW)),
		r.grid("pe_grid", &c.PEGrid),
		{Key: "pe_pos_mm", Read: func(n yamlfile.Node, what string) {
			items, _ := r.List(n, what)
			for i, item := range items {
				c.PEPos = append(c.PEPos, r.pos(item, fmt.Sprintf("%s[%d]", what, i), 0))
			}
		}},
	}
}

// pe returns the fields of the section pe.
func (r reader) pe() []yamlfile.Field {
	p := &r.t.PE
	p.Tiers = map[Space]Tier{}
	tier := func(s Space) yamlfile.Field {
		return yamlfile.Field{Key: string(s), Read: func(n yamlfile.Node, what string) {
			var tier Tier
			r.Struct(n, what, r.rate("bw_gbs", &tier.BW), r.ns("overhead_ns", &tier.Cost))
			p.Tiers[s] = tier
		}}
	}
	return []yamlfile.Field{
		r.Group("cpu", r.ns("overhead_ns", &p.CPUCost), r.ns("dispatch_ns", &p.DispatchCost)),
		r.Group("scheduler", r.ns("overhead_ns", &p.SchedulerCost)),
		r.Group("tcm", r.memory("size_mb", &p.TCMBytes, 1<<20, maxMB),
			r.rate("read_bw_gbs", &p.TCMRead), r.rate("write_bw_gbs", &p.TCMWrite)),
		r.Group("mmu", r.ns("tlb_overhead_ns", &p.TLBCost)),
		r.Group("math", r.IntField("elements_per_ns", &p.MathPerNS, 1, maxBytes)),
		r.Group("gemm", yamlfile.Field{Key: "tile", Read: r.tile}, r.ns("tile_ns", &p.TileCost)),
		r.Group("fetch_store", r.rate("bw_gbs", &p.FetchBW)),
		r.Group("ipcq", tier(TCMSpace), tier(SRAMSpace), tier(HBMSpace), r.ns("poll_ns", &p.Poll)),
	}
}

// sips reads the SIPs. The grid of a torus or mesh is given by w and h; without them it is a square.
func (r reader) sips(n yamlfile.Node, what string) {
	s := &r.t.SIPs
	r.Struct(n, what,
		r.IntField("count", &s.Count, 1, maxSIPs),
		yamlfile.WordField(r.Reader, "topology", "SIP topology", &s.Kind, Kinds()...),
		r.IntField("w", &s.Grid.W, 1, maxSIPs).Opt(),
		r.IntField("h", &s.Grid.H, 1, maxSIPs).Opt())
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

// tile reads the three dimensions of the GEMM engine's tile.
func (r reader) tile(n yamlfile.Node, what string) {
	items, _ := r.List(n, what)
	into := []*int{&r.t.PE.TileM, &r.t.PE.TileK, &r.t.PE.TileN}
	if len(items) != len(into) {
		r.Fault(n, "%s: want three numbers, M, K and N, have %d", what, len(items))
		return
	}
	for i, item := range items {
		*into[i], _ = r.Int(item, what, 1, maxBytes)
	}
}

// power reads a power of two, because the value divides addresses into bit fields.
func (r reader) power(key string, into *int) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
		v, ok := r.Int(n, what, 1, maxBytes)
		if ok && bits.OnesCount(uint(v)) != 1 {
			r.Fault(n, "%s: want a power of two, have %d", what, v)
		}
		*into = v
	}}
}

// ns reads a time in nanoseconds with up to three decimals, up to a millisecond.
func (r reader) ns(key string, into *event.Time) yamlfile.Field {
	return yamlfile.DecimalField(r.Reader, key, into, 3, 0, int64(1000*event.Microsecond))
}

// rate reads a bandwidth in GB/s with up to three decimals.
func (r reader) rate(key string, into *Bandwidth) yamlfile.Field {
	return yamlfile.DecimalField(r.Reader, key, into, 3, 1, int64(GBps(1_000_000)))
}

// memory reads a size as a whole number of units (MB or GB).
func (r reader) memory(key string, into *int64, unit, high int64) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) {
		v, _ := r.Decimal(n, what, 0, 1, high)
		*into = v * unit
	}}
}

func (r reader) length(key string, into *Length) yamlfile.Field {
	return yamlfile.DecimalField(r.Reader, key, into, 3, 0, maxMicrometres)
}

func (r reader) position(key string, into *Pos) yamlfile.Field {
	return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { *into = r.pos(n, what, 0) }}
}

func (r reader) grid(key string, into *Grid) yamlfile.Field {
	return r.Group(key, r.IntField("w", &into.W, 1, maxSide), r.IntField("h", &into.H, 1, maxSide))
}

// maxMicrometres is the longest distance on a board: a metre, in micrometres.
const maxMicrometres = 1_000_000

// pos reads a pair of lengths in mm.
func (r reader) pos(n yamlfile.Node, what string, low int64) Pos {
	items, ok := r.List(n, what)
	if ok && len(items) != 2 {
		r.Fault(n, "%s: want x and y, have %d numbers", what, len(items))
	}
	if len(items) != 2 {
		return Pos{}
	}
	x, _ := r.Decimal(items[0], what, 3, low, maxMicrometres)
	y, _ := r.Decimal(items[1], what, 3, low, maxMicrometres)
	return Pos{Length(x), Length(y)}
}

// resolve checks that the values fit together and computes the derived fields.
func (t *Topology) resolve() error {
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
	for i, p := range c.PEPos {
		if j := slices.Index(c.PEPos[:i], p); j >= 0 {
			fault("cube.pe_pos_mm[%d] and [%d] are the same position: want one PE at each", j, i)
		}
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
	if t.addressWidth, err = t.addressWidths(); err != nil {
		return err
	}
	return t.resolveOverrides()
}

// Parameter is a key of a topology file that holds one number or several, such as the three of a tile.
type Parameter struct {
	Key    string   // the full key: cube.hbm.burst_bytes
	Values []string // as written in the file; empty if the file leaves an optional key out
}

// Parameters lists the numeric keys of a topology file. It hooks into the reader of the file, so that
// every key the reader knows is included.
func Parameters(name string, data []byte) ([]Parameter, error) {
	var found []Parameter
	add := func(key string, values ...string) {
		i := slices.IndexFunc(found, func(p Parameter) bool { return p.Key == key })
		if i < 0 {
			i = len(found)
			found = append(found, Parameter{Key: key})
		}
		found[i].Values = append(found[i].Values, values...)
	}
	_, err := parse(name, data, func(r *yamlfile.Reader) {
		r.Absent = func(what string) {
			if what != "system.arbitration" && what != "system.buffer_flits" && !strings.HasPrefix(what, "overrides") {
				add(what) // the usual fabric has neither arbitration nor buffers
			}
		}
		r.Number = func(what, text string, _ int) string {
			if !strings.HasPrefix(what, "overrides") { // one of many links says little about the machine
				add(keyOf(what), text)
			}
			return text
		}
	})
	return found, err
}

// keyOf returns the key of a number, without the index of a list: cube.pe_pos_mm for cube.pe_pos_mm[3].
func keyOf(what string) string {
	key, _, _ := strings.Cut(what, "[")
	return key
}

// Vary reads a topology file with the numbers of one key multiplied by a factor. It also returns the new numbers. It
// fails if the numbers cannot be changed in this way: 0 stays 0, counts have no fractions, and the result must be valid
// in a file.
func Vary(name string, data []byte, key string, factor float64) (t *Topology, values []string, err error) {
	var faults []error
	moved := false
	t, err = parse(name, data, func(r *yamlfile.Reader) {
		r.Number = func(what, text string, digits int) string {
			if keyOf(what) != key {
				return text
			}
			other, err := scaled(text, digits, factor)
			if err != nil {
				faults = append(faults, err)
				other = text
			}
			moved = moved || other != text
			values = append(values, other)
			return other
		}
	})
	switch {
	case len(faults) > 0:
		return nil, nil, faults[0]
	case err != nil:
		return nil, nil, plain(name, key, err)
	case len(values) == 0:
		return nil, nil, errors.New("the file does not have it")
	case !moved:
		return nil, nil, errors.New("it is 0, and a percentage of 0 is 0")
	}
	return t, values, nil
}

// tolerance is the largest accepted relative error of a change that is caused by rounding.
const tolerance = 0.1

// Effect returns -1 if a larger value of a key should only make the accelerator faster, 1 if it should only make it
// slower, and 0 if it may do either.
func Effect(key string) int {
	last := key[strings.LastIndexByte(key, '.')+1:]
	switch {
	case strings.HasSuffix(last, "_gbs"), last == "efficiency", last == "connections", last == "pseudo_channels",
		last == "buffer_flits", last == "elements_per_ns":
		return -1
	case strings.HasSuffix(last, "_ns"), last == "ns_per_mm", last == "gap_mm":
		return 1
	}
	return 0
}

// scaled multiplies a number and rounds it to the given number of decimals.
func scaled(text string, digits int, factor float64) (string, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text, nil // the reader reports the error
	}
	unit := math.Pow10(digits)
	want := v * factor
	got := math.Round(want*unit) / unit
	if math.Abs(got-want) > tolerance*math.Abs(want-v) {
		kind := "whole number"
		if digits > 0 {
			kind = fmt.Sprintf("number with %d decimals", digits)
		}
		return "", fmt.Errorf("it is %s, and no %s is close enough to the wanted value", text, kind)
	}
	return strconv.FormatFloat(got, 'f', -1, 64), nil
}

// plain returns the first fault of err without its position in the file, where the original number
// stands and not the scaled one.
func plain(name, key string, err error) error {
	text := err.Error()
	if in, is := errors.AsType[*yamlfile.Error](err); is {
		text = in.Faults[0].Msg
	}
	text, _, _ = strings.Cut(strings.TrimPrefix(text, name+": "), "\n")
	return errors.New(strings.TrimPrefix(text, key+": "))
}
