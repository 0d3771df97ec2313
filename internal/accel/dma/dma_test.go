package dma

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// file returns the built-in topology file with some text replaced.
func file(t testing.TB, oldnew ...string) []byte {
	t.Helper()
	text := string(topo.DefaultFile())
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("the built-in topology has no %q", oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	return []byte(text)
}

func parse(t testing.TB, data []byte) *Machine {
	t.Helper()
	return New(must.Get(topo.Parse("built-in", data))(t))
}

func (m *Machine) row(t testing.TB, name string, bytes int) Row {
	t.Helper()
	return must.Get(m.Run(m.Case(name), bytes))(t)
}

// All checks of the built-in topology pass, with both fabrics, and every case has the wanted transfers.
func TestBuiltIn(t *testing.T) {
	transfers := map[string]int{"one-controller-2": 2, "one-controller-3": 3, "one-controller-8": 8, "one-port-8": 8,
		"all-local": 128, "all-to-one": 128}
	for _, fabric := range []string{"flits", "whole"} {
		m := parse(t, file(t, "fabric: flits ", "fabric: "+fabric+" "))
		for _, c := range m.Cases() {
			for _, bytes := range []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20} {
				if transfers[c.Name] > 0 && bytes > 16<<10 {
					continue
				}
				row, err := m.Run(c, bytes)
				if err != nil || c.Missing != "" || row.Transfers != max(transfers[c.Name], 1) || row.Bytes != bytes {
					t.Errorf("%s, %s, %d bytes: %v, %+v", fabric, c.Name, bytes, err, row)
				}
			}
		}
		// Two of the port's four connections of 128 GB/s serve four PEs each, the ones that are nearest to them.
		if port := m.row(t, "one-port-8", 16<<10); port.Limit != 512*event.Nanosecond {
			t.Errorf("the limit of 8 PEs at a port is %v at %s", port.Limit, port.Bottleneck)
		}
	}
}

// A local read by hand: command 2+2+1, one burst, and the bytes at 256 GB/s.
func TestBreakdownByHand(t *testing.T) {
	const ns = event.Nanosecond
	got := parse(t, file(t, "fabric: flits ", "fabric: whole ")).row(t, "pe-local-hbm", 16<<10).Parts
	wires := got[Wires] // for the position of the PE
	want := Parts{Command: 5 * ns, Wires: wires, Drain: 64 * ns, Memory: 8 * ns}
	if got != want || wires > ns {
		t.Errorf("%v, want %v", got, want)
	}
	host := parse(t, file(t)).row(t, "h2d-near", 32<<10).Parts
	// The data passes the switch, the PCIe endpoint and the UCIe ports of IO chiplet and cube; the reply
	// passes them again. Each passes the link of the host and the link of the SIP, which take 43.201 ns.
	if host[Command] != 0 || host[Nodes] != 2*(5+5+8+8)*ns || host[Wires] < 4*43_201 || host[Wires] > 4*43_201+ns {
		t.Errorf("a host's write: %v", host)
	}
	// over UCIe, and before that into the PCIe endpoint, which stores and forwards
	const drains = 32768/128.0 + 32768/512.0
	if drain := host[Drain].Nanoseconds(); drain < drains || drain > drains+20 {
		t.Errorf("32 KiB drain over UCIe of 128 GB/s and the link of the SIP in %v ns", drain)
	}
}

// On random machines the simulated time equals the explained one: with every number of the file halved, doubled
// or otherwise changed, for odd sizes, reads and writes, near and far.
func TestExplainsAnyMachine(t *testing.T) {
	data := file(t, "overhead_ns: 0", "overhead_ns: 3", "switch_penalty_ns: 0", "switch_penalty_ns: 4")
	list := must.Get(topo.Parameters("built-in", data))(t)
	moved := 0
	for i, p := range list {
		for _, factor := range []float64{0.5, 1.7, 4} {
			varied, _, err := topo.Vary("built-in", data, p.Key, factor)
			if err != nil {
				continue
			}
			moved++
			if i%2 == 0 {
				varied.Fabric = topo.Whole
			}
			m := New(varied)
			for n, c := range m.idle() {
				if c.Missing != "" || n%4 != moved%4 {
					continue
				}
				row := must.Get(m.measure(c.transfers([]int{2, 1 << 10, 3002, 9 << 10}[moved/4%4])))(t)
				if err := row.check(c); err != nil {
					t.Errorf("%s x %g, %s, %s: %v (%+v)", p.Key, factor, varied.Fabric, c.Name, err, row)
				}
			}
		}
	}
	if moved < 100 {
		t.Errorf("only %d machines", moved)
	}
}

// Every check finds the error that is planted for it.
func TestChecksFind(t *testing.T) {
	m := parse(t, file(t))
	for _, c := range []struct {
		name, want string
		plant      func(*Row)
	}{
		{"pe-other-sip", "the parts are", func(r *Row) { r.Parts[Drain]++ }},
		{"h2d-far", "the parts are", func(r *Row) { r.Time -= 2 }},
		{"pe-local-hbm", "alone on the machine", func(r *Row) { r.Parts[Queueing], r.Parts[Memory] = 1, r.Parts[Memory]-1 }},
		{"one-controller-8", "the part nodes is", func(r *Row) {
			r.Parts[Queueing], r.Parts[Nodes] = r.Parts[Queueing]+r.Parts[Nodes]+1, -1
		}},
		{"one-port-8", "needs", func(r *Row) {
			r.Parts[Queueing] -= r.Time - r.Limit + 1
			r.Time = r.Limit - 1
		}},
		{"all-to-one", "the links were sending", func(r *Row) { r.busy -= 256 }},
		{"all-local", "nothing in common", func(r *Row) { r.Parts[Queueing] = 1 }},
		{"d2h-near", "2048 bytes take", func(r *Row) { r.Time /= 2 }},
		{"pe-next-cube", "pe-cube-far takes", func(r *Row) { r.Time = 1 }},
		{"h2d-far", "h2d-near takes", func(r *Row) { r.Time = 1 }},
		{"one-controller-3", "one-controller-2 takes", func(r *Row) { r.Time = 1 }},
	} {
		of := m.Case(c.name)
		bytes := 4 << 10
		if strings.Contains(c.want, "-") {
			bytes = 2 // without a half
		}
		row := m.row(t, c.name, bytes)
		c.plant(&row)
		err := row.check(of)
		if strings.Contains(c.want, " take") {
			err = m.checkOrder(&row, of)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// An error of the simulator is found. The test plants one by simulating another machine than the explained one.
func TestSimulatorErrorShows(t *testing.T) {
	for name, change := range map[string]func(*topo.Topology){
		"a slower port":   func(t *topo.Topology) { t.Cube.UCIeCost++ },
		"a slower burst":  func(t *topo.Topology) { t.Cube.HBM.ChannelBW-- },
		"a slower link":   func(t *topo.Topology) { t.LinkLatency++ },
		"a slower memory": func(t *topo.Topology) { t.Cube.HBM.BW -= 100 },
	} {
		explained, simulated := topo.Default(), topo.Default()
		change(simulated)
		x := Transfer{At: topo.Location{PEID: topo.PEID{SIP: 1}, Space: topo.HBMSpace}, Bytes: 32 << 10}
		row, err := New(explained).measure([]Transfer{x})
		if err != nil || row.check(Case{}) != nil {
			t.Fatalf("%v, %v", err, row.check(Case{}))
		}
		r := must.Get(New(simulated).Simulate([]Transfer{x}))(t)
		if row.Time = r.Crit; row.check(Case{}) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// The smallest machine lacks most cases and says why. A case whose easier one is missing is compared with the next.
func TestSmallestMachine(t *testing.T) {
	m := parse(t, file(t, "count: 2", "count: 1", "cubes: {w: 4, h: 4}", "cubes: {w: 1, h: 1}", "pe_grid: {w: 4, h: 2}",
		"pe_grid: {w: 1, h: 1}",
		"    - [4.5, 1.25]\n    - [13.5, 1.25]\n    - [16.5, 1.25]\n    - [1.5, 13.75]\n    - [4.5, 13.75]\n    - [13.5, "+
			"13.75]\n    - [16.5, 13.75]\n", ""))
	var missing []string
	for _, c := range m.Cases() {
		if c.Missing != "" {
			missing = append(missing, c.Name+": "+c.Missing)
		} else if _, err := m.Run(c, 16<<10); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	for _, want := range []string{"pe-cube-near: a cube has one PE", "pe-far-cube: a SIP has one cube",
		"pe-other-sip-write: there is one SIP", "one-controller-2: a cube has 1 PEs",
		"one-port-8: there is one column of cubes"} {
		if !slices.Contains(missing, want) {
			t.Errorf("missing %q in %q", want, missing)
		}
	}
	row := m.row(t, "all-to-one", 4<<10)
	row.Time = 1
	if err := m.checkOrder(&row, Case{transfers: m.Case("all-to-one").transfers, easier: "one-controller-8"}); err == nil {
		t.Error("all-to-one is compared with nothing")
	}
	for _, bytes := range []int64{-2, 0, 3, 1 << 40} {
		if m.CheckBytes(bytes) == nil {
			t.Errorf("transfers of %d bytes are accepted", bytes)
		}
	}
}
