package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// In place, the shorter of the two buffers is the rank's own block of the longer one.
func TestInPlaceBuffersAreNested(t *testing.T) {
	for _, c := range []struct {
		collective    string
		longer, other Buffer
	}{{AllGather, Output, Input}, {Gather, Output, Input}, {ReduceScatter, Input, Output}, {Scatter, Input, Output}} {
		for ranks := 1; ranks < 5; ranks++ {
			for count := range 2 * ranks {
				p := Params{Ranks: ranks, Count: count, InPlace: true, Root: ranks / 2}
				for rank := range ranks {
					block, n := p.Block(rank)
					if got := p.Len(c.collective, c.other, rank); got != n {
						t.Errorf("%s, rank %d: the %v has %d elements, want %d", c.collective, rank, c.other, got, n)
					}
					if p.Len(c.collective, c.longer, rank) == 0 {
						block = 0 // a rank other than the root has only its block
					}
					shifts := [2]int{p.Shift(c.collective, c.longer, rank), p.Shift(c.collective, c.other, rank)}
					if shifts != [2]int{0, block} {
						t.Errorf("%s of %d elements, rank %d of %d: %v and %v begin at %v, want 0 and %d", c.collective, count, rank,
							ranks, c.longer, c.other, shifts, block)
					}
				}
			}
		}
	}
	for _, collective := range []string{AllReduce, AllToAll, Broadcast, ReduceTo, Barrier} {
		p := Params{Ranks: 3, Count: 7, InPlace: true}
		for rank := range p.Ranks {
			if in, out := p.Shift(collective, Input, rank), p.Shift(collective, Output, rank); in != 0 || out != 0 {
				t.Errorf("%s, rank %d: input and output begin at %d and %d, want 0", collective, rank, in, out)
			}
		}
	}
	if even, uneven := (*Blocks)(nil).String(), NewBlocks([]int{3, 0}).String(); even != "even" || uneven != "[3 0]" {
		t.Errorf("blocks are shown as %s and %s", even, uneven)
	}
}

// The longest scratch buffer ends where the last range of a step ends.
func TestScratchIsUsed(t *testing.T) {
	for _, ranks := range []int{1, 2, 5, 8} {
		for _, i := range instances(ranks, 40) {
			s := i.build(t)
			used := make([]int, ranks)
			note := func(owner int, r Range) {
				if r.Buf == Scratch && r.Len > 0 {
					used[owner] = max(used[owner], r.Off+r.Len)
				}
			}
			for rank := range ranks {
				for step := range s.Steps(rank) {
					readers, writer := One(rank), rank
					switch step.Op {
					case Get, GetReduce:
						readers = step.From
					case Put:
						writer = step.To.First
					}
					for k := range readers.N {
						note(readers.At(k), step.Src)
					}
					note(writer, step.Dst)
				}
			}
			longest := 0
			for rank := range ranks {
				longest = max(longest, s.Len(Scratch, rank))
			}
			if want := slices.Max(used); longest != want {
				t.Errorf("%v: the ranks use %d elements of their scratch buffers and have %d", i, want, longest)
			}
		}
	}
}

// A schedule without steps is wrong for every collective, also if each rank has a single element.
func TestNothingIsNotEnough(t *testing.T) {
	for _, collective := range Collectives() {
		for ranks := 2; ranks < 4; ranks++ {
			p := Params{Ranks: ranks, Count: ranks}
			if collective == Barrier {
				p.Count = 0
			}
			s := literal{collective, p, make([][]Step, ranks)}
			for name, err := range map[string]error{"Check": Check(s), "Prove": Prove(s)} {
				if err == nil || !strings.Contains(err.Error(), "at the end of rank 0: ") {
					t.Errorf("%s of %s with %d ranks: %v", name, collective, ranks, err)
				}
			}
		}
	}
}

// element is one element of a memory in the model of TestIntervals.
type element struct {
	first int // element of the inputs
	sum   sum
}

// The intervals of a proof behave like an array of elements: writes, additions and reads give the same contents, and
// the same errors.
func TestIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 5
		var v intervals
		m, model := v.memory(size, history{}), make([]element, size)
		for range rapid.IntRange(1, 30).Draw(t, "operations") {
			off := rapid.IntRange(0, size-1).Draw(t, "off")
			var moved []piece
			for n := 0; n < size-off && len(moved) < 3; {
				h := piece{off: n, n: rapid.IntRange(1, size-off-n).Draw(t, "n"), first: off + n, sum: 1 << len(moved)}
				h.first += rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 5}).Draw(t, "shift")
				moved, n = append(moved, h), n+h.n
			}
			add := rapid.Bool().Draw(t, "add")
			want, err := "", error(nil)
			if add {
				err = v.add(&m, off, moved, func(a, b sum) (sum, error) { return a + b, nil })
			} else {
				v.store(&m, off, moved)
			}
			for _, h := range moved {
				for i := off + h.off; i < off+h.off+h.n && want == ""; i++ {
					first := h.first + i - off - h.off
					switch e := &model[i]; {
					case !add:
						*e = element{first, h.sum}
					case e.sum == 0:
						want = "which have not been written"
					case e.first != first:
						want = fmt.Sprintf("adds input element %d to input element %d", first, e.first)
					default:
						e.sum += h.sum
					}
				}
			}
			if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
				t.Fatalf("error %v, want %q", err, want)
			}
			if err != nil {
				return // the proof ends here
			}
			from := rapid.IntRange(0, size-1).Draw(t, "from")
			compareLoad(t, &v, &m, model[from:], from, rapid.IntRange(1, size-from).Draw(t, "length"))
		}
	})
}

func compareLoad(t *rapid.T, v *intervals, m *cells, model []element, from, n int) {
	got, err := v.load(m, nil, from, n)
	var elements []element
	for k, h := range got {
		if h.off != len(elements) {
			t.Fatalf("part %d of %v begins at %d, want %d", k, got, h.off, len(elements))
		}
		if k > 0 && got[k-1].sum == h.sum && got[k-1].first+got[k-1].n == h.first {
			t.Fatalf("parts %d and %d of %v could be one", k-1, k, got)
		}
		for i := range h.n {
			elements = append(elements, element{h.first + i, h.sum})
		}
	}
	written := true
	for i, e := range model[:n] {
		if written = written && e.sum != 0; written && (i >= len(elements) || elements[i] != e) {
			t.Fatalf("element %d of %v is not %v", from+i, got, e)
		}
	}
	if (err == nil) != written {
		t.Fatalf("elements %d to %d are all written: %v, want %v", from, from+n-1, err, written)
	}
}
