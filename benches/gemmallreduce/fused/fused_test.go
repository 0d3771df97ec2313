package fused

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// patience is a generous time limit, so that a deadlock does not hang the test.
const patience = 30 * time.Second

// together runs body on every rank of a group. The ranks are goroutines.
func together(size int, body func(g *dist.Group) error) error {
	return errors.Join(disttest.Ranks(size, dist.Config{Backend: "cpu", Timeout: patience}, body)...)
}

// operands returns the operands of a rank.
func operands(p Plan, d dtype.DType, rank int) (a, b gemm.Matrix) {
	a, b = gemm.New(d, p.M, p.K), gemm.New(d, p.K, p.N)
	Operands(a, b, rank, 7)
	return a, b
}

// naive returns the sum over ranks of the products, computed element by element.
func naive(p Plan, d dtype.DType, ranks int) [][]float64 {
	c := make([][]float64, p.M)
	for i := range c {
		c[i] = make([]float64, p.N)
	}
	for r := range ranks {
		a, b := operands(p, d, r)
		x, y := values(a), values(b)
		for i := range p.M {
			for l := range p.K {
				for j := range p.N {
					c[i][j] += x[i][l] * y[l][j]
				}
			}
		}
	}
	return c
}

func values(m gemm.Matrix) [][]float64 {
	out := make([][]float64, m.Rows)
	for i := range out {
		out[i] = make([]float64, m.Cols)
		for j := range out[i] {
			out[i][j] = m.At(i, j)
		}
	}
	return out
}

// agrees compares the partitions after a run with the reference.
func agrees(o *Op, want [][]float64) error {
	for k, part := range o.parts {
		m := o.Part(k)
		for i := range m.Rows {
			for j := range m.Cols {
				row, col := part.From+i, j
				if o.Plan().Split == SplitN {
					row, col = i, part.From+j
				}
				if got := m.At(i, j); got != want[row][col] {
					return fmt.Errorf("%v: (%d, %d) in partition %d is %v, want %v", o.Plan(), row, col, k, got, want[row][col])
				}
			}
		}
	}
	return nil
}

// exact runs a plan twice, compares every element with the reference, and checks Verify too.
func exact(g *dist.Group, p Plan, d dtype.DType, threads int, want [][]float64, twist func(*Op)) error {
	r, err := Open(g, threads)
	if err != nil {
		return err
	}
	defer r.Close()
	c, err := r.Alloc(d, p.M, p.N)
	if err != nil {
		return err
	}
	defer g.Free(c)
	a, b := operands(p, d, g.Rank())
	o, err := r.Prepare(p, c, a, b)
	if err != nil {
		return err
	}
	if twist != nil {
		twist(o)
	}
	for range 2 {
		for k := range o.parts {
			proof.Spoil(o.Part(k))
		}
		if err := g.Barrier(); err != nil {
			return err
		}
		if err := o.Run(); err != nil {
			return err
		}
		if err := errors.Join(agrees(o, want), quick(g, o, a, b)); err != nil {
			return err
		}
	}
	return g.Barrier() // no rank closes its group while another still verifies
}

// quick checks C with Term and Verify.
func quick(g *dist.Group, o *Op, a, b gemm.Matrix) error {
	sum, err := Term(o.Plan(), g.Size(), a, b, 3)
	if err != nil {
		return err
	}
	if err := g.AllReduce(dist.Of(sum), dist.Of(sum), dist.Sum); err != nil {
		return err
	}
	return o.Verify(sum, 3)
}

// Random plans agree with the naive reference.
func TestRandomPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{
			M: rapid.IntRange(0, 60).Draw(t, "m"), N: rapid.IntRange(0, 70).Draw(t, "n"), K: rapid.IntRange(0, 20).Draw(t, "k"),
			Split: Split(rapid.SampledFrom(Splits()).Draw(t, "split")), Overlap: rapid.Bool().Draw(t, "overlap"),
		}
		extent, _ := p.extent()
		p.Partitions = rapid.IntRange(1, max(1, min(extent, 9))).Draw(t, "partitions")
		d := rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.F64, dtype.BF16}).Draw(t, "type")
		ranks, threads := rapid.IntRange(1, 4).Draw(t, "ranks"), rapid.IntRange(1, 3).Draw(t, "threads")
		want := naive(p, d, ranks)
		must.Do(t, together(ranks, func(g *dist.Group) error { return exact(g, p, d, threads, want, nil) }))
	})
}

// Common numbers of ranks, and sizes with several channels per partition, agree with the naive
// reference.
func TestRanks(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		for _, split := range []Split{SplitM, SplitN} {
			for _, p := range []Plan{
				{M: 130, N: 257, K: 9, Split: split, Partitions: 3, Overlap: true},
				{M: 130, N: 257, K: 9, Split: split, Partitions: 1},
				{M: 0, N: 40, K: 9, Split: split, Partitions: 1, Overlap: true},
				{M: 5, N: 7, K: 0, Split: split, Partitions: 5, Overlap: true},
			} {
				want := naive(p, dtype.F32, ranks)
				if err := together(ranks, func(g *dist.Group) error { return exact(g, p, dtype.F32, 2, want, nil) }); err != nil {
					t.Errorf("%d ranks: %v", ranks, err)
				}
			}
		}
	}
}

// Every planted fault is detected, by the reference and by Verify.
func TestPlantedErrors(t *testing.T) {
	for name, twist := range map[string]func(o *Op){
		"a partition is not reduced": func(o *Op) {
			o.reduce = func(part, channel int) error {
				if part == 1 {
					return nil
				}
				return o.reduceChannel(part, channel)
			}
		},
		"a partition is reduced twice": func(o *Op) {
			o.reduce = func(part, channel int) error {
				if part == 1 {
					if err := o.reduceChannel(part, channel); err != nil {
						return err
					}
				}
				return o.reduceChannel(part, channel)
			}
		},
		"a partition is reduced before it is multiplied": func(o *Op) {
			o.reductions[0], o.reductions[2] = o.reductions[2], o.reductions[0]
		},
		"a partition is not multiplied": func(o *Op) {
			o.pieces[2].A, o.pieces[2].C = o.pieces[2].A.RowRange(0, 0), o.pieces[2].C.RowRange(0, 0)
		},
		"a rank's product counts for another": func(o *Op) {
			o.pieces[1].A = o.pieces[0].A
		},
	} {
		for _, split := range []Split{SplitM, SplitN} {
			p := Plan{M: 12, N: 12, K: 6, Split: split, Partitions: 3, Overlap: true}
			if split == SplitN && name == "a rank's product counts for another" {
				continue // with split n, all partitions have the same A
			}
			want := naive(p, dtype.F32, 2)
			var byReference, byCheck atomic.Int64
			err := together(2, func(g *dist.Group) error {
				// With one thread, the tasks run in a fixed order.
				err := exact(g, p, dtype.F32, 1, want, twist)
				var m *proof.Mistake
				if errors.As(err, &m) {
					byCheck.Add(1)
				}
				if err != nil {
					byReference.Add(1)
				}
				return err
			})
			if err == nil || byReference.Load() != 2 || byCheck.Load() != 2 {
				t.Errorf("%s, split %s: found on %d ranks by the reference and %d by the check: %v", name, split,
					byReference.Load(), byCheck.Load(), err)
			}
		}
	}
}

func TestMisfits(t *testing.T) {
	err := together(1, func(g *dist.Group) error {
		r, err := Open(g, 1)
		if err != nil {
			return err
		}
		defer r.Close()
		c, err := r.Alloc(dtype.F32, 4, 4)
		if err != nil {
			return err
		}
		p := Plan{M: 4, N: 4, K: 3, Split: SplitM, Partitions: 2}
		a, b := operands(p, dtype.F32, 0)
		for name, try := range map[string]func() error{
			"an impossible plan": func() error { q := p; q.Partitions = 5; _, err := r.Prepare(q, c, a, b); return err },
			"another A":          func() error { _, err := r.Prepare(p, c, a.RowRange(0, 3), b); return err },
			"a short C":          func() error { _, err := r.Prepare(p, c.Slice(0, 15), a, b); return err },
			"C of another type": func() error {
				x, y := operands(p, dtype.F64, 0)
				_, err := r.Prepare(p, c, x, y)
				return err
			},
			"a k beyond whole numbers": func() error { q := p; q.K = proof.MaxDepth; _, err := Term(q, 2, a, b, 1); return err },
		} {
			if try() == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := together(1, func(g *dist.Group) error { _, err := Open(g, 0); return err }); err == nil {
		t.Error("no threads were accepted")
	}
}

// Multiply computes only the rank's own product, and Reduce then completes it to the result of Run.
func TestHalves(t *testing.T) {
	for _, overlap := range []bool{true, false} {
		p := Plan{M: 40, N: 30, K: 5, Split: SplitN, Partitions: 4, Overlap: overlap}
		err := together(3, func(g *dist.Group) error {
			r, err := Open(g, 2)
			if err != nil {
				return err
			}
			defer r.Close()
			c, err := r.Alloc(dtype.F32, p.M, p.N)
			if err != nil {
				return err
			}
			a, b := operands(p, dtype.F32, g.Rank())
			o, err := r.Prepare(p, c, a, b)
			if err != nil {
				return err
			}
			if err := errors.Join(o.Multiply(), g.Barrier()); err != nil {
				return err
			}
			for i, part := range o.parts {
				if err := proof.Exact(o.Part(i), a, b.ColRange(part.From, part.To), 1); err != nil {
					return fmt.Errorf("the product alone: %w", err)
				}
			}
			if err := errors.Join(g.Barrier(), o.Reduce()); err != nil {
				return err
			}
			return errors.Join(quick(g, o, a, b), g.Barrier())
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// If this variable is set, the test binary runs a group whose ranks are processes.
const spawner = "FUSED_TEST_SPAWN"

func TestMain(m *testing.M) {
	if os.Getenv(spawner) == "" {
		os.Exit(m.Run())
	}
	err := dist.Spawn(context.Background(), 3, dist.Config{Backend: "cpu", Timeout: patience},
		func(_ context.Context, g *dist.Group) error {
			for _, split := range []Split{SplitM, SplitN} {
				for _, overlap := range []bool{true, false} {
					p := Plan{M: 211, N: 190, K: 33, Split: split, Partitions: 5, Overlap: overlap}
					if err := exact(g, p, dtype.F32, 2, naive(p, dtype.F32, g.Size()), nil); err != nil {
						return err
					}
				}
			}
			return nil
		})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func TestProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), spawner+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
