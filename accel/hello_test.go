package accel

import (
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

// rowSums gives every cube the sum of its tile and all tiles west of it in its row.
func rowSums(x *Tensor) tl.Kernel {
	return func(p *tl.PE) {
		tile, _ := x.On(p.ID())
		sum := p.Load(tile.Ptr, tile.Cols)
		columns := p.Topology().Cubes.W
		column := p.ProgramID(1) % columns
		if column > 0 {
			sum = p.Add(sum, p.Recv(tl.W, tile.Cols))
		}
		if column < columns-1 {
			p.Send(tl.E, sum)
		}
		p.Store(tile.Ptr, sum)
	}
}

// The collective of the documentation works, and docs/accelerator-kernels.md shows it as it is here.
func TestHelloWorld(t *testing.T) {
	s := New(topo.Default(), ccl.Default())
	x := must.Get(s.Zeros(0, 16, 8, PerCube))(t)
	ones := make([]dtype.Float16, 16*8)
	for i := range ones {
		ones[i] = dtype.Float16From(1)
	}
	must.Do(t, x.Set(ones))
	result := must.Get(s.Launch(rowSums(x), OnPE0(s, 0)))(t)
	for i, v := range x.Data() {
		if want := float32(i/8%4 + 1); v.Float32() != want {
			t.Errorf("element %d of cube %d is %v, want %v", i%8, i/8, v.Float32(), want)
		}
	}
	if result.Crit == 0 || result.Crit != s.Now() {
		t.Errorf("it took %v, the clock says %v", result.Crit, s.Now())
	}

	source := must.Get(os.ReadFile("hello_test.go"))(t)
	doc := must.Get(os.ReadFile("../docs/accelerator-kernels.md"))(t)
	_, rest, _ := strings.Cut(string(source), "// rowSums")
	kernel, _, _ := strings.Cut("// rowSums"+rest, "\n// The collective of the documentation")
	if !strings.Contains(string(doc), kernel) {
		t.Errorf("docs/accelerator-kernels.md does not show the kernel as it is:\n%s", kernel)
	}
}
