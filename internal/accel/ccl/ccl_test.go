package ccl

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

func TestDefault(t *testing.T) {
	want := Settings{Buffer: topo.TCMSpace, Slots: 4, SlotBytes: 4096, CreditBytes: 16, Root: Center}
	if diff := cmp.Diff(want, Default().Settings()); diff != "" || Default().Algorithm != LRAB {
		t.Error(diff)
	}
	c, err := Default().With(Tree, func(s *Settings) { s.Slots = 9 })
	if err != nil || c.Settings().Slots != 9 || Default().Algorithms[Tree].Slots != 4 {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := c.With("tre", nil); err == nil || !strings.Contains(err.Error(), `did you mean "tree"`) {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "ccl.yaml")
	if _, err := Load(path); err == nil {
		t.Error("a missing file was read")
	}
	must.Do(t, os.WriteFile(path, DefaultFile(), 0o644))
	if got, err := Load(path); err != nil || !cmp.Equal(got, Default()) {
		t.Errorf("%v, %v", got, err)
	}
}

// An algorithm's own keys override the defaults.
func TestOverride(t *testing.T) {
	text := strings.Replace(string(DefaultFile()), "root: center ",
		"root: corner\n    buffer_kind: hbm\n    backpressure: poll\n    n_slots: 2 ", 1)
	c := must.Get(Parse("ccl.yaml", []byte(text)))(t)
	want := Settings{Buffer: topo.HBMSpace, Poll: true, Slots: 2, SlotBytes: 4096, CreditBytes: 16, Root: Corner}
	if diff := cmp.Diff(want, c.Settings()); diff != "" {
		t.Error(diff)
	}
	if c.Algorithms[Tree].Buffer != topo.TCMSpace {
		t.Error("another algorithm was changed, too")
	}
}

var leaf = regexp.MustCompile(`([a-z_]+): ([0-9a-z_]+)`)

// A wrong value, a misspelt key or a missing line gives an error at its line that names the key.
func TestEveryFieldWrong(t *testing.T) {
	lines := strings.Split(string(DefaultFile()), "\n")
	for i, line := range lines {
		code, _, _ := strings.Cut(line, "#")
		at := leaf.FindStringSubmatchIndex(code)
		if at == nil {
			continue
		}
		key := code[at[2]:at[3]]
		for _, wrong := range []string{code[:at[4]] + "-1", code[:at[4]] + "banana", code[:at[4]] + "[1]", code[:at[4]],
			code[:at[2]] + key + "x" + code[at[3]:]} {
			changed := slices.Clone(lines)
			changed[i] = wrong
			_, err := Parse("ccl.yaml", []byte(strings.Join(changed, "\n")))
			fault, located := err.(*yamlfile.Error)
			if !located || fault.Faults[0].Line < i+1 || fault.Faults[0].Line > i+2 || !strings.Contains(err.Error(), key) {
				t.Errorf("%q gives %v", wrong, err)
			}
		}
		if key == "root" { // optional
			continue
		}
		if _, err := Parse("ccl.yaml", []byte(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n"))); err == nil {
			t.Errorf("a file without %s is accepted", key)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(string(DefaultFile()), "  tree: {}", "  three: {}",
			1): `unknown algorithm "three", did you mean "tree"`,
		strings.Replace(string(DefaultFile()), "  tree: {}", "  tree: {root: center}", 1): `unknown key "root"`,
		strings.Replace(string(DefaultFile()), "lrab_hierarchical_allreduce:", "#", 1):    "",
		strings.Split(string(DefaultFile()), "algorithms:")[0] +
			"algorithms: {tree: {}}\n": `"lrab_hierarchical_allreduce" is not among the algorithms`,
	} {
		if _, err := Parse("ccl.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(string(DefaultFile()))
	f.Fuzz(func(t *testing.T, text string) { Parse("ccl.yaml", []byte(text)) })
}

// shapes draws a random machine and the shape of an all-reduce over all its cubes.
func shapes(t *rapid.T) (Shape, *topo.Topology) {
	kind := rapid.SampledFrom([]topo.Kind{topo.Ring, topo.Torus, topo.Mesh}).Draw(t, "kind")
	w, h := rapid.IntRange(1, 4).Draw(t, "w"), rapid.IntRange(1, 4).Draw(t, "h")
	if kind == topo.Ring {
		h = 1
	}
	m, err := topo.Default().WithSIPs(kind, w, h)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.WithCubes(rapid.IntRange(1, 5).Draw(t, "cubes w"), rapid.IntRange(1, 5).Draw(t, "cubes h")); err != nil {
		t.Fatal(err)
	}
	return Shape{N: 6, Cubes: m.Cubes, SIPs: m.SIPs, Root: rapid.SampledFrom([]Root{Center, Corner}).Draw(t, "root")}, m
}

// The LRAB kernel is an all-reduce, on any machine.
func TestKernelIsProved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := shapes(t)
		must.Do(t, s.Prove(m))
	})
}

// Wrong kernels fail the proof.
func TestWrongKernels(t *testing.T) {
	m := must.Get(topo.Default().WithSIPs(topo.Ring, 2, 1))(t)
	s := Shape{N: 4, Cubes: m.Cubes, SIPs: m.SIPs, Root: Center}
	separate := s
	separate.SIPs.Grid.W = 1 // no exchange between the SIPs
	ptr := first(m)
	for name, kernel := range map[string]tl.Kernel{
		"sums of single SIPs": must.Get(Kernel(LRAB, separate, ptr))(t),
		"no sum":              func(p *tl.PE) { p.Store(ptr(p.ID()), p.Load(ptr(p.ID()), s.N)) },
		"added twice": func(p *tl.PE) {
			x := p.Load(ptr(p.ID()), s.N)
			p.Store(ptr(p.ID()), p.Add(x, x))
		},
		"a deadlock": func(p *tl.PE) { p.Send(tl.GlobalE, p.Recv(tl.GlobalW, s.N)) },
	} {
		if err := schedule.Check(must.Get(s.record(m, kernel))(t)); err == nil {
			t.Errorf("%s: proved to be an all-reduce", name)
		}
	}
	for name, kernel := range map[string]tl.Kernel{
		"another function": func(p *tl.PE) { x := p.Scratch(s.N); p.FMA(x, x, x) },
		"another length":   func(p *tl.PE) { p.Load(ptr(p.ID()), 1) },
		"any sender":       func(p *tl.PE) { p.RecvAny(s.N) },
	} {
		if _, err := s.record(m, kernel); err == nil || !strings.Contains(err.Error(), "cannot be proved") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// first returns the address of the first element of each PE's HBM.
func first(m *topo.Topology) func(topo.PEID) tl.Ptr {
	return func(id topo.PEID) tl.Ptr {
		a, err := m.Address(topo.Location{PEID: id, Space: topo.HBMSpace})
		if err != nil {
			panic(err)
		}
		return tl.Ptr{Addr: a}
	}
}

// The published numbers of rounds between SIPs and the position of the root.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		kind topo.Kind
		w, h int
		want int
	}{{topo.Ring, 6, 1, 5}, {topo.Torus, 2, 3, 3}} {
		m := must.Get(topo.Default().WithSIPs(c.kind, c.w, c.h))(t)
		s := Shape{N: 1, Cubes: m.Cubes, SIPs: m.SIPs, Root: Center}
		recorded := must.Get(s.record(m, must.Get(Kernel(LRAB, s, first(m)))(t)))(t)
		most := 0
		for rank := range recorded.Ranks() {
			between := 0
			for step := range recorded.Steps(rank) {
				if step.Op.Sends() && step.To.First/16 != rank/16 {
					between++
				}
			}
			most = max(most, between)
		}
		if most != c.want {
			t.Errorf("%s: the busiest root sends %d times, want %d", c.kind, most, c.want)
		}
	}
	if row, col := (Shape{Cubes: topo.Grid{W: 4, H: 4}, Root: Center}).RootCube(); row*4+col != 10 {
		t.Errorf("the root of 4 x 4 is at %d, %d", row, col)
	}
}

func TestUnknownAlgorithm(t *testing.T) {
	if _, err := Kernel("butterfly", Shape{}, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprint(Names())) {
		t.Errorf("%v", err)
	}
}
