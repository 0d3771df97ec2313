package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// launch passes a message along the first row of cubes.
func launch(t *testing.T, load bool) (*topo.Topology, *sim.Result) {
	t.Helper()
	m := topo.Default()
	var programs []*program.Program
	for cube := range m.Cubes.W {
		p := must.Get(tl.Record(program.Env{Topo: m, ID: topo.PEID{Cube: cube}, PEs: 1, Cubes: m.Cubes.W, SlotBytes: 1 << 16},
			func(p *tl.PE) {
				x := p.Scratch(2048)
				if cube > 0 {
					x = p.Recv(tl.W, 2048)
				}
				if cube < m.Cubes.W-1 {
					p.Send(tl.E, p.Add(x, x))
				}
			}))(t)
		programs = append(programs, p)
	}
	r := must.Get(sim.Run(sim.Config{Topo: m, Buffer: topo.TCMSpace, Slots: 4, SlotBytes: 1 << 16, CreditBytes: 16,
		Load: load}, programs))(t)
	return m, r
}

// Decode returns what Encode stored; damaged files give an error with the reason.
func TestFile(t *testing.T) {
	m, r := launch(t, true)
	rec := Of(m, r)
	data := must.Get(rec.Encode())(t)
	back := must.Get(Decode(data))(t)
	if diff := cmp.Diff(rec, back); diff != "" {
		t.Error(diff)
	}
	for want, damage := range map[string]func(*Record){
		"it is of version 2":     func(r *Record) { r.Version = 2 },
		"kernel of 0 ps":         func(r *Record) { r.Kernel = 0 },
		"kernel of 922337203":    func(r *Record) { r.Kernel = math.MaxInt64 },
		"201 buckets":            func(r *Record) { r.Buckets = 201 },
		"4097 links":             func(r *Record) { r.Links = make([]Link, 4097) },
		"cannot be drawn":        func(r *Record) { r.Plan.Boxes[0].X = 1e9 },
		"SIP 2 of 2":             func(r *Record) { r.Links[0].SIP = 2 },
		"busy -1":                func(r *Record) { r.Links[0].Busy = -1 },
		"step 3 of the critical": func(r *Record) { r.Path = slices.Delete(r.Path, 3, 4) },
		"its causes add up to":   func(r *Record) { r.Path[0].Causes = map[string]int64{"wires": 1} },
		`ps of "<script>"`:       func(r *Record) { r.Path[0].Causes = map[string]int64{"<script>": 1} },
		"the critical path ends": func(r *Record) { r.Path = r.Path[:len(r.Path)-1] },
		"a name of more than":    func(r *Record) { r.Path[0].PE = strings.Repeat("x", 1000) },
		"buckets of 0":           func(r *Record) { r.Bucket = 0 },
		"link 0":                 func(r *Record) { r.Links[0].Load = make([]byte, 300) },
		"2 SIPs of 0 x":          func(r *Record) { r.Plan.W = 0 },
	} {
		bad := must.Get(Decode(data))(t)
		damage(bad)
		text := must.Get(bad.Encode())(t)
		if _, err := Decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, bad := range [][]byte{nil, []byte("{}"), data[:len(data)/2], make([]byte, MaxFile+1), bomb(t)} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%d bytes that are no record are read", len(bad))
		}
	}
	if data, err := Of(launch(t, false)).Encode(); data != nil || err != nil {
		t.Errorf("nobody looked, and it gives %d bytes, %v", len(data), err)
	}
}

// bomb is a small file that decompresses to far more than any record.
func bomb(t *testing.T) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range maxText>>20 + 1 {
		must.Get(z.Write(zeros))(t)
	}
	must.Do(t, z.Close())
	return b.Bytes()
}

// The record has the busiest link first and the names of the path, and condensing loses no time.
func TestRecord(t *testing.T) {
	m, r := launch(t, true)
	rec := Of(m, r)
	if got := rec.Links[0]; got.Name != "sip0.cube0.r1c5 -> ucie-E.conn0" || got.Bytes != 4096 || got.Busy != 32_000 {
		t.Errorf("%+v", got)
	}
	text := must.Get(json.Marshal(rec.Path))(t)
	for _, want := range []string{`"sender":"sip0.cube2.pe0"`, `"link":"sip0.cube2.r1c5 -\u003e ucie-E.conn0"`,
		`"part":"pe_math"`, `"part":"receive slot"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the path has no %s: %s", want, text)
		}
	}
	sum := map[string]int64{}
	for _, s := range rec.Path {
		for cause, time := range s.Causes {
			sum[cause] += time
		}
	}
	if sum["wires"] != int64(r.Breakdown.Wire) || sum["compute"] != int64(r.Breakdown.Compute) {
		t.Errorf("%v, want %+v", sum, r.Breakdown)
	}
	for n := 2; n < len(rec.Path); n++ {
		short := *rec
		short.Path = Condense(rec.Path, n)
		if err := short.checkPath(); err != nil || len(short.Path) > n+1 {
			t.Errorf("%d steps in at most %d: %v", len(short.Path), n, err)
		}
	}
	if err := rec.checkPath(); err != nil {
		t.Errorf("the whole path has suffered: %v", err)
	}
}
