package topo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

func TestDefault(t *testing.T) {
	m := Default()
	if m.SIPs.Count != 2 || m.Cubes != (Grid{4, 4}) || m.PEs() != 8 || m.TotalPEs() != 256 || m.Fabric != Flits {
		t.Errorf("%+v", m)
	}
	// Known facts of the hardware: positions and address fields.
	if m.Cube.mcpu != (router{0, 2}) || m.Cube.sram != (router{3, 0}) || m.addressWidth != (widths{4, 5, 42}) {
		t.Errorf("M_CPU at %v, SRAM at %v, address fields %v", m.Cube.mcpu, m.Cube.sram, m.addressWidth)
	}
	if got := m.Wire(2500); got != 25 {
		t.Errorf("2.5 mm take %d ps, want 25", got)
	}
	if got := GBps(128).Time(65536); got != 512*event.Nanosecond {
		t.Errorf("64 KB at 128 GB/s take %d ps", got)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.yaml")
	if _, err := Load(path); err == nil {
		t.Error("a file that is not there was read")
	}
	must.Do(t, os.WriteFile(path, []byte("system: 3\n"), 0o644))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":1:9: system: want a mapping") {
		t.Errorf("%v", err)
	}
}

// leaf matches one "key: value" of the built-in file, in braces or not.
var leaf = regexp.MustCompile(`([a-z_]+): ("?[-0-9a-z_.]+"?|\[[^\]]*\])`)

// A wrong value gives an error at its line and column that names its key, for every value of the file.
func TestEveryFieldWrong(t *testing.T) {
	lines := strings.Split(string(DefaultFile()), "\n")
	tried := 0
	for i, line := range lines {
		code, _, _ := strings.Cut(line, "#")
		for _, at := range leaf.FindAllStringSubmatchIndex(code, -1) {
			key, value := code[at[2]:at[3]], code[at[4]:at[5]]
			for _, wrong := range []string{"-1", "banana", `"3"`, "[]", "{a: 1}", "null", "99999999999999999999", "0.00000001"} {
				if wrong == "null" && (key == "fabric" || key == "topology") {
					wrong = ""
				}
				changed := slices.Clone(lines)
				changed[i] = code[:at[4]] + wrong + code[at[5]:]
				_, err := Parse("t.yaml", []byte(strings.Join(changed, "\n")))
				if err == nil {
					t.Errorf("%s: %s instead of %s was taken", key, wrong, value)
					continue
				}
				fault, located := err.(*yamlfile.Error)
				if !located || fault.Faults[0].Line < i || fault.Faults[0].Line > i+2 || !strings.Contains(err.Error(), key) {
					t.Errorf("%s: %s instead of %s on line %d gives: %v", key, wrong, value, i+1, err)
				}
				tried++
			}
			misspelt := slices.Clone(lines)
			misspelt[i] = code[:at[2]] + key + "x" + code[at[3]:]
			want := fmt.Sprintf(`unknown key "%sx", did you mean %q`, key, key)
			if _, err := Parse("t.yaml", []byte(strings.Join(misspelt, "\n"))); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("line %d: %v, want %s", i+1, err, want)
			}
		}
		if strings.TrimSpace(code) != "" && !strings.Contains(code, "- [") {
			changed := slices.Delete(slices.Clone(lines), i, i+1)
			if _, err := Parse("t.yaml", []byte(strings.Join(changed, "\n"))); err == nil {
				t.Errorf("line %d is missing and nobody notices: %s", i+1, line)
			}
		}
	}
	if tried < 300 {
		t.Errorf("only %d wrong values were tried", tried)
	}
}

// Values that are valid alone but not together give an error.
func TestContradictions(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"count: 2", "count: 5\n    w: 2\n    h: 3", "2 x 3 are 6 SIPs, but count is 5"},
		{"count: 2", "count: 6\n    w: 6", "give both w and h"},
		{"count: 2", "count: 6\n    w: 2\n    h: 3", "a ring_1d is 6 x 1, not 2 x 3"},
		{"topology: ring_1d", "topology: torus_2d", "a torus_2d of 2 SIPs is no square: give w and h"},
		{"h: 2, w: 2}", "h: 5, w: 2}", "cube.noc.hole reaches over"},
		{"{row: 2, col: 2, h: 2, w: 2}", "{row: 1, col: 0, h: 2, w: 6}", "in the hole"},
		{"{row: 2, col: 2, h: 2, w: 2}", "{row: 1, col: 1, h: 4, w: 5}", "in the hole"},
		{"connections: 4 ", "connections: 7 ", "a side has 6 or 6 routers"},
		{"pe_grid: {w: 4, h: 2}", "pe_grid: {w: 4, h: 4}", "has 8 positions, but cube.pe_grid is 4 x 4"},
		{"[1.5, 9]", "[100, 9]", "cube.sram.pos_mm lies outside"},
		{"burst_bytes: 256", "burst_bytes: 100", "want a power of two"},
		{"tile: [32, 64, 32]", "tile: [32, 64]", "want three numbers"},
		{"total_gb: 48", "total_gb: 7", "is not a multiple"},
	} {
		text := strings.Replace(string(DefaultFile()), c.from, c.to, 1)
		if c.from == "total_gb: 48" {
			text = strings.Replace(strings.Replace(text, c.from, c.to, 1), "pseudo_channels: 8", "pseudo_channels: 1048576", 1)
		}
		if _, err := Parse("t.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
	good := strings.Replace(string(DefaultFile()), "count: 2\n    topology: ring_1d", "count: 9\n    topology: torus_2d",
		1)
	if m, err := Parse("t.yaml", []byte(good)); err != nil || m.SIPs.Grid != (Grid{3, 3}) {
		t.Errorf("9 SIPs on a torus: %v", err)
	}
	for _, bad := range []func() (*Topology, error){
		func() (*Topology, error) { return Default().WithSIPs(Ring, 2, 2) },
		func() (*Topology, error) { return Default().WithSIPs(Torus, 0, 2) },
		func() (*Topology, error) { return Default().WithSIPs(Ring, maxSIPs+1, 1) },
		func() (*Topology, error) { return Default().WithSIPs(Torus, 1<<32, 1<<32) }, // whose product is 0
		// does not match the number of positions
		func() (*Topology, error) { return Default().Arrange("0x0:torus") },
		func() (*Topology, error) { return Default().Arrange("0x0:ring") },
		func() (*Topology, error) { return Default().Arrange("0:ring") },
		func() (*Topology, error) { return Default().Arrange("-2:ring") },
		func() (*Topology, error) { return Default().WithCubes(0, 2) },
	} {
		if _, err := bad(); err == nil {
			t.Error("a machine that cannot be was made")
		}
	}
}

// Locate is the inverse of Address, on any machine.
func TestAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := Default().WithSIPs(Ring, rapid.IntRange(1, 300).Draw(t, "sips"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = m.WithCubes(rapid.IntRange(1, 9).Draw(t, "w"), rapid.IntRange(1, 9).Draw(t, "h")); err != nil {
			t.Fatal(err)
		}
		l := Location{PEID: m.At(rapid.IntRange(0, m.TotalPEs()-1).Draw(t, "pe")),
			Space: Space(rapid.SampledFrom(Spaces()).Draw(t, "space"))}
		if l.Space == SRAMSpace {
			l.PE = 0
		}
		l.Offset = rapid.Int64Range(0, m.Capacity(l.Space)-1).Draw(t, "offset")
		a := must.Get(m.Address(l))(t)
		if back, err := m.Locate(a); err != nil || back != l {
			t.Fatalf("%v is at %#x, where %v is found (%v)", l, a, back, err)
		}
		if m.Index(l.PEID) >= m.TotalPEs() {
			t.Fatalf("%v has number %d of %d", l.PEID, m.Index(l.PEID), m.TotalPEs())
		}
	})
	m := Default()
	for _, l := range []Location{{PEID: PEID{SIP: 2}, Space: HBMSpace}, {Space: TCMSpace, Offset: 16 << 20},
		{Space: HBMSpace, Offset: -1}} {
		if a, err := m.Address(l); err == nil {
			t.Errorf("%v has the address %#x", l, a)
		}
	}
	for _, a := range []Address{0, 1, 3<<40 + 1<<39} {
		if l, err := m.Locate(a); err == nil {
			t.Errorf("address %#x, which nothing has, leads to %v", a, l)
		}
	}
}

// Routes go horizontally first and around the hole, over adjacent links.
func TestRoutes(t *testing.T) {
	noc := Default().Cube.Noc
	for _, c := range []struct {
		from, to router
		want     string
	}{
		{router{0, 0}, router{5, 5}, "EEEEESSSSS"}, {router{5, 5}, router{0, 0}, "WWWWWNNNNN"},
		{router{4, 1}, router{1, 0}, "WNNN"},
		{router{2, 0}, router{2, 5}, "ENEEEES"}, {router{0, 2}, router{5, 2}, "WSSSSES"}, {router{3, 4}, router{3, 4}, ""},
	} {
		got := ""
		for _, side := range noc.route(c.from, c.to) {
			got += side.String()
		}
		if got != c.want {
			t.Errorf("from %v to %v by %s, want %s", c.from, c.to, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) router {
			return rapid.Custom(func(t *rapid.T) router {
				return router{rapid.IntRange(0, 5).Draw(t, "row"), rapid.IntRange(0, 5).Draw(t, "col")}
			}).Filter(noc.exists).Draw(t, name)
		}
		from, to := at("from"), at("to")
		here := from
		for _, side := range noc.route(from, to) {
			rows, cols := side.Step()
			here = router{here.row + rows, here.col + cols}
			if !noc.exists(here) {
				t.Fatalf("from %v to %v leads through the hole at %v", from, to, here)
			}
		}
		if here != to {
			t.Fatalf("from %v to %v leads to %v", from, to, here)
		}
	})
}

// A path passes every link at most once, has valid link numbers, is as long as the path back, and has the
// known number of UCIe crossings.
func TestPaths(t *testing.T) {
	m := must.Get(Default().WithSIPs(Torus, 2, 2))(t)
	w := NewWiring(m)
	rapid.Check(t, func(t *rapid.T) {
		end := func(name string) End {
			return End{rapid.SampledFrom([]EndKind{AtPE, AtHBM}).Draw(t, name+" kind"),
				m.At(rapid.IntRange(0, m.TotalPEs()-1).Draw(t, name))}
		}
		a, b := end("from"), end("to")
		if a == b {
			return
		}
		there := must.Get(w.Path(a, b))(t)
		back := must.Get(w.Path(b, a))(t)
		if first, last := int(there[0].Link)/w.sip, int(there[len(there)-1].Link)/w.sip; first != a.SIP || last != b.SIP {
			t.Fatalf("from %v to %v the links lead from SIP %d to SIP %d", a, b, first, last)
		}
		seen := map[int32]bool{}
		collecting := 0
		for _, h := range append(slices.Clone(there), back...) {
			if seen[h.Link] || h.Link < 0 || int(h.Link) >= w.Links() {
				t.Fatalf("link %d of %d twice or out of range", h.Link, w.Links())
			}
			seen[h.Link] = true
			if h.Collect {
				collecting++
			}
		}
		if a.SIP != b.SIP && collecting != 4 || a.SIP == b.SIP && collecting != 0 {
			t.Fatalf("%d nodes collect there and back", collecting)
		}
		if a.Cube == b.Cube && a.SIP == b.SIP && there.Fixed() > 1*event.Nanosecond {
			t.Fatalf("%v within a cube: a UCIe port must have been taken for a short cut", there.Fixed())
		}
	})
	for _, c := range []struct {
		from, to PEID
		costs    event.Time
	}{
		{PEID{}, PEID{Cube: 1}, 16_000}, {PEID{}, PEID{Cube: 5}, 32_000}, {PEID{Cube: 15}, PEID{}, 96_000},
		{PEID{}, PEID{PE: 7}, 0},
		// Between SIPs at cube 10: three crossings to the IO chiplet, endpoint, switch, endpoint, three back.
		{PEID{Cube: 10}, PEID{SIP: 1, Cube: 10}, 6*16_000 + 15_000},
	} {
		path := must.Get(w.Path(End{AtPE, c.from}, End{AtPE, c.to}))(t)
		var costs event.Time
		for _, h := range path {
			costs += h.Cost
		}
		if costs != c.costs {
			t.Errorf("from %v to %v nodes cost %v ps, want %v", c.from, c.to, costs, c.costs)
		}
		if slowest := path.Bottleneck().BW; c.from.Cube != c.to.Cube && slowest != GBps(128) {
			t.Errorf("from %v to %v at %v", c.from, c.to, slowest)
		}
	}
	for _, bad := range [][2]End{{{AtPE, PEID{}}, {AtPE, PEID{}}}, {{AtPE, PEID{}}, {AtPE, PEID{SIP: 4}}}} {
		if _, err := w.Path(bad[0], bad[1]); err == nil {
			t.Errorf("a path from %v to %v", bad[0], bad[1])
		}
	}
}

// The neighbour of a PE has that PE as its neighbour on the opposite side.
func TestNeighbors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.SampledFrom(Kinds()).Draw(t, "kind"))
		w, h := rapid.IntRange(1, 4).Draw(t, "w"), rapid.IntRange(1, 4).Draw(t, "h")
		if kind == Ring {
			h = 1
		}
		m := must.Get(Default().WithSIPs(kind, w, h))(t)
		p := m.At(rapid.IntRange(0, m.TotalPEs()-1).Draw(t, "pe"))
		for side := North; side <= West; side++ {
			for _, next := range []func(PEID, Side) (PEID, bool){m.Peer, m.NextCube, m.NextSIP} {
				if n, ok := next(p, side); ok {
					if back, ok := next(n, side.Opposite()); !ok || back != p {
						t.Fatalf("%v of %v is %v, whose %v is %v", side, p, n, side.Opposite(), back)
					}
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(string(DefaultFile()))
	f.Add("system: {fabric: whole}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := Parse("t.yaml", []byte(text)); err == nil {
			NewWiring(m)
		}
	})
}

// Every link has a unique name, and the names along a path lead from its start to its end.
func TestLinkNames(t *testing.T) {
	w := NewWiring(Default())
	seen := map[string]int{}
	for link := range w.Links() {
		name := w.LinkName(link)
		if other, twice := seen[name]; twice || strings.Contains(name, "%!") || !strings.Contains(name, " -> ") {
			t.Fatalf("link %d is named %q, as is %d", link, name, other)
		}
		seen[name] = link
	}
	path := must.Get(w.Path(End{Kind: AtPE, PEID: PEID{Cube: 6, PE: 1}},
		End{Kind: AtHBM, PEID: PEID{SIP: 1, Cube: 1, PE: 0}}))(t)
	var names []string
	for _, h := range path {
		names = append(names, w.LinkName(int(h.Link)))
	}
	want := []string{"sip0.cube6.pe1 -> r0c1", "sip0.cube6.r0c1 -> ucie-N.conn0", "sip0.cube6.ucie-N.conn0 -> cube2",
		"sip0.cube2.ucie-S.conn0 -> r5c1", "sip0.cube2.r5c1 -> r4c1"}
	if !slices.Equal(names[:5], want) {
		t.Errorf("the way begins %q, want %q", names[:5], want)
	}
	want = []string{"sip0.io_ucie-2.conn0 -> io_noc", "sip0.io_noc -> pcie_ep", "sip0.pcie_ep -> switch",
		"sip1.switch -> pcie_ep", "sip1.pcie_ep -> io_noc",
		"sip1.io_noc -> io_ucie-1.conn0", "sip1.io_ucie-1.conn0 -> cube1", "sip1.cube1.ucie-N.conn0 -> r0c1",
		"sip1.cube1.r0c1 -> r0c0", "sip1.cube1.r0c0 -> hbm_ctrl.pe0"}
	if got := names[len(names)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("the way ends %q, want %q", got, want)
	}
}

// A message crosses to the next cube by the connection nearest to its PE: the northern PEs by the first, the southern
// ones by the last.
func TestNearestConnection(t *testing.T) {
	m := Default()
	w := NewWiring(m)
	used := map[string]int{}
	for pe := range m.PEs() {
		for other := range m.PEs() {
			path := must.Get(w.Path(End{Kind: AtPE, PEID: PEID{PE: pe}}, End{Kind: AtHBM, PEID: PEID{Cube: 1, PE: other}}))(t)
			for _, h := range path {
				name := w.LinkName(int(h.Link))
				if strings.Contains(name, " -> ucie-E.") {
					used[name[strings.LastIndexByte(name, '.')+1:]]++
				}
			}
		}
	}
	if want := map[string]int{"conn0": 32, "conn3": 32}; !maps.Equal(used, want) {
		t.Errorf("ways east use the connections %v, want %v", used, want)
	}
}

// On the floor plan every link of a path begins where the previous one ends. All but the cables to the switch
// are inside the plan.
func TestPlaces(t *testing.T) {
	m := must.Get(Default().WithSIPs(Torus, 2, 2))(t)
	w := NewWiring(m)
	width, height := m.Plan()
	ends := []End{{Kind: AtPE}, {Kind: AtPE, PEID: PEID{Cube: 15, PE: 7}}, {Kind: AtHBM, PEID: PEID{Cube: 6, PE: 3}},
		{Kind: AtSRAM, PEID: PEID{SIP: 3, Cube: 9}},
		{Kind: AtMCPU, PEID: PEID{SIP: 1, Cube: 2}}, {Kind: AtPE, PEID: PEID{SIP: 2, Cube: 12, PE: 5}}}
	for _, from := range append(ends, End{Kind: AtIOCPU}) {
		for _, to := range ends {
			if from == to || from.Kind == AtIOCPU && to.SIP != 0 {
				continue
			}
			path := must.Get(w.Path(from, to))(t)
			sip, _, at := w.Place(int(path[0].Link))
			for _, h := range path[1:] {
				nextSIP, start, end := w.Place(int(h.Link))
				if start != at || start == end || nextSIP != sip && end.Y < 0 {
					t.Errorf("from %v to %v: %s begins at %v on SIP %d, the link before it ends at %v on SIP %d",
						from, to, w.LinkName(int(h.Link)), start, nextSIP, at, sip)
				}
				if min(end.X, end.Y+m.Cube.H) < 0 || end.X > width || end.Y > height {
					t.Errorf("%s ends at %v, outside of %v x %v", w.LinkName(int(h.Link)), end, width, height)
				}
				sip, at = nextSIP, end
			}
		}
	}
	if boxes := m.Boxes(); len(boxes) != 1+16*(1+1+8) {
		t.Errorf("%d boxes", len(boxes))
	}
}

// Arbitration and buffers are optional keys. A byte order mark is accepted, two PEs at one position are not.
func TestQueueingKeys(t *testing.T) {
	text := string(DefaultFile())
	if !QueueingOf(Default()).Plain() {
		t.Errorf("the built-in fabric has %+v", QueueingOf(Default()))
	}
	for keys, want := range map[string]Queueing{
		"arbitration: age": {Rule: Age}, "buffer_flits: 8": {Buffer: 8},
		"arbitration: round-robin\n  buffer_flits: 2": {Rule: RoundRobin, Buffer: 2},
	} {
		m, err := Parse("f", []byte("\uFEFF"+strings.Replace(text, "flit_bytes: 256", "flit_bytes: 256\n  "+keys, 1)))
		if err != nil || QueueingOf(m) != want || QueueingOf(m.Clone()) != want {
			t.Errorf("%s: %v, want %+v", keys, err, want)
		}
	}
	for change, want := range map[string]string{
		"flit_bytes: 256>flit_bytes: 256\n  arbitration: random": `unknown arbitration "random" (known: age, fifo, round-robin)`,
		"- [4.5, 1.25]>- [1.5, 1.25]":                            "cube.pe_pos_mm[0] and [1] are the same position: want one PE at each",
	} {
		old, new, _ := strings.Cut(change, ">")
		if _, err := Parse("f", []byte(strings.Replace(text, old, new, 1))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", new, err)
		}
	}
}
