package service

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// The tests run the kernels of GPUs on the CPU.
func TestMain(m *testing.M) {
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		return map[string]string{cuda.LibraryVariable: lib}
	}, gpusolve.Sources()))
}

// client is what a Python process has in GPU memory: the arrays of one request.
type client struct {
	context *cuda.Context
	at      cuda.Pointer
	q       Request
	values  []float64
	starts  []uint32
	columns []uint32
	b       []float64 // column by column
}

// newClient puts a problem into GPU memory, with its values multiplied by factor. It leaves a gap before the arrays,
// because an allocation of torch holds several tensors.
func newClient(t *testing.T, p sparse.Problem, columns int, factor float64) *client {
	const gap = 512
	id := fmt.Sprintf("%s-%d-%d", t.Name(), p.Size(), int(factor))
	g := must.Get(dist.Init(t.Context(), dist.Config{Backend: "cuda", Size: 1, ID: id}))(t)
	t.Cleanup(func() { must.Do(t, g.Close()) })
	c := &client{context: must.Get(device.ContextOf(g))(t), starts: []uint32{0}}
	reciprocals := make([]float64, p.Size())
	var row sparse.Row
	tile := 0
	for i := range p.Size() {
		p.Row(i, &row)
		for k, col := range row.Cols {
			c.values, c.columns = append(c.values, factor*row.Vals[k]), append(c.columns, uint32(col))
			if col == i {
				reciprocals[i] = 1 / (factor * row.Vals[k])
			}
		}
		c.starts = append(c.starts, uint32(len(c.values)))
		tile = max(tile, len(c.values)-int(c.starts[i/gpusolve.Rows*gpusolve.Rows]))
	}
	for j := range columns {
		for i := range p.Size() {
			c.b = append(c.b, float64(j%2)*sparse.Noise(uint64(j), i)) // the first column is zero
		}
	}
	data := slices.Concat(make([]byte, gap), dist.Of(c.values).Bytes(), dist.Of(reciprocals).Bytes(), dist.Of(c.b).Bytes(),
		make([]byte, 8*len(c.b)))
	for _, list := range [][]uint32{c.starts, c.columns} {
		for _, v := range list {
			data = append(data, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
	}
	c.q = Request{Rows: p.Size(), Entries: len(c.values), Columns: columns, Tol: 1e-10, Ranks: 1, Method: auto,
		Precond: "none", Device: &Device{Offset: gap, TileEntries: tile}}
	must.Do(t, c.context.Do(func() (err error) {
		c.at = must.Get(c.context.Alloc(len(data)))(t)
		handle := must.Get(c.context.Export(c.at))(t)
		c.q.Device.Handle = handle[:]
		return c.context.Write(c.at, data)
	}))
	c.at += gap
	return c
}

// residual returns the largest relative residual of the columns of the solution in GPU memory.
func (c *client) residual(t *testing.T) (worst float64) {
	x := make([]float64, len(c.b))
	at := c.at + cuda.Pointer(8*(len(c.values)+c.q.Rows+len(c.b)))
	must.Do(t, c.context.Do(func() error { return c.context.Read(dist.Of(x).Bytes(), at) }))
	for j := range c.q.Columns {
		squares := [2]float64{}
		for i := range c.q.Rows {
			b := c.b[j*c.q.Rows+i]
			d := b
			for k := c.starts[i]; k < c.starts[i+1]; k++ {
				d -= c.values[k] * x[j*c.q.Rows+int(c.columns[k])]
			}
			squares[0] += d * d
			squares[1] += b * b
		}
		worst = max(worst, math.Sqrt(squares[0]/max(squares[1], 1e-300)))
	}
	return worst
}

// Systems in GPU memory are solved there, for every method and preconditioner.
func TestDevice(t *testing.T) {
	for k, kind := range []string{"mesh", "variable"} {
		c := newClient(t, must.Get(sparse.New(kind, sparse.Params{Rows: 900 + 100*k, Seed: 1}))(t), 3, 1)
		counts := map[string]int{}
		for _, method := range device.Methods() {
			for _, precond := range []string{"none", "jacobi"} {
				c.q.Method, c.q.Precond = method, precond
				reply, err := answer(t.Context(), c.q, nil)
				if err != nil || reply.Iterations < 10 || !(reply.Residual <= c.q.Tol) || !(c.residual(t) < 10*c.q.Tol) {
					t.Errorf("%s, %s, %s: %+v, residual %.2g, %v", kind, method, precond, reply, c.residual(t), err)
				}
				counts[precond] += reply.Iterations
			}
		}
		if counts["jacobi"] >= counts["none"] {
			t.Errorf("%s: the preconditioner is without effect: %v", kind, counts)
		}
	}
}

// One row is a system, too.
func TestDeviceOneRow(t *testing.T) {
	c := newClient(t, must.Get(sparse.New("poisson", sparse.Params{Rows: 1}))(t), 2, 1)
	if reply, err := answer(t.Context(), c.q, nil); err != nil || reply.Iterations != 1 || c.residual(t) > 1e-15 {
		t.Errorf("%+v, %v, residual %g", reply, err, c.residual(t))
	}
}

// Requests that GPUs cannot fulfil get an error that says why.
func TestDeviceRefuses(t *testing.T) {
	p := must.Get(sparse.New("variable", sparse.Params{Rows: 400}))(t)
	c := newClient(t, p, 2, 1)
	for want, change := range map[string]func(q *Request, d *Device){
		"method gmres does not run on GPUs, only cg, cg-single, cg-pipelined": func(q *Request, _ *Device) { q.Method = "gmres" },
		"preconditioner gmg needs the grid of a generated problem":            func(q *Request, _ *Device) { q.Precond = "gmg" },
		"preconditioner amg does not run on GPUs":                             func(q *Request, _ *Device) { q.Precond = "amg" },
		"too many iterations (3)":                                             func(q *Request, _ *Device) { q.MaxIter = 3 },
		"a handle of 5 bytes, want 64":                                        func(_ *Request, d *Device) { d.Handle = d.Handle[:5] },
		"opening the memory of the tensors":                                   func(_ *Request, d *Device) { d.Handle = make([]byte, 64) },
	} {
		q, d := c.q, *c.q.Device
		q.Device = &d
		change(&q, &d)
		if _, err := answer(t.Context(), q, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	negative := newClient(t, p, 2, -1)
	_, err := answer(t.Context(), negative.q, nil)
	if err == nil || !strings.Contains(err.Error(), "not positive definite") {
		t.Errorf("-A: %v", err)
	}
}
