package gemm_test

import (
	"fmt"
	"github.com/kernbench/kernbench/internal/dtype"
	"github.com/kernbench/kernbench/internal/gemm"
	"github.com/kernbench/kernbench/internal/gemm/proof"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestTmp(t *testing.T) {
	for _, p := range gemm.Providers() {
		for _, th := range []int{1, 2, 3} {
			e, err := p.Open(th)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, d := range p.Types() {
				for _, s := range [][3]int{{1, 1, 1}, {8, 8, 8}, {14, 32, 5}, {15, 33, 7}, {3, 100, 200}, {100, 3, 77}, {130, 120, 110}, {300, 97, 500}, {64, 64, 900}, {33, 700, 1000}} {
					for tr := 0; tr < 8; tr++ {
						a := gemm.New(d, s[0], s[2])
						if tr&1 != 0 {
							a = gemm.New(d, s[2], s[0]).T()
						}
						b := gemm.New(d, s[2], s[1])
						if tr&2 != 0 {
							b = gemm.New(d, s[1], s[2]).T()
						}
						c := gemm.New(gemm.Result(d), s[0], s[1])
						if tr&4 != 0 {
							c = gemm.New(gemm.Result(d), s[1], s[0]).T()
						}
						proof.Integers(a, 1)
						proof.Integers(b, 2)
						proof.Spoil(c)
						if err := e.Multiply(c, a, b); err != nil {
							t.Fatal(err)
						}
						if err := proof.Exact(c, a, b, 3); err != nil {
							t.Errorf("%s %d %v %v tr %d: %v", p.Name(), th, d, s, tr, err)
						}
					}
				}
			}
			e.Close()
		}
	}
}
func TestPerf(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	sizes := []int{256, 512, 1024, 2048, 4096}
	if n > 0 {
		sizes = []int{n}
	}
	prov := os.Getenv("P")
	if prov == "" {
		prov = "builtin"
	}
	p, err := gemm.Lookup(prov)
	if err != nil {
		t.Fatal(err)
	}
	ths := []int{1, 2}
	if x := os.Getenv("T"); x != "" {
		y, _ := strconv.Atoi(x)
		ths = []int{y}
	}
	ds := []dtype.DType{dtype.F32, dtype.F64, dtype.BF16, dtype.F16}
	if x := os.Getenv("D"); x != "" {
		y, _ := dtype.Parse(x)
		ds = []dtype.DType{y}
	}
	for _, d := range ds {
		for _, th := range ths {
			e, err := p.Open(th)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range sizes {
				a, b, c := gemm.New(d, n, n), gemm.New(d, n, n), gemm.New(gemm.Result(d), n, n)
				if os.Getenv("NT") != "" {
					b = b.T()
				}
				proof.Reals(a, 1)
				proof.Reals(b, 1)
				best := 1e18
				t0 := time.Now()
				it := 0
				for it < 5 || (time.Since(t0) < time.Second && it < 100000) {
					t1 := time.Now()
					e.Multiply(c, a, b)
					best = min(best, float64(time.Since(t1)))
					it++
				}
				fmt.Printf("%s %v n=%d t=%d best %.1f mean %.1f (%.2f us)\n", prov, d, n, th, 2*float64(n)*float64(n)*float64(n)/best, 2*float64(n)*float64(n)*float64(n)*float64(it)/float64(time.Since(t0)), best/1e3)
			}
			e.Close()
		}
	}
}
func TestDuel(t *testing.T) {
	ths := []int{1, 2}
	if x := os.Getenv("T"); x != "" {
		y, _ := strconv.Atoi(x)
		ths = []int{y}
	}
	sizes := []int{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
	if x := os.Getenv("N"); x != "" {
		n, _ := strconv.Atoi(x)
		sizes = []int{n}
	}
	ds := []dtype.DType{dtype.F32, dtype.F64}
	if x := os.Getenv("D"); x != "" {
		y, _ := dtype.Parse(x)
		ds = []dtype.DType{y}
	}
	for _, th := range ths {
		e1, err := gemm.Builtin().Open(th)
		if err != nil {
			t.Fatal(err)
		}
		e2, err := gemm.OpenBLAS().Open(th)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(e1, "/", e2, e2.Warnings())
		for _, d := range ds {
			for _, n := range sizes {
				a, b, c := gemm.New(d, n, n), gemm.New(d, n, n), gemm.New(gemm.Result(d), n, n)
				if os.Getenv("NT") != "" {
					b = b.T()
				}
				proof.Reals(a, 1)
				proof.Reals(b, 1)
				fl := 2 * float64(n) * float64(n) * float64(n)
				in := 1 + int(2e6/fl)
				best := [2]float64{1e18, 1e18}
				t0 := time.Now()
				for it := 0; it < 4 || (time.Since(t0) < 1500*time.Millisecond); it++ {
					for w, e := range []gemm.Engine{e1, e2} {
						for rep := 0; rep < 2; rep++ {
							t1 := time.Now()
							for range in {
								e.Multiply(c, a, b)
							}
							best[w] = min(best[w], float64(time.Since(t1))/float64(in))
						}
					}
				}
				fmt.Printf("%v t=%d n=%d: builtin %.1f openblas %.1f GFLOP/s ratio %.2f (%.2f us)\n", d, th, n, fl/best[0], fl/best[1], best[1]/best[0], best[0]/1e3)
			}
		}
		e1.Close()
		e2.Close()
	}
}
