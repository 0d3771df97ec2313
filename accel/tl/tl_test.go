package tl

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

func env(t testing.TB, id topo.PEID) program.Env {
	t.Helper()
	return program.Env{Topo: topo.Default(), ID: id, PEs: 8, Cubes: 16, SlotBytes: 4096}
}

func hbm(t testing.TB, id topo.PEID) Ptr {
	t.Helper()
	a := must.Get(topo.Default().Address(topo.Location{PEID: id, Space: topo.HBMSpace}))(t)
	return Ptr{Addr: a}
}

// Every mistake gives an error with the line of the call and the reason.
func TestMistakes(t *testing.T) {
	x := hbm(t, topo.PEID{})
	tcm, _ := topo.Default().Address(topo.Location{Space: topo.TCMSpace})
	end := hbm(t, topo.PEID{PE: 1}).Plus(-4)
	var foreign Tile
	must.Get(Record(env(t, topo.PEID{}), func(p *PE) { p.Scratch(1); p.Scratch(1); foreign = p.Scratch(1) }))(t)
	for want, kernel := range map[string]Kernel{
		"send W: no neighbour there; the directions of sip0.cube0.pe0 are " +
			"intra_S intra_E S E global_E global_W": func(p *PE) {
			p.Send(W, p.Load(x, 1))
		},
		"recv intra_N: no neighbour there": func(p *PE) { p.Recv(IntraN, 1) },
		"recv: 99 is not a direction":      func(p *PE) { p.Recv(99, 1) },
		"a tile of 4098 bytes does not fit into a slot of 4096 bytes: raise slot_size": func(p *PE) {
			p.Send(E, p.Load(x, 2049))
		},
		"recv: a tile of 4098 bytes":            func(p *PE) { p.RecvAsync(E, 2049) },
		"of the TCM's 16777216 bytes are taken": func(p *PE) { p.Scratch(6 << 20); p.Scratch(6 << 20) },
		"a tile of 0 elements":                  func(p *PE) { p.Load(x, 0) },
		"add of 1 x 3 and 1 x 2 elements":       func(p *PE) { p.Add(p.Scratch(3), p.Scratch(2)) },
		"mul of 2 x 3 and 3 x 2 elements: want equal rows and columns, or 1": func(p *PE) {
			p.Binary(Mul, p.Scratch(6).Reshape(2, 3), p.Scratch(6).Reshape(3, 2))
		},
		"add of 2 x 3 into 1 x 3: want a shape that repeats to it": func(p *PE) {
			p.AddTo(p.Scratch(3), p.Scratch(6).Reshape(2, 3))
		},
		"reshape of a tile of 6 elements to 4 x 2": func(p *PE) { p.Scratch(6).Reshape(4, 2) },
		"store: the tile is f32 and the memory f16: Cast the tile first": func(p *PE) {
			p.Store(x, p.Scratch(1, F32))
		},
		"dot of f16 and bf16: want equal types": func(p *PE) { p.Dot(p.Scratch(1), p.Scratch(1, BF16), 1, 1, 1) },
		"recv: a tile of 4100 bytes":            func(p *PE) { p.Recv(E, 1025, F32) },
		"composite: A is bf16 and out f16: want equal types": func(p *PE) {
			p.Composite(Gemm{M: 1, K: 1, N: 1, A: Loaded(p.Scratch(1, BF16)), B: Ref(x), Out: x.Plus(8)})
		},
		"add: the tile does not belong to this kernel":   func(p *PE) { p.Add(foreign, foreign) },
		"store: the tile does not belong to this kernel": func(p *PE) { p.Store(x, Tile{form: program.Form{Rows: 1, Cols: 1}}) },
		"load: address":                                   func(p *PE) { p.Load(Ptr{Addr: 1 << 60}, 1) },
		"load: sip0.cube0.pe0.tcm+0 is not HBM":           func(p *PE) { p.Load(Ptr{Addr: tcm}, 1) },
		"reach beyond the end of that PE's HBM":           func(p *PE) { p.Load(end, 5) },
		"a view of elements 3 to 5 of a tile of 4":        func(p *PE) { p.View(p.Scratch(4), 3, 2) },
		"wait: the handle does not belong to this kernel": func(p *PE) { p.Wait(Handle{}) },
		"sum does not take two tiles":                     func(p *PE) { p.Binary(Sum, p.Scratch(1), p.Scratch(1)) },
		"add does not take one tile":                      func(p *PE) { p.Unary(Add, p.Scratch(1)) },
		"dot of 2x3 and 3x4: the tiles have 5 and 12":     func(p *PE) { p.Dot(p.Scratch(5), p.Scratch(12), 2, 3, 4) },
		"composite of 0x1x1": func(p *PE) {
			p.Composite(Gemm{M: 0, K: 1, N: 1, A: Ref(x), B: Ref(x), Out: x.Plus(8)})
		},
		"composite: B has 3 elements, want 4": func(p *PE) {
			p.Composite(Gemm{M: 2, K: 2, N: 2, A: Ref(x), B: Loaded(p.Scratch(3)), Out: x.Plus(8)})
		},
		"the add of the epilogue has 3 elements of f16, want a row of 2 of f16": func(p *PE) {
			p.Composite(Gemm{M: 2, K: 2, N: 2, A: Ref(x), B: Ref(x), Out: x.Plus(8), Epilogue: []Epilogue{{Add, p.Scratch(3)}}})
		},
		"sum cannot be an epilogue": func(p *PE) {
			p.Composite(Gemm{M: 2, K: 2, N: 2, A: Ref(x), B: Ref(x), Out: x.Plus(8), Epilogue: []Epilogue{{Fn: Sum}}})
		},
		"panic: runtime error: index out":      func(p *PE) { p.Scratch(1); _ = []int{}[p.SIP()] },
		"send to sip0.cube0.pe0: want another": func(p *PE) { p.SendTo(topo.PEID{}, p.Scratch(1)) },
		"recv from sip7.cube0.pe0":             func(p *PE) { p.RecvFrom(topo.PEID{SIP: 7}, 1) },
	} {
		_, err := Record(env(t, topo.PEID{}), kernel)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "kernel on sip0.cube0.pe0: tl/tl_test.go:") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPosition(t *testing.T) {
	_, err := Record(env(t, topo.PEID{SIP: 1, Cube: 5, PE: 3}), func(p *PE) {
		if p.ProgramID(0) != 3 || p.ProgramID(1) != 5 || p.NumPrograms(0) != 8 || p.NumPrograms(1) != 16 || p.SIP() != 1 ||
			p.Topology() == nil {
			t.Error("the PE reports a wrong position")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for d := range program.Dirs {
		if d.Opposite().Opposite() != d || d.Opposite() == d {
			t.Errorf("%v is opposite to %v", d, d.Opposite())
		}
	}
}

// cells is a memory with one allocated range.
type cells struct {
	at   topo.Address
	data []dtype.Float16
}

func (c cells) Range(at topo.Address, n int) ([]byte, error) {
	off := int(at - c.at)
	if at < c.at || off+n > len(c.data)*ElemSize {
		return nil, errors.New("not allocated")
	}
	return dtype.Bytes(c.data)[off : off+n], nil
}

func half(values ...float32) []dtype.Float16 {
	out := make([]dtype.Float16, len(values))
	for i, v := range values {
		out[i] = dtype.Float16From(v)
	}
	return out
}

// execute records a kernel for PE 0, executes its operations in program order and returns data.
func execute(t *testing.T, data []dtype.Float16, k Kernel) []dtype.Float16 {
	t.Helper()
	x := hbm(t, topo.PEID{})
	prog := must.Get(Record(env(t, topo.PEID{}), k))(t)
	run := program.NewExecutor(cells{x.Addr, data}, []*program.Program{prog})
	for i := range prog.Ops {
		must.Do(t, run.Do(0, i, prog.Ops[i].Port))
	}
	return data
}

// Each function is applied to the tiles 6 0 3 and 2 4 -1.
func TestMath(t *testing.T) {
	x := hbm(t, topo.PEID{})
	for name, c := range map[string]struct {
		f    func(p *PE, a, b Tile) Tile
		want []float32
	}{
		"add":     {(*PE).Add, []float32{8, 4, 2}},
		"sub":     {func(p *PE, a, b Tile) Tile { return p.Binary(Sub, a, b) }, []float32{4, -4, 4}},
		"mul":     {func(p *PE, a, b Tile) Tile { return p.Binary(Mul, a, b) }, []float32{12, 0, -3}},
		"div":     {func(p *PE, a, b Tile) Tile { return p.Binary(Div, a, b) }, []float32{3, 0, -3}},
		"maximum": {func(p *PE, a, b Tile) Tile { return p.Binary(Maximum, a, b) }, []float32{6, 4, 3}},
		"minimum": {func(p *PE, a, b Tile) Tile { return p.Binary(Minimum, a, b) }, []float32{2, 0, -1}},
		"fma":     {func(p *PE, a, b Tile) Tile { return p.FMA(a, b, b) }, []float32{14, 4, -4}},
		"clamp":   {func(p *PE, a, b Tile) Tile { return p.Clamp(a, 1, 5) }, []float32{5, 1, 3}},
		"exp":     {func(p *PE, a, b Tile) Tile { return p.Unary(Exp, p.Binary(Sub, a, a)) }, []float32{1, 1, 1}},
		"softmax": {func(p *PE, a, b Tile) Tile {
			return p.Unary(Softmax, p.Binary(Sub, b, b))
		}, []float32{1. / 3, 1. / 3, 1. / 3}},
		"sum":   {func(p *PE, a, b Tile) Tile { return p.Unary(Sum, a) }, []float32{9}},
		"max":   {func(p *PE, a, b Tile) Tile { return p.Unary(Max, b) }, []float32{4}},
		"log":   {func(p *PE, a, b Tile) Tile { return p.Unary(Log, p.Unary(Exp, b)) }, []float32{2, 4, -1}},
		"sqrt":  {func(p *PE, a, b Tile) Tile { return p.Unary(Sqrt, p.Full(2.25, 1)) }, []float32{1.5}},
		"rsqrt": {func(p *PE, a, b Tile) Tile { return p.Unary(Rsqrt, p.Full(4, 1)) }, []float32{0.5}},
		"tanh":  {func(p *PE, a, b Tile) Tile { return p.Unary(Tanh, b) }, []float32{0.9640, 0.9993, -0.7616}},
		"gelu":  {func(p *PE, a, b Tile) Tile { return p.Unary(Gelu, b) }, []float32{1.9545, 3.9999, -0.1587}},
		"silu":  {func(p *PE, a, b Tile) Tile { return p.Unary(Silu, b) }, []float32{1.7616, 3.9281, -0.2689}},
		"relu":  {func(p *PE, a, b Tile) Tile { return p.Unary(Relu, b) }, []float32{2, 4, 0}},
		"min":   {func(p *PE, a, b Tile) Tile { return p.Unary(Min, b) }, []float32{-1}},
		"rows": {func(p *PE, a, b Tile) Tile { // 2 4 -1 | 8 16 -4
			rows := p.Binary(Mul, b, p.columns(1, 4))
			return p.Unary(Sum, rows)
		}, []float32{5, 20}},
		"outer": {func(p *PE, a, b Tile) Tile { return p.Add(b, p.columns(10, 20)) }, []float32{12, 14, 9, 22, 24, 19}},
		"scalar": {func(p *PE, a, b Tile) Tile {
			return p.Binary(Sub, b.Reshape(3, 1), p.Full(1, 1))
		}, []float32{1, 3, -2}},
		"softmax of rows": {func(p *PE, a, b Tile) Tile {
			return p.Unary(Softmax, p.Full(7, 4).Reshape(2, 2))
		}, []float32{.5, .5, .5, .5}},
		"fma of three shapes": {func(p *PE, a, b Tile) Tile {
			return p.FMA(b, p.columns(1, 2), p.Full(100, 1))
		}, []float32{102, 104, 99, 104, 108, 98}},
		"add a row to each row": {func(p *PE, a, b Tile) Tile {
			both := p.Full(1, 6).Reshape(2, 3)
			p.AddTo(both, b)
			return both
		}, []float32{3, 5, 0, 3, 5, 0}},
		"f32": {func(p *PE, a, b Tile) Tile { // 2049 is not an f16
			wide := p.Add(p.Full(2048, 3, F32), p.Cast(p.Full(1, 3), F32))
			return p.Cast(p.Binary(Sub, wide, p.Full(2048, 1)), F16)
		}, []float32{1, 1, 1}},
		"bf16": {func(p *PE, a, b Tile) Tile { // 257 is not a bf16: 256 is the nearest, even one
			return p.Cast(p.Add(p.Full(256, 1, BF16), p.Full(1, 1, BF16)), F16)
		}, []float32{256}},
		"in place": {func(p *PE, a, b Tile) Tile {
			part := p.View(a, 1, 2)
			p.AddTo(part, p.View(b, 0, 2))
			return a
		}, []float32{6, 2, 7}},
		"scratch": {func(p *PE, a, b Tile) Tile {
			s := p.Scratch(3)
			p.CopyTo(p.View(s, 2, 1), p.View(a, 0, 1))
			return s
		}, []float32{0, 0, 6}},
	} {
		got := execute(t, half(6, 0, 3, 2, 4, -1), func(p *PE) { p.Store(x, c.f(p, p.Load(x, 3), p.Load(x.Plus(3), 3))) })
		for i, want := range c.want {
			if v := got[i].Float32(); math.Abs(float64(v-want)) > 1e-3*math.Abs(float64(want)) {
				t.Errorf("%s: element %d is %v, want %v", name, i, v, want)
			}
		}
	}
}

// columns returns a tile of one column with two elements.
func (p *PE) columns(first, second float32) Tile {
	both := p.Scratch(2)
	p.CopyTo(p.View(both, 0, 1), p.Full(first, 1))
	p.CopyTo(p.View(both, 1, 1), p.Full(second, 1))
	return both.Reshape(2, 1)
}

// Dot multiplies tiles; Composite takes operands in HBM or loaded ones.
func TestGemm(t *testing.T) {
	x := hbm(t, topo.PEID{})
	// A = 1 2 / 3 4, B = 5 6 / 7 8, bias 100 200
	data := func() []dtype.Float16 {
		return append(half(1, 2, 3, 4, 5, 6, 7, 8, 100, 200), make([]dtype.Float16, 4)...)
	}
	a, b, bias, out := x, x.Plus(4), x.Plus(8), x.Plus(10)
	for name, c := range map[string]struct {
		k    Kernel
		want []float32
	}{
		"dot": {func(p *PE) { p.Store(out, p.Dot(p.Load(a, 4), p.Load(b, 4), 2, 2, 2)) }, []float32{19, 22, 43, 50}},
		"dot of f32": {func(p *PE) {
			wide := func(at Ptr) Tile { return p.Cast(p.Load(at, 4), F32) }
			p.Store(out, p.Cast(p.Dot(wide(a), wide(b), 2, 2, 2), F16))
		}, []float32{19, 22, 43, 50}},
		"dot to f32": {func(p *PE) {
			p.Store(out, p.Cast(p.Dot(p.Load(a, 4), p.Load(b, 4), 2, 2, 2, F32), F16))
		}, []float32{19, 22, 43, 50}},
		"composite": {func(p *PE) {
			p.Wait(p.Composite(Gemm{M: 2, K: 2, N: 2, A: Ref(a), B: Ref(b), Out: out}))
		}, []float32{19, 22, 43, 50}},
		"epilogue": {func(p *PE) {
			p.Wait(p.Composite(Gemm{M: 2, K: 2, N: 2, A: Loaded(p.Load(a, 4)), B: Ref(b), Out: out,
				Epilogue: []Epilogue{{Add, p.Load(bias, 2)}, {Maximum, p.Load(bias, 2)}}}))
		}, []float32{119, 222, 143, 250}},
	} {
		got := execute(t, data(), c.k)
		if diff := cmp.Diff(half(c.want...), got[10:]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A message carries the data at the time of the send, and a receive of another length fails.
func TestMessages(t *testing.T) {
	x := hbm(t, topo.PEID{})
	record := func(id topo.PEID, k Kernel) *program.Program {
		return must.Get(Record(env(t, id), k))(t)
	}
	sender := record(topo.PEID{}, func(p *PE) {
		v := p.Load(x, 2)
		p.Send(E, v)
		p.AddTo(v, v)
	})
	receiver := record(topo.PEID{Cube: 1}, func(p *PE) { p.Store(x, p.Recv(W, 2)) })
	if sender.Ops[1].Port != receiver.Ops[0].Port {
		t.Fatalf("sent to %v, received from %v", sender.Ops[1].Port, receiver.Ops[0].Port)
	}
	data := half(1, 2)
	run := program.NewExecutor(cells{x.Addr, data}, []*program.Program{sender, receiver})
	if err := run.Do(1, 0, receiver.Ops[0].Port); err == nil {
		t.Error("received before anything was sent")
	}
	for _, step := range [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}} {
		must.Do(t, run.Do(step[0], step[1], receiver.Ops[0].Port))
	}
	if diff := cmp.Diff(half(1, 2), data); diff != "" {
		t.Error(diff)
	}
	short := record(topo.PEID{Cube: 1}, func(p *PE) { p.Recv(W, 3) })
	run = program.NewExecutor(cells{x.Addr, data}, []*program.Program{sender, short})
	for _, step := range [][2]int{{0, 0}, {0, 1}} {
		must.Do(t, run.Do(step[0], step[1], program.Port{}))
	}
	if err := run.Do(1, 0, short.Ops[0].Port); err == nil ||
		!strings.Contains(err.Error(), "4 bytes were sent, 6 are received") {
		t.Errorf("%v", err)
	}
	must.Do(t, run.Do(0, 0, program.Port{}))
	if err := program.NewExecutor(cells{x.Addr, nil}, []*program.Program{sender}).Do(0, 0,
		program.Port{}); err == nil ||
		!strings.Contains(err.Error(), "sip0.cube0.pe0: load at tl/tl_test.go:") {
		t.Errorf("%v", err)
	}
}
