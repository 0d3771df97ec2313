package schedule

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
)

// mutation is a planted fault: a change of one step of one rank.
type mutation struct {
	kind string
	rank int
	step int
}

func (m mutation) String() string {
	return fmt.Sprintf("%s at rank %d step %d", m.kind, m.rank, m.step)
}

const (
	dropped     = "dropped step"       // any step is missing
	repeated    = "repeated step"      // a step is done twice, such as a reduce
	exchanged   = "exchanged steps"    // two neighbouring steps change places
	otherPeer   = "other peer"         // the next rank instead of the right one
	fewerPeers  = "fewer peers"        // the last peer of a set is missing
	shiftedSrc  = "shifted source"     // off by one
	shiftedDst  = "shifted target"     // off by one
	shorter     = "shorter range"      // one element less, on one side only
	otherSource = "other source"       // the next buffer
	otherTarget = "other target"       // the next buffer
	otherRound  = "other round"        // the tag is one higher
	plainWrite  = "write for reduce"   // overwrites instead of adding
	otherRank   = "other rank's steps" // two ranks exchange their steps
	noFlag      = "no flag of a round" // all signals and waits of the step's round are missing, on all ranks
)

var mutationKinds = []string{dropped, repeated, exchanged, otherPeer, fewerPeers, shiftedSrc, shiftedDst, shorter,
	otherSource, otherTarget, otherRound, plainWrite, otherRank, noFlag}

// mayBeHarmless holds the kinds of changes that need not be a fault: repeating a step that overwrites, another
// order of independent steps, reading an equal copy, exchanging ranks with equal roles. All other kinds are
// faults at any step.
var mayBeHarmless = []string{repeated, exchanged, otherSource, otherRank}

const harmlessHead = `# Changes to the algorithms that are no faults: how many of them were planted, where,
# what was changed and in which kind of step. They are proved and executed like the originals.
#   repeated step       what overwrites its target may do so twice
#   exchanged steps     steps that do not depend on each other, or add in another order, may change places
#   other source        in place, or right after a copy, the next buffer holds the same
#   other rank's steps  peers of the root in a direct reduce differ only in the part they add
`

// mutant is a schedule with a fault.
type mutant struct {
	Schedule
	mutation
}

func (m mutant) Steps(rank int) iter.Seq[Step] {
	if neighbour := (m.rank + 1) % m.Ranks(); m.kind == otherRank && m.step == 0 {
		switch rank {
		case m.rank:
			rank = neighbour
		case neighbour:
			rank = m.rank
		}
	}
	if rank != m.rank && m.kind != noFlag {
		return m.Schedule.Steps(rank)
	}
	return func(yield func(Step) bool) {
		m.change(rank, slices.Collect(m.Schedule.Steps(rank)), yield)
	}
}

func (m mutant) change(rank int, steps []Step, yield func(Step) bool) {
	at := m.step
	if m.kind == noFlag {
		if round, ok := m.flagRound(); ok {
			steps = slices.DeleteFunc(steps, func(s Step) bool { return (s.Op == Signal || s.Op == Wait) && s.Tag == round })
		}
	} else if rank == m.rank && at < len(steps) {
		switch m.kind {
		case dropped:
			steps = slices.Delete(steps, at, at+1)
		case repeated:
			steps = slices.Insert(steps, at, steps[at])
		case exchanged:
			if at+1 < len(steps) {
				steps[at], steps[at+1] = steps[at+1], steps[at]
			}
		default:
			alter(m.kind, &steps[at], rank, m.Ranks())
		}
	}
	for _, s := range steps {
		if !yield(s) {
			return
		}
	}
}

// flagRound returns the round of the mutated step if it is a signal or wait.
func (m mutant) flagRound() (int, bool) {
	i := 0
	for s := range m.Schedule.Steps(m.rank) {
		if i == m.step {
			return s.Tag, s.Op == Signal || s.Op == Wait
		}
		i++
	}
	return 0, false
}

// alter changes a step. Fields that the step does not use stay as they are.
func alter(kind string, s *Step, rank, ranks int) {
	reads := s.Src.Len > 0
	writes := s.Dst.Len > 0
	switch kind {
	case otherPeer:
		if s.To.N > 0 {
			s.To.First = (s.To.First + 1) % ranks
		} else if s.From.N > 0 {
			s.From.First = (s.From.First + 1) % ranks
		}
	case fewerPeers:
		forget(&s.To, rank)
		forget(&s.From, rank)
	case shiftedSrc:
		if reads {
			s.Src.Off++
		}
	case shiftedDst:
		if writes {
			s.Dst.Off++
		}
	case shorter:
		// Change both ranges of a local step, or one side of a message.
		if reads {
			s.Src.Len--
		}
		if writes && !s.Op.Sends() {
			s.Dst.Len--
		}
	case otherSource:
		if reads {
			s.Src.Buf = (s.Src.Buf + 1) % 3
		}
	case otherTarget:
		if writes {
			s.Dst.Buf = (s.Dst.Buf + 1) % 3
		}
	case otherRound:
		if s.Op <= SendRecvReduce || s.Op >= Signal {
			s.Tag++
		}
	case plainWrite:
		if instead, ok := map[Op]Op{RecvReduce: Recv, SendRecvReduce: SendRecv, Reduce: Copy}[s.Op]; ok {
			s.Op = instead
		}
	}
}

// forget removes the last peer from a set, or the first if the last is the rank itself, which flags skip.
func forget(peers *Peers, rank int) {
	if peers.N < 2 {
		return
	}
	if peers.N--; peers.At(peers.N) == rank {
		peers.First += peers.Stride
	}
}

// changes reports whether the mutation changes the schedule.
func (m mutant) changes() bool {
	for rank := range m.Ranks() {
		if rank != m.rank && m.kind != otherRank && m.kind != noFlag {
			continue
		}
		before := slices.Collect(m.Schedule.Steps(rank))
		if !slices.Equal(before, slices.Collect(m.Steps(rank))) {
			return true
		}
	}
	return false
}

// TestMutationsAreCaught plants every kind of fault at every step of every rank of every algorithm. If the
// checker accepts a fault, it must be harmless: executed in many random orders the schedule gives the right
// result. testdata/harmless.txt lists the accepted ones with their steps, for review. It has only the
// algorithms of the package's own tables, so that an algorithm in a file of its own needs no entry.
func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, a := range slices.Concat(allReduces, otherCollectives) {
		listed[a.Collective+" "+a.Name] = true
	}
	harmless := map[string]int{}
	total := 0
	caught := map[string]map[string]int{}
	planted := 0
	for _, ranks := range []int{2, 3, 6} {
		for _, i := range append(instances(ranks, 2*ranks+1), instances(ranks, 0)...) {
			p := i.params
			if (i.collective == Barrier) != (p.Count == 0) || p.ChunkElems > 0 && !p.InPlace || p.GroupSize == 1 ||
				p.Width == 1 {
				continue // pieces are combined with in place; shapes of one rank are other algorithms
			}
			s := i.build(t)
			name := i.collective + " " + i.algorithm
			if caught[name] == nil {
				caught[name] = map[string]int{}
			}
			for rank := range ranks {
				steps := slices.Collect(s.Steps(rank))
				for at := range steps {
					for _, kind := range mutationKinds {
						m := mutant{s, mutation{kind, rank, at}}
						if !m.changes() {
							continue
						}
						planted++
						if Check(m) != nil {
							caught[name][kind]++
							continue
						}
						if !slices.Contains(mayBeHarmless, kind) || kind == repeated && steps[at].Op.Accumulates() {
							t.Errorf("%v with %v (%v) is accepted", i, m.mutation, steps[at])
						}
						if err := tryOut(m, 1, 8); err != nil {
							t.Errorf("%v with %v is accepted, but executed: %v", i, m.mutation, err)
						}
						total++
						if listed[name] {
							harmless[fmt.Sprintf("%s: %s: %v", name, kind, steps[at].Op)]++
						}
					}
				}
			}
		}
	}
	text := bytes.NewBufferString(harmlessHead)
	for _, what := range slices.Sorted(maps.Keys(harmless)) {
		fmt.Fprintf(text, "%4d %s\n", harmless[what], what)
	}
	golden.Check(t, "harmless.txt", text.String())
	for name, kinds := range caught {
		for _, kind := range []string{dropped, otherPeer, otherRound} {
			if kinds[kind] == 0 {
				t.Errorf("%s: no %s was planted", name, kind)
			}
		}
	}
	t.Logf("%d faults planted, %d of them harmless", planted, total)
}
