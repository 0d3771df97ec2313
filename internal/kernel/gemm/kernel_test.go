package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// engineAt opens the built-in engine at a level.
func engineAt(t *testing.T, l tile.Level, threads int) *engine {
	t.Helper()
	e := must.Get(BuiltinAt(l).Open(threads))(t)
	t.Cleanup(e.Close)
	return e.(*engine)
}

// product returns C for operands of ones and twos, computed by a new engine.
func product(t *testing.T, l tile.Level, d dtype.DType, m, n, k int, twist func(tile.Kernel) tile.Kernel) string {
	t.Helper()
	e := engineAt(t, l, 2)
	kern := twist(*e.kernels[d])
	e.kernels[d] = &kern
	a, b, c := New(d, m, k), New(d, k, n), New(Result(d), m, n)
	for _, x := range []Matrix{a, b} {
		each(x, func(i, j int) float64 { return float64(1 + (i+j)%2) })
	}
	must.Do(t, e.Multiply(c, a, b))
	return string(c.Data)
}

// A fault in any kernel, on any path to it, changes the product. The fault leaves out a step along k.
func TestKernelFaultsShow(t *testing.T) {
	honest := func(k tile.Kernel) tile.Kernel { return k }
	lazy := func(k tile.Kernel) tile.Kernel {
		broken := k
		less := func(f tile.Func) tile.Func {
			return func(t *tile.Args) {
				short := *t
				if short.K -= k.Unit; short.K > 0 { // AMX steps come in multiples of 16
					f(&short)
				}
			}
		}
		broken.Whole = less(k.Whole)
		if k.Half != nil {
			broken.Half, broken.FewRows = less(k.Half), less(k.FewRows)
		}
		if k.Parts != nil {
			p := *k.Parts
			for _, row := range [][]tile.Func{p.Whole[0][:], p.Whole[1][:], p.Whole[2][:], p.Whole[3][:], p.Some[0][:],
				p.Some[1][:]} {
				for i, f := range row {
					row[i] = less(f)
				}
			}
			broken.Parts = &p
		}
		return broken
	}
	paths := map[string][3]int{
		"one tile": {5, 7, 9}, "three vectors": {20, 48, 20}, "four vectors": {20, 128, 20}, "in place": {29, 40, 20},
		"few rows": {3, 1300, 250}, "few rows in place": {5, 1280, 250},
		"packed": {120, 130, 100}, "several blocks along k": {20, 40, 900},
	}
	for _, level := range tile.Levels() {
		for _, d := range (builtin{}).Types() {
			if Result(d) == dtype.I32 && level < tile.AMX {
				continue // bytes are widened to f64 there
			}
			for name, s := range paths {
				if product(t, level, d, s[0], s[1], s[2], honest) == product(t, level, d, s[0], s[1], s[2], lazy) {
					t.Errorf("%v, %v, %s: a step was left out and nothing changes", level, d, name)
				}
			}
		}
	}
}

// Every tile writes exactly its rows and columns, for two tiles below each other, when setting C and when adding to it.
func TestEveryTile(t *testing.T) {
	const k, spoilt = 7, 999
	for _, kern := range tile.Kernels() {
		if kern.Parts == nil || kern.Level > tile.Best() {
			continue
		}
		d, lanes := kern.Packed, 1<<kern.Parts.Shift
		for vectors, most := range kern.Parts.Rows {
			for rows := 1; rows <= most; rows++ {
				for _, cols := range []int{(vectors + 1) * lanes, vectors*lanes + 1} {
					if cols%lanes != 0 && vectors >= len(kern.Parts.Some) {
						continue
					}
					a, b, c := New(d, 2*rows, k), New(d, k, cols), New(d, 2*rows+1, cols+1)
					each(a, func(i, j int) float64 { return float64((3*i+j)%5 - 2) })
					each(b, func(i, j int) float64 { return float64((i+2*j)%7 - 3) })
					each(c, func(i, j int) float64 { return spoilt })
					for times := 1; times <= 2; times++ {
						var x tile.Args
						setOperands(&x, &c, &a, &b, d.Size())
						x.K, x.Add, x.Tiles, x.ATile = k, times > 1, 2, rows*x.ARow
						x.Masks(cols, kern)
						kern.Parts.Of(rows, cols, false)(&x)
						each(c, func(i, j int) float64 {
							want := 0.0
							for l := 0; l < k && i < 2*rows && j < cols; l++ {
								want += float64(times) * a.At(i, l) * b.At(l, j)
							}
							if i == 2*rows || j == cols {
								want = spoilt
							}
							if got := c.At(i, j); got != want {
								t.Fatalf("%v, %d x %d, (%d, %d), %d times: %v, want %v", d, rows, cols, i, j, times, got, want)
							}
							return want
						})
					}
				}
			}
		}
	}
}

// each sets every element.
func each(m Matrix, value func(i, j int) float64) {
	for i := range m.Rows {
		for j := range m.Cols {
			m.Set(i, j, value(i, j))
		}
	}
}

// Multiplication touches nothing behind its operands, which end right before an unreadable page, in every layout and at
// every level.
func TestEndOfMemory(t *testing.T) {
	const page = 1 << 16
	room := func(size int) []byte {
		size = roundUp(max(size, 1), page)
		all := must.Get(syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
		t.Cleanup(func() { _ = syscall.Munmap(all) })
		must.Do(t, syscall.Mprotect(all[size:], syscall.PROT_NONE))
		return all[:size]
	}
	memory := [3][]byte{room(1 << 20), room(1 << 20), room(1 << 20)}
	last := func(i int, d dtype.DType, rows, cols int) Matrix {
		return Matrix{Type: d, Rows: rows, Cols: cols, RowStep: cols, ColStep: 1,
			Data: memory[i][len(memory[i])-rows*cols*d.Size():]}
	}
	for _, level := range tile.Levels() {
		e := engineAt(t, level, 1)
		for _, d := range e.types {
			for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {15, 33, 9}, {17, 50, 31}, {17, 65, 9}, {5, 131, 6}, {18, 49, 7},
				{101, 99, 103}} {
				for trans := range 8 {
					c, a, b := last(0, Result(d), s[0], s[1]), last(1, d, s[0], s[2]), last(2, d, s[2], s[1])
					if trans&1 != 0 {
						a = last(1, d, s[2], s[0]).T()
					}
					if trans&2 != 0 {
						b = last(2, d, s[1], s[2]).T()
					}
					if trans&4 != 0 {
						c = last(0, Result(d), s[1], s[0]).T()
					}
					must.Do(t, e.Multiply(c, a, b))
				}
			}
		}
	}
}

// The fast and the portable ways to move elements agree.
func TestMovesAgree(t *testing.T) {
	if len(tile.Levels()) == 1 {
		return // there are no fast ones
	}
	rapid.Check(t, func(t *rapid.T) {
		lines, cols := rapid.IntRange(0, 40).Draw(t, "lines"), rapid.IntRange(0, 70).Draw(t, "columns")
		unit := rapid.SampledFrom([]int{4, 8}).Draw(t, "unit")
		src := make([]byte, (lines+1)*(cols+1)*8)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for i := range src {
			src[i] = byte(rnd.Uint32())
		}
		both(t, "transpose", 8*(cols+1)*(lines+1), func(fast bool, dst unsafe.Pointer) {
			tile.Transpose(fast, dst, (lines+1)*unit, unsafe.Pointer(&src[0]), (cols+1)*unit, lines, cols, unit)
		})
		both(t, "copy", 8*(cols+1)*(lines+1), func(fast bool, dst unsafe.Pointer) {
			tile.CopyLines(fast, dst, (cols+1)*unit, unsafe.Pointer(&src[0]), (cols+1)*unit, lines, cols*unit)
		})
		both(t, "interleave", 4*cols+4, func(fast bool, dst unsafe.Pointer) {
			tile.Interleave(fast, dst, src[:2*cols], src[2*cols:])
		})
	})
}

// both compares the memory that the portable and the fast way leave.
func both(t *rapid.T, name string, size int, move func(fast bool, dst unsafe.Pointer)) {
	plain, fast := make([]byte, size), make([]byte, size)
	move(false, unsafe.Pointer(&plain[0]))
	move(true, unsafe.Pointer(&fast[0]))
	if string(plain) != string(fast) {
		t.Fatalf("%s: the fast way differs", name)
	}
}

// The cut covers the product, gives every thread work if there is enough, and keeps whole panels and padded steps.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kern := rapid.SampledFrom(tile.Kernels()).Draw(t, "kernel")
		size := rapid.IntRange(1, 20000)
		m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
		threads := rapid.IntRange(1, 64).Draw(t, "threads")
		b := cut(kern, m, n, k, threads)
		if b.mc < 1 || b.kc < 1 || b.nc < 1 || b.tc < 1 {
			t.Fatalf("empty blocks: %+v", b)
		}
		if b.nc%kern.Cols != 0 || b.tc%kern.Cols != 0 {
			t.Errorf("%+v: columns are no whole panels of %d", b, kern.Cols)
		}
		if b.kc >= depth(kern)+64 {
			t.Errorf("%+v: deeper than %d", b, depth(kern))
		}
		// There may be fewer tasks than threads only if one panel less per task would already give more tasks than threads.
		rows, panels := ceilDiv(m, b.mc), min(n, b.nc)/kern.Cols
		tasks := rows * ceilDiv(panels, b.tc/kern.Cols)
		if tasks < threads && b.tc > kern.Cols && rows*ceilDiv(panels, b.tc/kern.Cols-1) < threads {
			t.Errorf("%+v: %d tasks for %d threads", b, tasks, threads)
		}
	})
}

// Operands packed in several parts, and results written past the caches, are right: with the limits of large products
// for small ones, they agree with the usual product.
func TestStripLimits(t *testing.T) {
	usual := engineAt(t, tile.Best(), 1)
	for _, d := range []dtype.DType{dtype.BF16, dtype.I8} {
		if !tile.For(tile.Best(), d).Strips {
			continue // this processor has no tile registers
		}
		for threads := 1; threads <= 3; threads++ {
			e := engineAt(t, tile.Best(), threads)
			e.packBytes, e.streamBytes = 1, 0
			for _, s := range [][3]int{{600, 48, 40}, {40, 1104, 33}, {530, 1040, 70}} {
				a, b := whole(New(d, s[0], s[2]), 1), whole(New(d, s[2], s[1]), 2)
				room := make([]byte, s[0]*s[1]*4+64)
				room = room[-uintptr(unsafe.Pointer(&room[0]))%64:] // streaming needs aligned rows
				c := Matrix{Type: Result(d), Rows: s[0], Cols: s[1], RowStep: s[1], ColStep: 1, Data: room}
				must.Do(t, e.Multiply(c, a, b))
				if !e.stream {
					t.Errorf("%v, %v: C was not streamed", d, s)
				}
				want := New(c.Type, c.Rows, c.Cols)
				must.Do(t, usual.Multiply(want, a, b))
				if string(want.Data) != string(c.Data[:len(want.Data)]) {
					t.Errorf("%v, %v, %d threads: the product differs", d, s, threads)
				}
			}
		}
	}
}

// A number that is not finite affects only its own row of A or column of B, also in products with few rows, which
// multiply elements of neighbouring columns with zeros.
func TestInfinityStaysInItsColumn(t *testing.T) {
	e := engineAt(t, tile.Best(), 2)
	for _, rows := range []int{3, 40} {
		c, a, b := New(dtype.F32, rows, 128), whole(New(dtype.BF16, rows, 40), 1), whole(New(dtype.BF16, 40, 128), 2)
		b.Set(7, 33, math.Inf(1))
		must.Do(t, e.Multiply(c, a, b))
		each(c, func(i, j int) float64 {
			x := c.At(i, j)
			if infinite := math.IsInf(x, 0) || math.IsNaN(x); infinite != (j == 33 && (a.At(i, 7) != 0 || math.IsNaN(x))) {
				t.Errorf("%d rows, (%d, %d): %v", rows, i, j, x)
			}
			return x
		})
	}
}

// The tiles cover all rows, are not too large, and differ by at most one row.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(1, 500).Draw(t, "rows"), rapid.SampledFrom([]int{1, 6, 9, 14}).Draw(t, "most")
		rows, tiles, less := splitRows(n, most)
		if tiles*rows+less*(rows-1) != n || tiles < 1 || less < 0 || rows > most {
			t.Errorf("%d tiles of %d rows and %d with one less", tiles, rows, less)
		}
		if want := ceilDiv(n, most); tiles+less != want {
			t.Errorf("%d tiles, want %d", tiles+less, want)
		}
	})
}

func TestCoreWarning(t *testing.T) {
	for _, test := range []struct {
		core string
		have simd
		want string
	}{
		{"Prescott", avx512, "OPENBLAS_CORETYPE=SkylakeX"},
		{"prescott", avx2, "OPENBLAS_CORETYPE=Haswell"},
		{"Haswell", avx512, "OPENBLAS_CORETYPE=SkylakeX"},
		{"Haswell", avx2, ""},
		{"SkylakeX", avx512, ""},
		{"Cooperlake", avx512, ""},
		{"Prescott", narrow, ""},
		{"neoversen1", narrow, ""},
	} {
		got := coreWarning(test.core, test.have)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s on a processor of width %d: %q, want %q in it", test.core, test.have, got, test.want)
		}
	}
}

// Each member does each job exactly once, with and without pauses between jobs, and with more members than processors.
func TestTeam(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, threads := range []int{1, 2, 5} {
		team := newTeam(threads)
		done := make([]int, threads)
		for range 300 {
			team.run(func(member int) {
				done[member]++
				team.gate.wait(func() {})
			})
			if rnd.IntN(100) == 0 {
				spin(func() bool { // until they sleep
					for i := range team.helpers {
						if !team.helpers[i].asleep.Load() {
							return false
						}
					}
					return true
				})
			}
		}
		team.close()
		if got, want := fmt.Sprint(done), fmt.Sprint(repeat(300, threads)); got != want {
			t.Errorf("%d threads: jobs done %s, want %s", threads, got, want)
		}
	}
}

func repeat(x, n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = x
	}
	return s
}
