package schedule

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

// simple executes a schedule on numbers and returns the outputs. It always continues with a random rank that
// can proceed. It shares no code with the checker: sends are buffered, and memory holds real numbers. The
// second result is false if no rank can proceed, or if a rank left a barrier before another had entered it.
func simple(s Schedule, input func(rank, i int) int64, combine func(a, b int64) int64,
	random *rand.Rand) (outputs [][]int64, ended bool) {
	n, p := s.Ranks(), s.Params()
	mem := make([][3][]int64, n)
	sent, flags := map[[2]int][][]int64{}, map[[2]int]int{}
	next, step, open := make([]func() (Step, bool), n), make([]Step, n), make([]bool, n)
	for r := range n {
		whole := make([]int64, s.Len(Input, r)+s.Len(Output, r))
		mem[r] = [3][]int64{whole[:s.Len(Input, r)], whole[s.Len(Input, r):], make([]int64, s.Len(Scratch, r))}
		if i, o := p.Shift(s.Collective(), Input, r), p.Shift(s.Collective(), Output, r); p.InPlace {
			mem[r][Input], mem[r][Output] = whole[i:i+s.Len(Input, r)], whole[o:o+s.Len(Output, r)]
		}
		for i := range mem[r][Input] {
			mem[r][Input][i] = input(r, i)
		}
		pull, stop := iter.Pull(s.Steps(r))
		defer stop()
		next[r] = pull
	}
	at := func(rank int, r Range) []int64 { return mem[rank][r.Buf][r.Off : r.Off+r.Len] }
	add := func(dst, src []int64) {
		for i := range dst {
			dst[i] = combine(dst[i], src[i])
		}
	}
	// perform does as much of rank r's step as possible and reports whether the step is complete.
	perform := func(r int, s *Step) bool {
		if s.Op.Sends() {
			to := [2]int{r, s.To.First}
			sent[to] = append(sent[to], slices.Clone(at(r, s.Src)))
			left := map[Op]Op{SendRecv: Recv, SendRecvReduce: RecvReduce} // the other half
			if s.Op == Send {
				return true
			}
			s.Op = left[s.Op]
		}
		switch from := [2]int{s.From.First, r}; s.Op {
		case Recv, RecvReduce:
			if len(sent[from]) == 0 {
				return false
			}
			if s.Op == Recv {
				copy(at(r, s.Dst), sent[from][0])
			} else {
				add(at(r, s.Dst), sent[from][0])
			}
			sent[from] = sent[from][1:]
		case Copy:
			copy(at(r, s.Dst), at(r, s.Src))
		case Reduce:
			add(at(r, s.Dst), at(r, s.Src))
		case Get:
			copy(at(r, s.Dst), at(s.From.First, s.Src))
		case Put:
			copy(at(s.To.First, s.Dst), at(r, s.Src))
		case GetReduce:
			sum := slices.Clone(at(s.From.First, s.Src))
			for i := 1; i < s.From.N; i++ {
				add(sum, at(s.From.At(i), s.Src))
			}
			copy(at(r, s.Dst), sum)
		case Signal:
			for i := range s.To.N {
				flags[[2]int{r, s.To.At(i)}]++
			}
		case Wait:
			for i := range s.From.N {
				if p := s.From.At(i); p != r && flags[[2]int{p, r}] == 0 {
					return false
				}
			}
			for i := range s.From.N {
				flags[[2]int{s.From.At(i), r}]--
			}
		}
		return true
	}
	running, come := n, map[int]bool{}
	for idle := 0; running > 0; {
		order := random.Perm(n)
		idle++
		for _, r := range order[:1+random.IntN(n)] {
			if next[r] == nil {
				continue
			}
			come[r] = true
			if !open[r] {
				if step[r], open[r] = next[r](); !open[r] {
					next[r], idle = nil, 0
					running--
					if s.Collective() == Barrier && len(come) < n {
						return nil, false
					}
					continue
				}
			}
			if perform(r, &step[r]) {
				open[r], idle = false, 0
			}
		}
		if idle > 200*n { // no rank can proceed
			return nil, false
		}
	}
	for r := range n {
		outputs = append(outputs, mem[r][Output])
	}
	return outputs, true
}

// right compares outputs with the definition of the collective.
func right(s Schedule, outputs [][]int64, input func(rank, i int) int64) error {
	n, p := s.Ranks(), s.Params()
	sum := func(i int) (total int64) {
		for r := range n {
			total += input(r, i)
		}
		return total
	}
	owner := func(i int) (rank, inside int) {
		for r := range n {
			_, size := p.Block(r)
			if i < size {
				return r, i
			}
			i -= size
		}
		panic("outside")
	}
	// fromAll returns element i of a rank's output in an all-to-all.
	fromAll := func(rank, i int) int64 {
		for r := range n {
			off, _, size := p.Pair(r, rank)
			if i < size {
				return input(r, off+i)
			}
			i -= size
		}
		panic("outside")
	}
	for rank, output := range outputs {
		off := 0
		if s.Collective() != AllToAll {
			off, _ = p.Block(rank)
		}
		for i, got := range output {
			var want int64
			switch s.Collective() {
			case AllReduce, ReduceTo:
				want = sum(i)
			case ReduceScatter:
				want = sum(off + i)
			case AllGather, Gather:
				want = input(owner(i))
			case Broadcast:
				want = input(p.Root, i)
			case Scatter:
				want = input(p.Root, off+i)
			case AllToAll:
				want = fromAll(rank, i)
			}
			if got != want {
				return fmt.Errorf("rank %d output[%d] is %d, want %d", rank, i, got, want)
			}
		}
	}
	return nil
}

// numbers returns inputs whose sums of few terms are all different: 40 bits of a hash of rank and position
// (the finaliser of splitmix64).
func numbers(seed uint64) func(rank, i int) int64 {
	return func(rank, i int) int64 {
		x := seed + uint64(rank)<<32 + uint64(i)
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return int64((x ^ x>>31) >> 24)
	}
}

func plus(a, b int64) int64 { return a + b }

// tryOut runs a schedule in several random orders. A panic (a range out of bounds) counts as a wrong result.
func tryOut(s Schedule, seed uint64, times int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	for k := range times {
		outputs, ended := simple(s, numbers(seed), plus, rand.New(rand.NewPCG(seed, uint64(k))))
		if !ended {
			return fmt.Errorf("deadlock, or a barrier left early")
		}
		if err := right(s, outputs, numbers(seed)); err != nil {
			return err
		}
	}
	return nil
}

// TestExecutionAgrees compares the checker with plain execution. Random schedules pass both. Of schedules with
// a random fault, the checker accepts none that gives wrong results.
func TestExecutionAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 12).Draw(t, "ranks")
		count := rapid.IntRange(0, 30).Draw(t, "count")
		all := instances(ranks, count)
		i := all[rapid.IntRange(0, len(all)-1).Draw(t, "instance")]
		seed := rapid.Uint64().Draw(t, "seed")
		s := must.Get(New(i.collective, i.algorithm, i.params))(t)
		if err := Check(s); err != nil {
			t.Fatalf("%v: %v", i, err)
		}
		if err := tryOut(s, seed, 3); err != nil {
			t.Fatalf("%v is proved, but executed: %v", i, err)
		}
		m := mutation{
			kind: rapid.SampledFrom(mutationKinds).Draw(t, "kind"),
			rank: rapid.IntRange(0, ranks-1).Draw(t, "rank"),
			step: rapid.IntRange(0, 20).Draw(t, "step"),
		}
		broken := mutant{s, m}
		if Check(broken) == nil {
			if err := tryOut(broken, seed, 5); err != nil {
				t.Fatalf("%v with %v is accepted, but executed: %v", i, m, err)
			}
		}
	})
}

// TestEqualBits checks that every rank of an all-reduce gets the same bits, for any order of events. The
// operation is commutative, like floating-point addition, but so far from associative that any other
// bracketing changes the result.
func TestEqualBits(t *testing.T) {
	rounded := func(a, b int64) int64 {
		x := uint64(a + b)
		return int64((x ^ x>>29) * 0xbf58476d1ce4e5b9)
	}
	for ranks := 1; ranks <= 9; ranks++ {
		for _, i := range instances(ranks, 2*ranks+1) {
			if i.collective != AllReduce {
				continue
			}
			first, _ := simple(i.build(t), numbers(1), rounded, rand.New(rand.NewPCG(0, 0)))
			again, _ := simple(i.build(t), numbers(1), rounded, rand.New(rand.NewPCG(1, 0)))
			for rank := range ranks {
				if !slices.Equal(first[rank], first[0]) || !slices.Equal(again[rank], first[0]) {
					t.Errorf("%v: rank %d has other bits than rank 0", i, rank)
				}
			}
		}
	}
}
