package gemm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// whole fills a matrix with small whole numbers, so that sums are exact.
func whole(m Matrix, seed int) Matrix {
	for i := range m.Rows {
		for j := range m.Cols {
			m.Set(i, j, float64((i*7+j*13+seed*5+i*j)%9-4))
		}
	}
	return m
}

// differs returns an error for the first element of c that differs from a x b.
func differs(c, a, b Matrix) error {
	for i := range c.Rows {
		for j := range c.Cols {
			want := 0.0
			for l := range a.Cols {
				want += a.At(i, l) * b.At(l, j)
			}
			if got := c.At(i, j); got != want {
				return fmt.Errorf("(%d, %d) is %v, want %v", i, j, got, want)
			}
		}
	}
	return nil
}

// pieces cuts a product along rows or columns.
func pieces(c, a, b Matrix, byRows bool, n int) (out []Piece) {
	extent := c.Cols
	if byRows {
		extent = c.Rows
	}
	for p := range n {
		from, to := p*extent/n, (p+1)*extent/n
		if byRows {
			out = append(out, Piece{c.RowRange(from, to), a.RowRange(from, to), b})
		} else {
			out = append(out, Piece{c.ColRange(from, to), a, b.ColRange(from, to)})
		}
	}
	return out
}

// Random products in pieces. When a job of a piece runs, the piece is complete, and every job of every piece runs once,
// in the order of the pieces.
func TestOverlap(t *testing.T) {
	engines := map[string]*engine{}
	for _, l := range tile.Levels() {
		for threads := 1; threads <= 3; threads++ {
			engines[fmt.Sprint(l, threads)] = engineAt(t, l, threads)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := engines[fmt.Sprint(rapid.SampledFrom(tile.Levels()).Draw(t, "level"), rapid.IntRange(1, 3).Draw(t, "threads"))]
		types := lists.Filter(e.types, func(d dtype.DType) bool { return Result(d) != dtype.I32 || e.kernels[d].Strips })
		d := rapid.SampledFrom(types).Draw(t, "type")
		m, n, k := rapid.IntRange(0, 70).Draw(t, "m"), rapid.IntRange(0, 90).Draw(t, "n"), rapid.IntRange(0, 700).Draw(t, "k")
		a, b, c := whole(New(d, m, k), 1), whole(New(d, k, n), 2), New(Result(d), m, n)
		if rapid.Bool().Draw(t, "C transposed") {
			c = New(Result(d), n, m).T()
		}
		whole(c, 3) // elements that are not written stay wrong
		parts := pieces(c, a, b, rapid.Bool().Draw(t, "by rows"), rapid.IntRange(1, 6).Draw(t, "pieces"))
		jobs := rapid.IntRange(0, 4).Draw(t, "jobs")
		done := make([]int, jobs) // number of pieces, by job
		var mu sync.Mutex
		err := e.Overlap(parts, jobs, func(piece, job int) error {
			mu.Lock()
			defer mu.Unlock()
			if done[job] != piece {
				return fmt.Errorf("job %d of piece %d after %d pieces", job, piece, done[job])
			}
			done[job]++
			return differs(parts[piece].C, parts[piece].A, parts[piece].B)
		})
		if err != nil {
			t.Fatal(err)
		}
		for job, n := range done {
			if n != len(parts) {
				t.Fatalf("job %d was done for %d of %d pieces", job, n, len(parts))
			}
		}
		must.Do(t, differs(c, a, b))
	})
}

// The list has every item once, nothing before what it depends on, and the jobs in the same order for any number of
// threads.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, threads := rapid.IntRange(0, 5).Draw(t, "jobs"), rapid.IntRange(1, 5).Draw(t, "threads")
		all := make([]overlapPiece, rapid.IntRange(1, 5).Draw(t, "pieces"))
		total := 0
		for i := range all {
			all[i].tasks = rapid.IntRange(0, 20).Draw(t, "tasks")
			all[i].shared = i
			if i > 0 && rapid.Bool().Draw(t, "shares B") {
				all[i].shared = all[i-1].shared
			} else {
				all[i].panels = rapid.IntRange(0, 5).Draw(t, "panels")
			}
			total += all[i].tasks + all[i].panels + jobs
		}
		seen := map[item]bool{}
		count := map[item]int{} // by kind and piece, or kind and job
		last := -1
		list := order(nil, all, jobs, threads)
		for _, s := range list {
			p := &all[s.piece]
			switch {
			case seen[s]:
				t.Fatalf("%v comes twice", s)
			case s.kind == multiplying && count[item{packing, p.shared, 0}] != all[p.shared].panels:
				t.Fatalf("%v before B is packed", s)
			case s.kind == running && count[item{multiplying, s.piece, 0}] != p.tasks:
				t.Fatalf("%v before the piece is multiplied", s)
			case s.kind == running && s.piece*jobs+s.index != last+1:
				t.Fatalf("%v out of turn", s)
			}
			seen[s] = true
			count[item{s.kind, s.piece, 0}]++
			if s.kind == running {
				last++
			}
		}
		if len(list) != total {
			t.Fatalf("%d items, want %d", len(list), total)
		}
	})
}

// Jobs are spread over the tasks of the next piece and not clustered at its ends.
func TestJobsAreSpread(t *testing.T) {
	list := order(nil, []overlapPiece{{tasks: 16}, {tasks: 16, shared: 0}}, 4, 2)
	var before []int // number of tasks of the second piece before each job of the first
	tasks := 0
	for _, s := range list {
		switch {
		case s.kind == multiplying && s.piece == 1:
			tasks++
		case s.kind == running && s.piece == 0:
			before = append(before, tasks)
		}
	}
	if fmt.Sprint(before) != "[2 5 9 12]" {
		t.Errorf("jobs come after %v tasks, want after 2, 5, 9 and 12 of 16", before)
	}
}

// Engines whose jobs wait for each other, like ranks do, do not deadlock.
func TestJobsMayMeet(t *testing.T) {
	const ranks, jobs, parts = 3, 2, 5
	var arrived [parts][jobs]atomic.Int64
	var wg sync.WaitGroup
	for r := range ranks {
		e := engineAt(t, tile.Best(), 1+r) // with different numbers of threads
		wg.Go(func() {
			a, b, c := whole(New(dtype.F32, 60, 50), 1), whole(New(dtype.F32, 50, 64), 2), New(dtype.F32, 60, 64)
			err := e.Overlap(pieces(c, a, b, true, parts), jobs, func(piece, job int) error {
				arrived[piece][job].Add(1)
				spin(func() bool { return arrived[piece][job].Load() == ranks })
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestOverlapFails(t *testing.T) {
	for threads := 1; threads <= 3; threads++ {
		e := engineAt(t, tile.Best(), threads)
		a, b, c := whole(New(dtype.F32, 60, 50), 1), whole(New(dtype.F32, 50, 64), 2), New(dtype.F32, 60, 64)
		boom, calls := errors.New("boom"), atomic.Int64{}
		err := e.Overlap(pieces(c, a, b, true, 4), 2, func(piece, job int) error {
			calls.Add(1)
			if piece == 1 && job == 0 {
				return boom
			}
			return nil
		})
		if !errors.Is(err, boom) || calls.Load() > 6 {
			t.Errorf("%d threads: %v after %d jobs", threads, err, calls.Load())
		}
		// The engine can be used again.
		if err := e.Overlap([]Piece{{c, a, b}}, 0, nil); err != nil || differs(c, a, b) != nil {
			t.Errorf("%d threads, after a failure: %v, %v", threads, err, differs(c, a, b))
		}
		if err := e.Overlap([]Piece{{c, a, b}}, 1, nil); err == nil {
			t.Error("a job without a function was accepted")
		}
		if err := e.Overlap([]Piece{{c, a, b}, {c, b, a}}, 0, nil); err == nil {
			t.Error("a piece that does not fit was accepted")
		}
		if err := e.Overlap([]Piece{{c, a, b}, {New(dtype.F64, 0, 0), New(dtype.F64, 0, 0), New(dtype.F64, 0, 0)}}, 0,
			nil); err == nil {
			t.Error("pieces of two types were accepted")
		}
		if err := e.Overlap(nil, 3, func(int, int) error { return boom }); err != nil {
			t.Errorf("no pieces: %v", err)
		}
	}
}

func TestOverlapDoesNotAllocate(t *testing.T) {
	e := engineAt(t, tile.Best(), 2)
	a, b, c := whole(New(dtype.F32, 150, 50), 1), whole(New(dtype.F32, 50, 64), 2), New(dtype.F32, 150, 64)
	parts, nothing := pieces(c, a, b, true, 3), func(int, int) error { return nil }
	call := func() {
		must.Do(t, e.Overlap(parts, 2, nothing))
	}
	call()
	if n := testing.AllocsPerRun(20, call); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}
