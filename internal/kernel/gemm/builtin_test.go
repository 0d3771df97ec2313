package gemm_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gemmtest"
	"github.com/kernbench/kernbench/internal/kernel/proof"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// Every provider conforms: the built-in one at every level of this machine, and the libraries. The race detector checks
// the threads in the tests below, which need only a tenth of the arithmetic.
func TestConformance(t *testing.T) {
	for _, p := range gemm.On(gemm.Host) {
		gemmtest.Run(t, p, 1, 3)
	}
}

// The suite finds errors planted into the kernels for tile registers: the elements of a step are in
// the wrong order, the last step along k is missing, and the sums are not cleared.
func TestPlantedTileFaults(t *testing.T) {
	around := func(change func(*tile.Args) (undo func())) func(*tile.Kernel) {
		return func(k *tile.Kernel) {
			for _, f := range []*tile.Func{&k.Whole, &k.Half} { // not FewRows, which has another layout
				kernel := *f
				*f = func(a *tile.Args) {
					undo := change(a)
					kernel(a)
					undo()
				}
			}
		}
	}
	faults := map[string]func(a *tile.Args) func(){
		"swapped elements of a step": func(a *tile.Args) func() {
			swap := func() {
				x := tile.At[[4]byte](a.B)
				x[0], x[1], x[2], x[3] = x[2], x[3], x[0], x[1]
			}
			swap()
			return swap
		},
		"missed tail": func(a *tile.Args) func() {
			last := tile.At[[tile.GroupBytes]byte](a.B + uintptr((a.K/16-1)*tile.GroupBytes))
			before := *last
			clear(last[:])
			return func() { *last = before }
		},
		"uncleared sums": func(a *tile.Args) func() {
			add := a.Add
			a.Add = true
			return func() { a.Add = add }
		},
	}
	for _, d := range []dtype.DType{dtype.BF16, dtype.I8} {
		if !tile.For(tile.Best(), d).Strips {
			continue // this processor has no tile registers
		}
		for name, fault := range faults {
			if len(gemmtest.Faults(gemm.Twisted(d, around(fault)), 1)) == 0 {
				t.Errorf("%v: %s were not found", d, name)
			}
		}
		for _, err := range gemmtest.Faults(gemm.Twisted(d, around(func(*tile.Args) func() { return func() {} })), 1) {
			t.Errorf("%v without a fault: %v", d, err)
		}
	}
}

// Random shapes, layouts and numbers of threads, compared with naive sums of products.
func TestRandomProducts(t *testing.T) {
	engines := map[string]gemm.Engine{}
	providers := gemm.On(gemm.Host)
	for _, p := range providers {
		for threads := 1; threads <= 3; threads++ {
			e := must.Get(p.Open(threads))(t)
			defer e.Close()
			engines[fmt.Sprint(p.Name(), threads)] = e
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(providers).Draw(t, "provider")
		d := rapid.SampledFrom(p.Types()).Draw(t, "type")
		e := engines[fmt.Sprint(p.Name(), rapid.IntRange(1, 3).Draw(t, "threads"))]
		m, n, k := rapid.IntRange(0, 150).Draw(t, "m"), rapid.IntRange(0, 150).Draw(t, "n"),
			rapid.IntRange(0, 900).Draw(t, "k")
		gap := rapid.IntRange(0, 40).Draw(t, "gap")
		operand := func(name string, d dtype.DType, rows, cols int) gemm.Matrix {
			turned := rapid.Bool().Draw(t, name+" transposed")
			if turned {
				rows, cols = cols, rows
			}
			x := gemm.New(d, rows, cols+gap).ColRange(gap/2, gap/2+cols)
			if turned {
				return x.T()
			}
			return x
		}
		c, a, b := operand("C", gemm.Result(d), m, n), operand("A", d, m, k), operand("B", d, k, n)
		proof.Integers(a, 1)
		proof.Integers(b, 2)
		proof.Spoil(c)
		must.Do(t, e.Multiply(c, a, b))
		for i := range m {
			for j := range n {
				sum := 0.0
				if (i+j)%7 == 0 { // the exact check covers the others
					for l := range k {
						sum += a.At(i, l) * b.At(l, j)
					}
					if got := c.At(i, j); got != sum {
						t.Fatalf("(%d, %d) is %v, want %v", i, j, got, sum)
					}
				}
			}
		}
		must.Do(t, proof.Exact(c, a, b, 3))
	})
}

// The result has the same bits for any number of threads, because threads share the work but not the sums.
func TestBitsDoNotDependOnThreads(t *testing.T) {
	for _, d := range gemm.Builtin().Types() {
		for _, s := range [][3]int{{150, 90, 700}, {5, 1100, 300}, {512, 1024, 100}} {
			m, n, k := s[0], s[1], s[2]
			a, b := gemm.New(d, m, k), gemm.New(d, k, n)
			must.Do(t, proof.Reals(a, b, 1))
			var first []byte
			for threads := 1; threads <= 5; threads++ {
				c := gemm.New(gemm.Result(d), m, n)
				multiply(t, gemm.Builtin(), threads, c, a, b)
				if threads == 1 {
					first = c.Data
				} else if string(first) != string(c.Data) {
					t.Errorf("%v, %v: %d threads give other bits than one", d, s, threads)
				}
			}
		}
	}
}

func multiply(t *testing.T, p gemm.Provider, threads int, c, a, b gemm.Matrix) {
	t.Helper()
	e := must.Get(p.Open(threads))(t)
	defer e.Close()
	must.Do(t, e.Multiply(c, a, b))
}

// A call allocates nothing, packed or in place.
func TestCallsDoNotAllocate(t *testing.T) {
	for _, threads := range []int{1, 2} {
		e := must.Get(gemm.Builtin().Open(threads))(t)
		defer e.Close()
		for _, d := range gemm.Builtin().Types() {
			for _, n := range []int{16, 130} {
				c, a, b := gemm.New(gemm.Result(d), n, n), gemm.New(d, n, n), gemm.New(d, n, n).T()
				call := func() {
					must.Do(t, e.Multiply(c, a, b))
				}
				call()
				if allocs := testing.AllocsPerRun(20, call); allocs > 0 {
					t.Errorf("%v, n = %d, %d threads: %v allocations a call", d, n, threads, allocs)
				}
			}
		}
	}
}

func TestLookup(t *testing.T) {
	if p, err := gemm.Lookup(gemm.Host, "openblas"); err != nil || p.Name() != "openblas" {
		t.Errorf("openblas: %v, %v", p, err)
	}
	if _, err := gemm.Lookup(gemm.Host, "bultin"); err == nil || !strings.Contains(err.Error(), `"builtin"`) {
		t.Errorf("bultin: %v, want a suggestion", err)
	}
}

// The peak arithmetic of every type can be run and counted.
func TestPeak(t *testing.T) {
	for _, d := range gemm.Builtin().Types() {
		p := gemm.PeakOf(d)
		if p.Flops <= 0 {
			t.Errorf("%v: a round has %v operations", d, p.Flops)
		}
		p.Run(10)
	}
}
