package overlap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	cudabackend "github.com/kernbench/kernbench/dist/cuda"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

var calls string // the stand-in's log

// The tests run on a stand-in for the driver. Its streams defer all work until somebody waits for it,
// so that a missing dependency between streams shows.
func TestMain(m *testing.M) {
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		calls = lib + ".calls"
		return map[string]string{cuda.LibraryVariable: lib, gpugemm.LibraryVariable: lib, cudatest.DeferVariable: "1",
			cudatest.LogVariable: calls}
	}))
}

var groups atomic.Int64

// together runs body on goroutines that are the ranks of a group.
func together(size int, body func(g *dist.Group) error) error {
	id := fmt.Sprintf("overlap-test-%d-%d", os.Getpid(), groups.Add(1))
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			g, err := dist.Init(context.Background(),
				dist.Config{Backend: cudabackend.Name, Rank: rank, Size: size, ID: id, Timeout: 20 * time.Second})
			if err == nil {
				err = errors.Join(body(g), g.Close())
			}
			errs[rank] = err
		})
	}
	ranks.Wait()
	return errors.Join(errs...)
}

// operands returns a rank's operands in a call: integers that differ between calls.
func operands(d dtype.DType, m, n, k, rank, call int) (a, b gemm.Matrix) {
	a, b = gemm.New(d, m, k), gemm.New(d, n, k).T()
	proof.Integers(a, uint64(100*call+2*rank))
	proof.Integers(b, uint64(100*call+2*rank+1))
	return a, b
}

// naive returns the sum over ranks of the products in a call, computed element by element.
func naive(d dtype.DType, m, n, k, ranks, call int) []float32 {
	c := make([]float32, m*n)
	for rank := range ranks {
		a, b := operands(d, m, n, k, rank, call)
		columns := rows(b.T())
		for i, row := range rows(a) {
			for j, column := range columns {
				sum := 0.0
				for l, v := range row {
					sum += v * column[l]
				}
				c[i*n+j] += float32(sum)
			}
		}
	}
	return c
}

// rows returns the values of a matrix.
func rows(m gemm.Matrix) [][]float64 {
	list := make([][]float64, m.Rows)
	for i := range list {
		for j := range m.Cols {
			list[i] = append(list[i], m.At(i, j))
		}
	}
	return list
}

// cut divides C into partitions.
func cut(m, n, partitions int, columns bool) (list []Range) {
	extent := m
	if columns {
		extent = n
	}
	for i := range partitions {
		list = append(list, Range{extent * i / partitions, extent * (i + 1) / partitions})
	}
	return list
}

// wrong counts the elements of C that differ from want.
func wrong(o *Op, n int, want []float32) (count int, err error) {
	parts, err := o.Parts()
	for k, x := range parts {
		for i := range x.Rows {
			for j := range x.Cols {
				at := (o.parts[k].from+i)*n + j
				if o.plan.Columns {
					at = i*n + o.parts[k].from + j
				}
				if x.At(i, j) != float64(want[at]) {
					count++
				}
			}
		}
	}
	return count, err
}

type point struct {
	config           Config
	m, n, k          int
	ranks            int
	partitions       int
	columns, overlap bool
	one              bool
}

// check runs a point on all ranks: three calls, each with new operands and a poisoned C. It returns
// the number of wrong elements.
func (x point) check(plant func(*Op)) (mistakes int64, err error) {
	var want [][]float32
	for call := range 3 {
		want = append(want, naive(x.config.DType, x.m, x.n, x.k, x.ranks, call))
	}
	var count atomic.Int64
	err = together(x.ranks, func(g *dist.Group) error {
		r, err := Open(g, x.config)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := r.Alloc(x.m, x.n, x.k, x.partitions); err != nil {
			return err
		}
		o, err := r.Prepare(Plan{Columns: x.columns, Ranges: cut(x.m, x.n, x.partitions, x.columns), Overlap: x.overlap,
			OneKernel: x.one})
		if err != nil {
			return err
		}
		if plant != nil {
			plant(o)
		}
		for call := range 3 {
			a, b := operands(x.config.DType, x.m, x.n, x.k, g.Rank(), call)
			if err := errors.Join(r.Load(a, b), r.Poison(), g.Barrier()); err != nil {
				return err
			}
			if us, err := o.Run(); err != nil || us <= 0 {
				return fmt.Errorf("%v us: %w", us, err)
			}
			if err := g.Barrier(); err != nil {
				return err
			}
			n, err := wrong(o, x.n, want[call])
			if count.Add(int64(n)); err != nil {
				return err
			}
		}
		return g.Barrier()
	})
	return count.Load(), err
}

func (x point) String() string {
	return fmt.Sprintf("%d ranks, %d x %d x %d, %d partitions, columns %v, overlap %v, one kernel %v, %+v", x.ranks, x.m,
		x.n, x.k, x.partitions, x.columns, x.overlap, x.one, x.config)
}

var usual = Config{Provider: "builtin", DType: dtype.BF16}

func TestEveryElement(t *testing.T) {
	library := func(d dtype.DType) Config { return Config{Provider: "cublaslt", DType: d} }
	for _, x := range []point{
		{config: usual, ranks: 2, m: 37, n: 45, k: 70, partitions: 1},
		{config: usual, ranks: 3, m: 37, n: 45, k: 70, partitions: 4, overlap: true},
		{config: usual, ranks: 2, m: 37, n: 45, k: 70, partitions: 4, columns: true, overlap: true},
		{config: usual, ranks: 4, m: 37, n: 45, k: 64, partitions: 3, columns: true},
		{config: usual, ranks: 1, m: 5, n: 3, k: 1, partitions: 3, columns: true, overlap: true},
		{config: library(dtype.F32), ranks: 2, m: 33, n: 30, k: 20, partitions: 4, overlap: true},
		{config: library(dtype.F16), ranks: 2, m: 33, n: 31, k: 20, partitions: 2, columns: true, overlap: true},
		{config: usual, ranks: 2, m: 300, n: 261, k: 40, partitions: 1, one: true, overlap: true},
		{config: usual, ranks: 3, m: 129, n: 130, k: 64, partitions: 1, one: true, overlap: true},
	} {
		if n, err := x.check(nil); n != 0 || err != nil {
			t.Errorf("%v: %d wrong elements, %v", x, n, err)
		}
	}
}

// onHopper makes the stand-in a GPU of compute capability 9.0.
func onHopper(t *testing.T) { t.Setenv(cudatest.MajorVariable, "9") }

// Tests the single kernel for Hopper, whose tiles are 64 x 256, with sizes that fill clusters, leave out
// whole tiles and end within a pack, and with numbers of ranks that have a specialized loop and that
// have none.
func TestEveryElementOnHopper(t *testing.T) {
	onHopper(t)
	for _, x := range []point{
		{config: usual, ranks: 2, m: 300, n: 261, k: 40, one: true},
		{config: usual, ranks: 2, m: 256, n: 512, k: 64, one: true},
		{config: usual, ranks: 1, m: 5, n: 3, k: 1, one: true},
		{config: usual, ranks: 3, m: 129, n: 130, k: 64, one: true},
	} {
		x.partitions = 1
		if n, err := x.check(nil); n != 0 || err != nil {
			t.Errorf("%v: %d wrong elements, %v", x, n, err)
		}
	}
}

// prepared returns each rank's details of its single kernel, or the error.
func prepared(t *testing.T, size int, before func(r *Rank)) (details []map[string]string, err error) {
	t.Helper()
	details = make([]map[string]string, size)
	err = together(size, func(g *dist.Group) error {
		r, err := Open(g, usual)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := r.Alloc(300, 261, 40, 1); err != nil {
			return err
		}
		if before != nil {
			before(r)
		}
		if r.device, err = r.device.Device().Context(); err != nil { // without the kernels that the driver has accepted
			return err
		}
		o, err := r.Prepare(Plan{OneKernel: true})
		if err != nil {
			return err
		}
		details[g.Rank()] = o.Details()
		return g.Barrier()
	})
	return details, err
}

// The single kernel is the fastest that all ranks can run. Each rank reports which, and why not a faster
// one.
func TestWhichOneKernel(t *testing.T) {
	small := func(r *Rank) { // rank 1 has no room for a cluster
		if r.group.Rank() == 1 {
			r.multiprocessors = 1
		}
	}
	for _, c := range []struct {
		hopper    bool
		refuse    string
		before    func(*Rank)
		algorithm string
		refused   [2]string
	}{
		{algorithm: "onekernel80"},
		{hopper: true, algorithm: "onekernel90a"},
		{hopper: true, refuse: "sm_90a", algorithm: "onekernel80",
			refused: [2]string{"CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_PTX"}},
		{hopper: true, before: small, algorithm: "onekernel80",
			refused: [2]string{"another rank cannot run onekernel90a",
				"a cluster of 2 blocks does not fit on 1 multiprocessors with 1 blocks each"}},
	} {
		if c.hopper {
			onHopper(t)
		}
		if c.refuse != "" {
			t.Setenv(cudatest.RefuseVariable, c.refuse)
		}
		details, err := prepared(t, 2, c.before)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for rank, d := range details {
			if d["algorithm"] != c.algorithm || !strings.Contains(d["refused"], c.refused[rank]) ||
				(d["refused"] == "") != (c.refused[rank] == "") {
				t.Errorf("rank %d: %v, want %s, %q", rank, d, c.algorithm, c.refused[rank])
			}
		}
		os.Unsetenv(cudatest.RefuseVariable)
	}
	t.Setenv(cudatest.RefuseVariable, "onekernel")
	if _, err := prepared(t, 2, nil); err == nil ||
		!strings.Contains(err.Error(), "loading the kernels of onekernel80: ") {
		t.Errorf("a driver that takes none: %v", err)
	}
}

// The tests find a wrong tile, a partition that is summed too early and a signal that is sent too
// early, on any rank.
func TestPlantedErrors(t *testing.T) {
	overlapped := point{config: usual, ranks: 2, m: 40, n: 45, k: 70, partitions: 4, overlap: true}
	for name, c := range map[string]struct {
		on    point
		fault string
		plant func(*Op)
	}{
		"a tile that is not multiplied":      {on: overlapped, fault: "tile"},
		"an element":                         {on: overlapped, fault: "element"},
		"a product that is not made":         {on: overlapped, fault: "stale"},
		"sums that do not wait for products": {on: overlapped, plant: func(o *Op) { o.unordered = true }},
		"a partition that is added up at another's place": {on: overlapped, plant: func(o *Op) {
			o.parts[1].sum.params.First++
		}},
		"a partition that is not added up": {on: overlapped, plant: func(o *Op) { o.parts[2].sum.params.Packs = 0 }},
	} {
		t.Setenv(cudatest.ProductVariable, c.fault)
		if n, err := c.on.check(c.plant); n == 0 || err != nil {
			t.Errorf("%s: %d wrong elements are found, %v", name, n, err)
		}
	}
}

// The tests find the faults of a single kernel: a tile that is not multiplied, signalled before it is
// stored, summed before it was signalled, summed at the wrong place, and not summed at all.
func TestPlantedErrorsOfOneKernel(t *testing.T) {
	for _, major := range []string{"8", "9"} {
		t.Setenv(cudatest.MajorVariable, major)
		for _, fault := range []string{"tile", "early", "unwaited", "misplaced", "unclaimed"} {
			t.Setenv(cudatest.ProductVariable, fault)
			x := point{config: usual, ranks: 2, m: 300, n: 261, k: 40, partitions: 1, one: true}
			if n, err := x.check(nil); n == 0 || err != nil {
				t.Errorf("%s with compute capability %s: %d wrong elements are found, %v", fault, major, n, err)
			}
		}
	}
}

// Product and sum alone: Multiply leaves the rank's own product, and Reduce then gives the same result
// as Run.
func TestHalves(t *testing.T) {
	for _, major := range []string{"8", "9"} {
		t.Setenv(cudatest.MajorVariable, major)
		testHalves(t)
	}
}

func testHalves(t *testing.T) {
	const m, n, k = 140, 150, 30
	for _, p := range []Plan{{Ranges: cut(m, n, 3, false), Overlap: true}, {Ranges: cut(m, n, 1, false)},
		{OneKernel: true}} {
		err := together(2, func(g *dist.Group) error {
			r, err := Open(g, usual)
			if err != nil {
				return err
			}
			defer r.Close()
			if err := r.Alloc(m, n, k, 3); err != nil {
				return err
			}
			o, err := r.Prepare(p)
			if err != nil {
				return err
			}
			a, b := operands(dtype.BF16, m, n, k, g.Rank(), 0)
			if err := errors.Join(r.Load(a, b), r.Poison()); err != nil {
				return err
			}
			if us, err := o.Multiply(); err != nil || us <= 0 {
				return fmt.Errorf("%v us: %w", us, err)
			}
			parts, err := o.Parts()
			if err != nil {
				return err
			}
			for i, x := range parts {
				if err := proof.Exact(x, a.RowRange(o.parts[i].from, o.parts[i].to), b, 1); err != nil {
					return fmt.Errorf("the product alone: %w", err)
				}
			}
			if err := g.Barrier(); err != nil {
				return err
			}
			if us, err := o.Reduce(); err != nil || us <= 0 {
				return fmt.Errorf("%v us: %w", us, err)
			}
			if count, err := wrong(o, n, naive(dtype.BF16, m, n, k, 2, 0)); count != 0 || err != nil {
				return fmt.Errorf("the sums alone: %d wrong elements: %w", count, err)
			}
			return g.Barrier()
		})
		if err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// Dependent launches are used if the GPU supports them, and refused with the reason otherwise.
func TestDependentLaunches(t *testing.T) {
	x := point{config: usual, ranks: 2, m: 40, n: 45, k: 70, partitions: 2, overlap: true}
	x.config.Dependent = true
	var missing *gemm.MissingError
	if _, err := x.check(nil); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "Fake GPU 0 has compute capability 8.0: dependent launches need 9.0") {
		t.Errorf("on compute capability 8.0: %v", err)
	}
	t.Setenv(cudatest.MajorVariable, "9")
	must.Do(t, os.Remove(calls))
	if n, err := x.check(nil); n != 0 || err != nil {
		t.Errorf("%d wrong elements, %v", n, err)
	}
	log := must.Get(os.ReadFile(calls))(t)
	for _, want := range []string{"cuLaunchKernelEx dependent gate90_all 1 x 32",
		"cuLaunchKernelEx dependent sum90_f32_2 ", "cuStreamCreateWithPriority -100"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the driver was not asked for %q", want)
		}
	}
	if strings.Contains(string(log), "cuLaunchKernel sum") {
		t.Error("sums were launched as usual")
	}
}

// A rank that does not arrive is named, and no rank waits forever.
func TestMissingRank(t *testing.T) {
	for name, p := range map[string]Plan{"a gate": {Ranges: []Range{{0, 8}}}, "one kernel": {OneKernel: true}} {
		errs := withoutRank1(p)
		if errs[1] != nil || errs[0] == nil || !strings.Contains(errs[0].Error(), "rank 1") {
			t.Errorf("%s: rank 0: %v; rank 1: %v", name, errs[0], errs[1])
		}
	}
}

// withoutRank1 runs a plan that rank 1 prepares but does not run.
func withoutRank1(p Plan) []error {
	id := fmt.Sprintf("overlap-test-%d-gone-%d", os.Getpid(), groups.Add(1))
	var ranks sync.WaitGroup
	errs := make([]error, 2)
	for rank := range 2 {
		ranks.Go(func() {
			g, err := dist.Init(context.Background(),
				dist.Config{Backend: cudabackend.Name, Rank: rank, Size: 2, ID: id, Timeout: time.Second})
			if err != nil {
				errs[rank] = err
				return
			}
			defer g.Close()
			r, err := Open(g, usual)
			if err == nil {
				err = r.Alloc(8, 8, 8, 1)
			}
			var o *Op
			if err == nil {
				o, err = r.Prepare(p)
			}
			if err == nil && rank == 0 {
				_, err = o.Run()
			} else {
				time.Sleep(1500 * time.Millisecond)
			}
			errs[rank] = err
		})
	}
	ranks.Wait()
	return errs
}

// Invalid arguments are refused with the reason.
func TestRefusals(t *testing.T) {
	if _, err := (point{config: Config{Provider: "builtin", DType: dtype.F32}, ranks: 1, m: 1, n: 1,
		k: 1}).check(nil); err == nil || !strings.Contains(err.Error(), "builtin does not multiply f32") {
		t.Errorf("%v", err)
	}
	if _, err := (point{config: usual, ranks: 1, m: 0, n: 1, k: 1}).check(nil); err == nil ||
		!strings.Contains(err.Error(), "all sizes must be at least 1") {
		t.Errorf("%v", err)
	}
}

// Ranks have equal shares of the four multiprocessors, and at least one each.
func TestShare(t *testing.T) {
	for ranks, want := range map[int]int{1: 4, 2: 2, 3: 1, 8: 1} {
		err := together(ranks, func(g *dist.Group) error {
			r, err := Open(g, usual)
			if err != nil {
				return err
			}
			defer r.Close()
			if s := r.Multiprocessors(); s != want || r.sumMultiprocessors() != 1 {
				return fmt.Errorf("%d of a share of %d are set aside, want %d", r.sumMultiprocessors(), s, want)
			}
			return g.Barrier()
		})
		if err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
	}
}

// The self-test passes, and finds a wrong tile and a signal that is sent too early.
func TestCheck(t *testing.T) {
	for _, major := range []string{"8", "9"} {
		t.Setenv(cudatest.MajorVariable, major)
		for _, fault := range []string{"", "tile", "early", "unwaited"} {
			t.Setenv(cudatest.ProductVariable, fault)
			if err := together(2, Check); (err == nil) != (fault == "") {
				t.Errorf("fault %q with compute capability %s: %v", fault, major, err)
			}
		}
	}
}
