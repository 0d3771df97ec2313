package survivors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// world simulates a group whose ranks read and publish ballots in random order. A rank sees an old
// ballot of another, as over a network. It learns that a rank is dead only after it has seen all of
// that rank's ballots.
type world struct {
	chance *rand.Rand
	voters []*Voter
	log    [][]Ballot // published ballots, by rank
	seen   [][]int    // seen[a][b]: number of b's ballots that have reached a
	dead   []bool
	sees   [][]bool        // sees[a][b]: a knows that b is dead
	late   []bool          // ranks whose timeout has expired
	first  map[int]Outcome // outcomes decided in shared memory, by step; nil: there is no shared memory
}

func newWorld(size int, chance *rand.Rand) *world {
	w := &world{chance: chance, voters: make([]*Voter, size), log: make([][]Ballot, size), dead: make([]bool, size),
		late: make([]bool, size)}
	for range size {
		w.seen, w.sees = append(w.seen, make([]int, size)), append(w.sees, make([]bool, size))
	}
	return w
}

func (w *world) view(me int) View {
	v := View{Ballots: make([]Ballot, len(w.voters)), Gone: slices.Clone(w.sees[me]), Late: make([]bool, len(w.voters)),
		Stalled: w.late[me] && w.chance.IntN(50) == 0}
	if w.first != nil {
		v.First = func(step int, o Outcome) Outcome {
			if _, there := w.first[step]; !there {
				w.first[step] = o
			}
			return w.first[step]
		}
	}
	for r := range w.voters {
		v.Late[r] = w.late[me]
		if n := w.seen[me][r]; n > 0 {
			v.Ballots[r] = w.log[r][n-1]
		}
	}
	return v
}

// step makes one random event happen at rank me.
func (w *world) step(me int) {
	v := w.voters[me]
	switch peer := w.chance.IntN(len(w.voters)); {
	case v == nil:
		w.voters[me] = New(me, len(w.voters))
		w.log[me] = append(w.log[me], w.voters[me].Ballot)
	case w.chance.IntN(3) > 0: // the network delivers one ballot, or finally the death of the peer
		if w.seen[me][peer] < len(w.log[peer]) {
			w.seen[me][peer]++
		} else if w.dead[peer] {
			w.sees[me][peer] = true
		}
	default:
		if v.Look(w.view(me)) {
			w.log[me] = append(w.log[me], v.Ballot)
		}
		if v.Decided && !v.LeftOut && v.Step == 1 {
			v.Next("")
			w.log[me] = append(w.log[me], v.Ballot)
		}
	}
}

func (w *world) over(me int) bool {
	v := w.voters[me]
	return w.dead[me] || v != nil && (v.LeftOut || v.Decided && v.Step == 2)
}

// Whichever ranks die, are late or see old ballots: all survivors reach the same outcome at each step.
// It contains no rank that did not take part, and every rank that nobody gave up.
func TestAllThatLiveAgree(t *testing.T) {
	runs := 6000
	if testing.Short() {
		runs = 1500
	}
	shrunk, leftOut, inSecond, minorities := 0, 0, 0, 0
	for seed := range runs {
		chance := rand.New(rand.NewPCG(1, uint64(seed)))
		size := 1 + chance.IntN(5)
		w := newWorld(size, chance)
		impatient := chance.IntN(3) == 0
		if chance.IntN(4) == 0 {
			w.first = map[int]Outcome{}
		}
		dying, deaths := chance.IntN(size), 0
		for steps := 0; !slices.ContainsFunc(w.voters, func(v *Voter) bool { return v != nil }) || !w.all(); steps++ {
			if steps > 20_000 {
				if impatient && w.first == nil && deaths > 0 {
					minorities++ // the survivors are too few to leave out a late rank
					break
				}
				t.Fatalf("seed %d: nothing is decided: %v", seed, w)
			}
			me := chance.IntN(size)
			if w.over(me) {
				continue
			}
			if deaths < dying && chance.IntN(20*size) == 0 && w.voters[me] != nil {
				w.dead[me], deaths = true, deaths+1
				continue
			}
			if w.voters[me] != nil && impatient && chance.IntN(200) == 0 {
				w.late[me] = true
			}
			if w.voters[me] == nil && impatient && chance.IntN(4) > 0 {
				continue // a late rank
			}
			w.step(me)
		}
		w.check(t, seed, impatient)
		for r, v := range w.voters {
			if v != nil && !w.dead[r] && v.LeftOut {
				leftOut++
			}
			if v != nil && !w.dead[r] && v.Decided && !v.LeftOut && len(v.Vote) < size {
				shrunk++
				if len(v.Vote) < len(v.Before) {
					inSecond++
				}
			}
		}
	}
	t.Logf("of %d groups %d ranks went on in a smaller one, %d were left out, %d were lost between the steps, %d had "+
		"no majority",
		runs, shrunk, leftOut, inSecond, minorities)
	if shrunk == 0 || leftOut == 0 || inSecond == 0 {
		t.Errorf("%d shrunk, %d left out, %d lost between the steps: the test shows nothing", shrunk, leftOut, inSecond)
	}
}

func (w *world) all() bool {
	for r := range w.voters {
		if !w.over(r) {
			return false
		}
	}
	return true
}

func (w *world) check(t *testing.T, seed int, impatient bool) {
	t.Helper()
	decided := map[int]string{}
	for r, v := range w.voters {
		if v == nil || w.dead[r] {
			continue
		}
		for step, o := range map[int]Outcome{v.Step: v.Vote, v.Step - 1: v.Before} {
			if step == 0 || step == v.Step && !v.Decided {
				continue
			}
			text := fmt.Sprint(o)
			if other, there := decided[step]; there && other != text {
				t.Fatalf("seed %d: step %d has the outcomes %s and %s: %v", seed, step, text, other, w)
			}
			decided[step] = text
		}
		if !impatient && v.LeftOut {
			t.Fatalf("seed %d: rank %d is left out though nobody lost patience: %v", seed, r, w)
		}
	}
}

func (w *world) String() (s string) {
	for r, v := range w.voters {
		if v == nil {
			s += fmt.Sprintf("\nrank %d has not come", r)
			continue
		}
		s += fmt.Sprintf("\nrank %d dead=%v late=%v left out=%v %+v", r, w.dead[r], w.late[r], v.LeftOut, v.Ballot)
	}
	return s
}

// A leader must propose an outcome that may already be decided, not the ranks that it sees now.
func TestLeaderKeepsToWhatMayBeDecided(t *testing.T) {
	// Rank 0 of three got the vote of rank 2, may have decided, and died. Rank 1 leads the next round.
	// It must wait until rank 2 has entered that round, because only then is rank 2's earlier vote
	// final.
	voted := Outcome{{Rank: 0}, {Rank: 2}}
	v := New(1, 3)
	view := View{Gone: []bool{true, false, false}, Late: make([]bool, 3), Ballots: []Ballot{
		{Step: 1, Round: 1}, {}, {Step: 1, Round: 1},
	}}
	if v.Look(view); v.Round != 2 || v.Voted != 0 {
		t.Fatalf("rank 1 proposes %v in round %d before rank 2 has entered it", v.Vote, v.Round)
	}
	view.Ballots[2] = Ballot{Step: 1, Round: 2, Voted: 1, Vote: voted}
	v.Look(view)
	if v.Round != 2 || v.Voted != 2 || fmt.Sprint(v.Vote) != fmt.Sprint(voted) {
		t.Errorf("rank 1 proposes %v in round %d, want what may have been decided, %v", v.Vote, v.Round, voted)
	}
}
