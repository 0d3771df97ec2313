package dma

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

const nanosecond = ns(event.Nanosecond)

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

func report(t testing.TB, data []byte, cases ...string) *Report {
	t.Helper()
	p := must.Get(New(BuiltIn, data, Options{Cases: cases}))(t)
	return must.Get(p.Run())(t)
}

func (r *Report) row(t testing.TB, table, name string) *Row {
	t.Helper()
	for i := range r.Rows {
		if r.Rows[i].Table == table && r.Rows[i].Case == name {
			return &r.Rows[i]
		}
	}
	t.Fatalf("no row %s of table %s", name, table)
	return nil
}

// All checks of the built-in topology pass, with both fabrics, and the report has the wanted cases.
func TestBuiltIn(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs in one goroutine, and is slow with the race detector")
	}
	for _, fabric := range []string{"flits", "whole"} {
		r := report(t, file(t, "fabric: flits ", "fabric: "+fabric+" "))
		for _, c := range r.Checks {
			if !c.OK() || c.Rows == 0 {
				t.Errorf("%s: check %s of %d rows: %v", fabric, c.Name, c.Rows, c.Faults)
			}
		}
		if len(r.Missing) > 0 {
			t.Errorf("%s: missing %v", fabric, r.Missing)
		}
		if size := r.row(t, sizeTable, "d2h-far"); size.Bytes != 4<<10 {
			t.Errorf("the smallest size is %d", size.Bytes)
		}
		for name, transfers := range map[string]int{"one-controller-1": 1, "one-controller-2": 2, "one-controller-3": 3,
			"one-controller-8": 8,
			"one-port-8":       8, "all-local": 128, "all-to-one": 128} {
			if row := r.row(t, congestionTable, name); row.Transfers != transfers {
				t.Errorf("%s has %d transfers", name, row.Transfers)
			}
		}
		// Two of the port's four connections of 128 GB/s serve four PEs each, the ones that are nearest to them.
		if port := r.row(t, congestionTable, "one-port-8"); port.Limit != 512*nanosecond {
			t.Errorf("the limit of 8 PEs at a port is %v at %s", port.Limit, port.Bottleneck)
		}
	}
}

// A local read by hand: command 2+2+1, one burst, and the bytes at 256 GB/s.
func TestBreakdownByHand(t *testing.T) {
	r := report(t, file(t, "fabric: flits ", "fabric: whole "), "published-local")
	got := r.Rows[0].Parts
	wires := got.Wires // for the position of the PE
	want := Parts{Command: 5 * nanosecond, Wires: wires, Drain: 64 * nanosecond, Memory: 8 * nanosecond}
	if got != want || wires > nanosecond {
		t.Errorf("%+v, want %+v", got, want)
	}
	host := report(t, topo.DefaultFile(), "h2d-near").row(t, idleTable, "h2d-near")
	// The data passes the switch, the PCIe endpoint and the UCIe ports of IO chiplet and cube; the reply
	// passes them again. Each passes the link of the host and the link of the SIP, which take 43.201 ns.
	if host.Command != 0 || host.Nodes != 2*(5+5+8+8)*nanosecond || host.Wires < 4*43_201 ||
		host.Wires > 4*43_201+nanosecond {
		t.Errorf("a host's write: %+v", host.Parts)
	}
	// over UCIe, and before that into the PCIe endpoint, which stores and forwards
	const drains = 32768/128.0 + 32768/512.0
	if drain := host.Drain.nanoseconds(); drain < drains || drain > drains+20 {
		t.Errorf("32 KiB drain over UCIe of 128 GB/s and the link of the SIP in %v ns", drain)
	}
}

func (t ns) nanoseconds() float64 { return event.Time(t).Nanoseconds() }

// On random machines the simulated time equals the explained one: with every number of the file halved, doubled
// or otherwise changed, for odd sizes, reads and writes, near and far.
func TestExplainsAnyMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs in one goroutine, and is slow with the race detector")
	}
	data := file(t, "overhead_ns: 0", "overhead_ns: 3", "switch_penalty_ns: 0", "switch_penalty_ns: 4")
	list := must.Get(topo.Parameters(BuiltIn, data))(t)
	moved := 0
	for i, p := range list {
		for _, factor := range []float64{0.5, 1.7, 4} {
			varied, _, err := topo.Vary(BuiltIn, data, p.Key, factor)
			if err != nil {
				continue
			}
			moved++
			if i%2 == 0 {
				varied.Fabric = topo.Whole
			}
			m := newMachine(varied)
			for n, c := range m.idle() {
				if c.missing != "" || n%4 != moved%4 {
					continue
				}
				row := must.Get(m.measure(c.transfers([]int{2, 1 << 10, 3002, 9 << 10}[moved/4%4])))(t)
				if fault := breaksDown(&row); fault != "" || row.Time < row.Limit || row.busy != row.due {
					t.Errorf("%s x %g, %s, %s: %s (%+v)", p.Key, factor, varied.Fabric, c.name, fault, row)
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
	if testing.Short() {
		t.Skip("it runs in one goroutine, and is slow with the race detector")
	}
	good := report(t, topo.DefaultFile())
	at := func(table, name string, change func(*Row)) func(*Report) {
		return func(r *Report) { change(r.row(t, table, name)) }
	}
	for name, errors := range map[string][]func(*Report){
		"breakdown": {
			at(idleTable, "pe-other-sip", func(r *Row) { r.Drain++ }),
			at(idleTable, "h2d-far", func(r *Row) { r.Time -= 2 }),
			at(idleTable, "pe-local-hbm", func(r *Row) { r.Queueing, r.Memory = 1, r.Memory-1 }),
			at(congestionTable, "one-controller-8", func(r *Row) { r.Queueing, r.Nodes = r.Queueing+r.Nodes+1, -1 }),
		},
		"rate":  {at(congestionTable, "one-port-8", func(r *Row) { r.Time = r.Limit - 1 })},
		"bytes": {at(congestionTable, "all-to-one", func(r *Row) { r.busy -= 256 })},
		"size":  {at(sizeTable, "d2h-near", func(r *Row) { r.Time += ns(event.Microsecond) })},
		"distance": {
			at(idleTable, "pe-next-cube", func(r *Row) { r.Time = 1 }),
			at(idleTable, "h2d-far", func(r *Row) { r.Time = 1 }),
		},
		"congestion": {at(congestionTable, "one-controller-2", func(r *Row) { r.Time *= 2 })},
		"all-local":  {at(congestionTable, "all-local", func(r *Row) { r.Queueing = 1 })},
		"published": {
			at(publishedTable, "published-local", func(r *Row) { r.Time += nanosecond }),
			at(publishedTable, "published-3", func(r *Row) { r.Time -= 10 * nanosecond }),
		},
	} {
		for i, plant := range errors {
			bad := *good
			bad.Rows = slices.Clone(good.Rows)
			plant(&bad)
			bad.check()
			found := slices.ContainsFunc(bad.Checks, func(c Check) bool { return c.Name == name && !c.OK() })
			if !found || bad.Failed() == 0 {
				t.Errorf("error %d planted for %s is not found: %+v", i, name, bad.Checks)
			}
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
		x := transfer{at: topo.Location{PEID: topo.PEID{SIP: 1}, Space: topo.HBMSpace}, bytes: 32 << 10}
		row, err := newMachine(explained).measure([]transfer{x})
		if err != nil || breaksDown(&row) != "" {
			t.Fatalf("%v, %s", err, breaksDown(&row))
		}
		r := must.Get(newMachine(simulated).simulate([]transfer{x}))(t)
		if row.Time = ns(r.Crit); breaksDown(&row) == "" {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// Another machine has no published values. The smallest machine lacks most cases, and the report lists them.
func TestOtherMachines(t *testing.T) {
	other := report(t, file(t, "latency_ns: 43.201", "latency_ns: 50"), "published-*", "pe-other-sip")
	if len(other.Missing) != 5 || !strings.Contains(other.Missing[0], "another machine") || other.Failed() > 0 {
		t.Errorf("missing %v, %d failed", other.Missing, other.Failed())
	}
	small := file(t, "count: 2", "count: 1", "cubes: {w: 4, h: 4}", "cubes: {w: 1, h: 1}", "pe_grid: {w: 4, h: 2}",
		"pe_grid: {w: 1, h: 1}",
		"    - [4.5, 1.25]\n    - [13.5, 1.25]\n    - [16.5, 1.25]\n    - [1.5, 13.75]\n    - [4.5, 13.75]\n    - [13.5, "+
			"13.75]\n    - [16.5, 13.75]\n", "")
	r := report(t, small)
	if r.Failed() > 0 {
		t.Errorf("%+v", r.Checks)
	}
	for _, want := range []string{"pe-cube-near: a cube has one PE", "pe-far-cube: a SIP has one cube",
		"pe-other-sip-write: there is one SIP", "one-controller-2: a cube has 1 PEs",
		"one-port-8: there is one column of cubes"} {
		if !slices.Contains(r.Missing, want) {
			t.Errorf("missing %q in %q", want, r.Missing)
		}
	}
	if _, err := New("x", topo.DefaultFile(), Options{Cases: []string{"pe-lcoal-hbm"}}); err == nil ||
		!strings.Contains(err.Error(), "pe-local-hbm") {
		t.Errorf("a wrong name: %v", err)
	}
}

// All formats have the same numbers.
func TestFormats(t *testing.T) {
	r := report(t, topo.DefaultFile(), "pe-local-hbm", "all-local", "published-2")
	var text, data, table bytes.Buffer
	for format, w := range map[string]*bytes.Buffer{"table": &text, "json": &data, "csv": &table} {
		must.Do(t, r.Write(w, format))
	}
	var back struct {
		Rows []struct {
			Time     float64 `json:"time_ns"`
			Command  float64 `json:"command_ns"`
			Queueing float64 `json:"queueing_ns"`
			Fabric   string  `json:"fabric"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || len(back.Rows) != len(r.Rows) {
		t.Fatalf("%v, %d rows", err, len(back.Rows))
	}
	lines, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(lines) != len(r.Rows)+1 {
		t.Fatalf("%v, %d lines", err, len(lines))
	}
	for i, row := range r.Rows {
		if back.Rows[i].Time != row.Time.nanoseconds() || back.Rows[i].Command != 5 || lines[i+1][7] != row.Time.String() {
			t.Errorf("row %d: %+v and %v of %+v", i, back.Rows[i], lines[i+1], row)
		}
	}
	if last := len(r.Rows) - 1; back.Rows[last].Fabric != "whole" || math.Round(back.Rows[last].Queueing) != 72 {
		t.Errorf("the second of two reads with whole messages waits for the first: %+v", back.Rows[last])
	}
	for _, want := range []string{"Topology built-in (sha256 ", "\nAlone on the machine, 32Ki:\n", "pe-local-hbm",
		"published", "\nChecks:\n", "ok"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if err := r.Write(&text, "xml"); err == nil {
		t.Error("an unknown format is written")
	}
}

// Doubling and halving every number finds the ones that make contended transfers faster where they should be slower,
// because order of arrival divides a chain of merges unequally. That happens with PEs scattered over the cube and
// one UCIe connection, not with the built-in machine.
func TestMonotone(t *testing.T) {
	scattered := []byte(strings.NewReplacer("connections: 4 ", "connections: 1 ",
		"[1.5, 1.25]", "[7.5, 13.75]", "[4.5, 1.25]", "[1.5, 1.25]", "[13.5, 1.25]", "[13.5, 8.75]",
		"[16.5, 1.25]", "[4.5, 1.25]", "[1.5, 13.75]", "[7.5, 3.75]", "[4.5, 13.75]", "[4.5, 6.25]",
		"[13.5, 13.75]", "[1.5, 13.75]", "[16.5, 13.75]", "[13.5, 11.25]").Replace(string(file(t))))
	for _, c := range []struct {
		file       []byte
		name, want string
	}{{scattered, "one-port-8", "one-port-8: cube.hbm.pseudo_channels 4 instead of 8 changes the slowest of 8 " +
		"transfers by -0.19 %; most has to go over sip0.cube1.r2c0 -> ucie-W.conn0, shared by fifo arbitration: " +
		"the transfers take"},
		{file(t), "one-port-8", ""}} {
		p := must.Get(New(BuiltIn, c.file, Options{Cases: []string{c.name}}))(t)
		found, _ := must.Get2(p.Monotone(c.file))(t)
		if c.want != "" {
			golden.Shown(t, "monotone", texttab.Wrap(strings.Fields(found[0]), 118, ""))
		}
		if got := strings.Join(found, "\n"); !strings.Contains(got, c.want) || (c.want == "") != (len(found) == 0) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// The fabric and the size of concurrent transfers can be chosen.
func TestOptions(t *testing.T) {
	o := Options{Cases: []string{"one-port-8"}, Fabric: topo.Whole, Sizes: []int{64 << 10, 4 << 10}}
	r := must.Get(must.Get(New(BuiltIn, file(t), o))(t).Run())(t)
	if len(r.Rows) != 2 || r.Rows[0].Bytes != 4<<10 || r.Rows[1].Bytes != 64<<10 || r.Rows[0].Fabric != topo.Whole {
		t.Errorf("%+v", r.Rows)
	}
	var text bytes.Buffer
	must.Do(t, r.Write(&text, "table"))
	for _, want := range []string{"Together, 4Ki each; the time", "Together, 64Ki each; the time"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	for _, size := range []int{-2, 3, 1 << 40} {
		if _, err := New(BuiltIn, file(t), Options{Sizes: []int{4096, size}}); err == nil {
			t.Errorf("transfers of %d bytes were accepted", size)
		}
	}
}
