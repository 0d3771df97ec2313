package schedule

import (
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Prove and Check agree on every algorithm, without a fault and with one: a step left out, doubled, or with
// another range.
func TestProveAgreesWithCheck(t *testing.T) {
	var messages []Info
	for _, op := range Collectives() {
		for _, info := range Algorithms(op) {
			if !info.Direct {
				messages = append(messages, info)
			}
		}
	}
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		info := rapid.SampledFrom(messages).Draw(t, "algorithm")
		variants := Variants(info, rapid.IntRange(1, 9).Draw(t, "ranks"),
			rapid.SampledFrom([]int{0, 1, 7, 40}).Draw(t, "count"))
		if len(variants) == 0 {
			return
		}
		s := must.Get(New(info.Collective, info.Name, rapid.SampledFrom(variants).Draw(t, "variant")))(t)
		if err := Prove(s); err != nil {
			t.Fatalf("%s %s %+v: %v", info.Collective, info.Name, s.Params(), err)
		}
		wrong := spoilt{s, rapid.IntRange(0, s.Ranks()-1).Draw(t, "rank"), rapid.IntRange(0, 12).Draw(t, "step"),
			rapid.SampledFrom([]string{"left out", "twice", "shifted"}).Draw(t, "how")}
		check, prove := Check(wrong), Prove(wrong)
		if (check == nil) != (prove == nil) {
			t.Fatalf("%s %s %+v, step %d of rank %d %s: checked: %v, proved: %v", info.Collective, info.Name, s.Params(),
				wrong.step, wrong.rank, wrong.how, check, prove)
		}
		if prove != nil {
			found++
		}
	})
	if found == 0 {
		t.Error("no planted fault was found")
	}
}

// spoilt is a schedule with a fault in one step of one rank.
type spoilt struct {
	Schedule
	rank, step int
	how        string
}

func (s spoilt) Steps(rank int) iter.Seq[Step] {
	if rank != s.rank {
		return s.Schedule.Steps(rank)
	}
	return func(yield func(Step) bool) {
		i := 0
		for step := range s.Schedule.Steps(rank) {
			if i++; i-1 == s.step {
				switch s.how {
				case "left out":
					continue
				case "twice":
					if !yield(step) {
						return
					}
				case "shifted":
					step.Dst.Off++
				}
			}
			if !yield(step) {
				return
			}
		}
	}
}

// Algorithms that access the memory of peers are passed to Check, which finds races.
func TestProveDirect(t *testing.T) {
	s := must.Get(New(AllReduce, "two-stage", Params{Ranks: 4, Count: 8}))(t)
	if err := Prove(spoilt{s, 1, 0, "left out"}); err == nil || !strings.Contains(err.Error(), "rank") {
		t.Errorf("a barrier in which one rank sends no flags: %v", err)
	}
}

// A barrier without one of its rounds neither deadlocks nor leaves a flag, but it does not synchronize.
func TestProveBarrier(t *testing.T) {
	for _, ranks := range []int{2, 3, 5, 8, 100} {
		s := must.Get(New(Barrier, "dissemination", Params{Ranks: ranks}))(t)
		if err := Prove(s); err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
		rounds := 0
		for step := range s.Steps(0) {
			rounds = step.Tag + 1
		}
		for round := range rounds {
			check, prove := Check(hasty{s, round}), Prove(hasty{s, round})
			if check == nil || prove == nil || !strings.Contains(prove.Error(), "it leaves the barrier before rank") {
				t.Errorf("%d ranks without round %d: checked: %v, proved: %v", ranks, round, check, prove)
			}
		}
	}
}

// hasty is a schedule without one of its rounds.
type hasty struct {
	Schedule
	round int
}

func (h hasty) Steps(rank int) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for step := range h.Schedule.Steps(rank) {
			if step.Tag != h.round && !yield(step) {
				return
			}
		}
	}
}

// Pullers return the steps of a stream, also if it is long and kept open, if it is short and returned a second time,
// and if its steps do not fit the packed form.
func TestPull(t *testing.T) {
	const huge = 1 << 40
	for _, c := range []struct {
		name         string
		ranks, count int
	}{{"ring", 90, 1000}, {"tree", 9, 100}, {"one-stage", 5, huge}, {"two-stage", 5, huge},
		{"halving-doubling", 5, huge}, {"naive", 5, huge}, {"naive", 120, huge}} {
		s := Keep(must.Get(New(AllReduce, c.name, Params{Ranks: c.ranks, Count: c.count}))(t))
		for range 2 {
			pullers := PullAll(s)
			for rank := range pullers {
				var got, again Step
				for want := range s.Steps(rank) {
					if !pullers[rank].Next(&got) || got != want {
						t.Fatalf("%s rank %d: %v, want %v", c.name, rank, got, want)
					}
					if pullers[rank].Current(&again); again != want {
						t.Fatalf("%s rank %d: %v again, want %v", c.name, rank, again, want)
					}
				}
				if pullers[rank].Next(&got) {
					t.Errorf("%s rank %d: %v after the last step", c.name, rank, got)
				}
			}
			StopAll(pullers)
		}
	}
}

// The memory of a proof grows with the number of rounds, not with the square of the ranks: a message of an all-gather
// does not cut the receiver's memory where the sender's was cut.
func TestProofMemory(t *testing.T) {
	const ranks = 1 << 12
	for _, name := range []string{"halving-doubling", "recursive-doubling", "tree"} {
		s := must.Get(New(AllReduce, name, Params{Ranks: ranks, Count: 1 << 18, InPlace: true}))(t)
		p := newVerifier(s, newMarks(ranks), false)
		must.Do(t, p.run())
		if most := int32(ranks * 40); p.all.n > most {
			t.Errorf("%s: %d ranks have %d intervals, want at most %d", name, ranks, p.all.n, most)
		}
	}
}

// The estimate of messages is exact for few ranks and close for many.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
		want  int64
	}{{"ring", 10, 2 * 10 * 9}, {"recursive-doubling", 1 << 14, 14 << 14}, {"halving-doubling", 1 << 14, 28 << 14},
		{"ring", 4096, 2 * 4096 * 4095}, {"one-stage", 64, 4 * 64 * 63}} {
		s := must.Get(New(AllReduce, c.name, Params{Ranks: c.ranks, Count: 1 << 18}))(t)
		if got := Messages(s, 1<<26); got != c.want {
			t.Errorf("%s with %d ranks: %d messages, want %d", c.name, c.ranks, got, c.want)
		}
	}
}
