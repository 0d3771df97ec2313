package schedule

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
)

// sums assigns a number to every way of adding up. Two results are equal if they come from the same additions,
// up to the order of two operands.
type sums map[[2]int64]int64

func (s sums) add(a, b int64) int64 {
	key := [2]int64{min(a, b), max(a, b)}
	if _, known := s[key]; !known {
		s[key] = 1000 + int64(len(s))
	}
	return s[key]
}

// TestOrderIsDeclared compares Info.Order and Info.Wide with the steps, because they promise bitwise equality
// of results.
func TestOrderIsDeclared(t *testing.T) {
	t.Parallel()
	const ranks = 7
	for _, collective := range []string{AllReduce, ReduceScatter, ReduceTo} {
		for _, info := range Algorithms(collective) {
			rankOrder, wide := true, true
			for _, chunk := range []int{0, 5} {
				p := Params{Ranks: ranks, Count: 23, ChunkElems: chunk}
				if !slices.Contains(info.Takes, takesChunk) {
					p.ChunkElems = 0
				}
				s := instance{collective, info.Name, p}.build(t)
				all := sums{}
				want := int64(0)
				for r := int64(1); r < ranks; r++ {
					want = all.add(want, r)
				}
				outputs, ended := simple(s, func(rank, _ int) int64 { return int64(rank) }, all.add, rand.New(rand.NewPCG(1, 2)))
				if !ended {
					t.Fatalf("%s %s does not end", collective, info.Name)
				}
				for _, out := range outputs {
					rankOrder = rankOrder && !slices.ContainsFunc(out, func(v int64) bool { return v != want })
				}
				for rank := range ranks {
					for step := range s.Steps(rank) {
						wide = wide && !step.Op.Accumulates()
					}
				}
			}
			if declared := info.Order == RankOrder; declared != rankOrder {
				t.Errorf("%s %s: declared to add in rank order: %v, does so: %v", collective, info.Name, declared, rankOrder)
			}
			if info.Wide != wide {
				t.Errorf("%s %s: declared to round once: %v, does so: %v", collective, info.Name, info.Wide, wide)
			}
		}
	}
}

// TestRegistered finds the algorithm that chain_test.go registers in every list. The other tests of the package
// prove it like any other algorithm.
func TestRegistered(t *testing.T) {
	named := func(list []Info) bool {
		return slices.ContainsFunc(list, func(i Info) bool { return i.Name == "chain" })
	}
	if !named(Algorithms(AllReduce)) || !named(Evaluated(AllReduce)) || named(Algorithms(AllGather)) {
		t.Error("chain is not listed, or for another collective too")
	}
	if !slices.ContainsFunc(instances(5, 7), func(i instance) bool {
		return i.algorithm == "chain" && i.params.ChunkElems > 0
	}) {
		t.Error("chain is not among what is proved")
	}
	if first := Algorithms(AllReduce)[0].Name; first != "naive" {
		t.Errorf("the default is %s", first)
	}
}

// TestShape checks that New rejects a number of ranks with the algorithm's reason.
func TestShape(t *testing.T) {
	pairs := Algorithm{Shape: func(p *Params) error {
		if p.Ranks%2 != 0 {
			return errors.New("want an even number of ranks")
		}
		return nil
	}}
	err := pairs.resolveParams(AllReduce, &Params{Ranks: 3})
	if err == nil || err.Error() != "want an even number of ranks" {
		t.Errorf("3 ranks: %v", err)
	}
	if err := pairs.resolveParams(AllReduce, &Params{Ranks: 2}); err != nil {
		t.Error(err)
	}
}

func TestLookup(t *testing.T) {
	if info, err := Lookup(AllReduce, "two-shot"); err != nil || info.Name != "two-stage" {
		t.Errorf("by its alias: %v, %v", info.Name, err)
	}
	for collective, want := range map[string]string{AllReduce: "unknown allreduce algorithm",
		"sort": "unknown collective"} {
		if _, err := Lookup(collective, "bubbles"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Lookup(%q, ...): %v, want %q", collective, err, want)
		}
	}
	if err := Fits(AllReduce, "multimem", 2); err == nil || !strings.Contains(err.Error(), "has no schedule") {
		t.Errorf("an algorithm without steps: %v", err)
	}
}

// A registration that is incomplete, or hides another one, panics.
func TestWrongRegistrations(t *testing.T) {
	none := func(Params, int) iter.Seq[Step] { return func(func(Step) bool) {} }
	for want, a := range map[string]Algorithm{
		"no such collective":         {Info: Info{Collective: "sort", Name: "a", Help: "a"}, Steps: none},
		"no help":                    {Info: Info{Collective: AllReduce, Name: "a"}, Steps: none},
		"no steps, and neither hard": {Info: Info{Collective: AllReduce, Name: "a", Help: "a"}},
	} {
		if err := a.valid(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for collective, r := range algorithms {
		for _, a := range r.All() {
			if a.Like == "" {
				continue
			}
			if like, err := lookup(collective, a.Like); err != nil || like.Steps == nil {
				t.Errorf("%s is like %s, which has no steps (%v)", a.Name, a.Like, err)
			}
		}
	}
}

// Algorithms whose hardware no schedule can express declare how many bytes pass the busiest link of a rank.
func TestTrafficOfHardware(t *testing.T) {
	for name, want := range map[string]float64{"lamport": 3 << 20, "multimem": 1.25 * (1 << 20)} {
		info := must.Get(Lookup(AllReduce, name))(t)
		if got := info.Traffic(4, 1<<20); got != want {
			t.Errorf("%s on 4 ranks: %v bytes, want %v", name, got, want)
		}
	}
}

// TestEvaluatedHasStepsFirst checks the order of the algorithms in evaluations: the ones with steps come
// first, then variants and the ones that need hardware.
func TestEvaluatedHasStepsFirst(t *testing.T) {
	withSteps, evaluated := Algorithms(AllReduce), Evaluated(AllReduce)
	names := func(list []Info) []string { return lists.Map(list, func(info Info) string { return info.Name }) }
	all, rest := names(evaluated), names(evaluated[len(withSteps):])
	if !slices.Equal(all[:len(withSteps)], names(withSteps)) || !slices.Contains(all, "chain") ||
		!slices.Contains(rest, "quickreduce") || !slices.Contains(rest, "multimem") {
		t.Errorf("evaluated are %v, and %v have steps", all, names(withSteps))
	}
}
