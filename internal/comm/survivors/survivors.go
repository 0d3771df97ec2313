// Package survivors lets the ranks of a failed group agree on the set of survivors, even if more ranks die or arrive
// late meanwhile. It has no clock and no network. A rank publishes a [Ballot], looks at the ballots of the others and
// publishes its next ballot, until the agreement is decided.
//
// An agreement works as in Paxos, in rounds that the members lead in turn. The leader waits until a quorum has entered
// its round. It then makes a proposal: the outcome that was voted for in the highest earlier round, or, if there was no
// vote, the ranks that have joined. It decides when a quorum has voted for the proposal. A rank whose leader is gone or
// late enters the next round.
//
// A quorum is every rank that is not gone. Gone means dead or departed, which is certain and final, so any number of
// ranks may die. A late rank may still be alive and consider the others late. It can therefore be left out only by more
// than half of all members. All surviving ranks thus get the same outcome, and if a network is cut in two, at most one
// side gets one. Ranks that share memory need no majority, because View.First lets the first decision win.
package survivors

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Ballot is the state that a rank publishes. The others know nothing else about it.
type Ballot struct {
	Step    int     // the current agreement, from 1; 0: it has not joined one
	Fault   string  `json:",omitempty"` // why it cannot use the previous outcome; "" if it can
	Round   int     // the highest round that it has entered, from 1
	Voted   int     `json:",omitempty"` // the latest round in which it voted; 0 if none
	Vote    Outcome `json:",omitempty"` // its vote
	Decided bool    `json:",omitempty"` // Vote is the outcome of this agreement
	Before  Outcome `json:",omitempty"` // outcome of the previous agreement
}

// Outcome lists the ranks that take part, in order.
type Outcome []Entry

// Entry is one rank of an outcome.
type Entry struct {
	Rank  int
	Fault string `json:",omitempty"`
}

// Ranks returns the ranks of an outcome.
func (o Outcome) Ranks() []int {
	return lists.Map(o, func(e Entry) int { return e.Rank })
}

// View is what a rank sees of the group, by rank.
type View struct {
	Ballots []Ballot
	// Gone marks ranks that are dead or have left. The caller must determine it before it reads the ballots, so that the
	// ballot of a gone rank is its last one.
	Gone []bool
	// Late marks ranks for which the others no longer wait.
	Late []bool
	// Stalled means that there was no progress for so long that another leader should try.
	Stalled bool
	// First makes an outcome the decision of a step, unless the step already has a decision. It returns the decision. It
	// is nil if the ranks share no memory.
	First func(step int, o Outcome) Outcome
}

// Voter is the state machine of one rank.
type Voter struct {
	Ballot       // the caller publishes it whenever it has changed
	LeftOut bool // the outcome does not contain this rank
	rank    int
	members []int
}

// New starts the first agreement of a rank, in a group of size ranks.
func New(rank, size int) *Voter {
	return &Voter{rank: rank, Ballot: Ballot{Step: 1, Round: 1}, members: lists.Range[int](size)}
}

// Next starts the next agreement, among the ranks of the last outcome.
func (v *Voter) Next(fault string) {
	v.members = v.Vote.Ranks()
	v.Ballot = Ballot{Step: v.Step + 1, Fault: fault, Round: 1, Before: v.Vote}
}

// Look processes the ballots of the others and reports whether this rank's ballot has changed. The agreement is over
// when Decided or LeftOut is set.
func (v *Voter) Look(view View) (changed bool) {
	for !v.Decided && !v.LeftOut && v.step(view) {
		changed, view.Stalled = true, false
	}
	return changed
}

// step makes at most one change to the ballot and reports whether it made one.
func (v *Voter) step(view View) (changed bool) {
	if v.adopt(view) {
		return true
	}
	for _, r := range v.members {
		if b := view.Ballots[r]; b.Step == v.Step && b.Round > v.Round {
			v.Round = b.Round
			return true
		}
	}
	leader := v.leader()
	b := view.Ballots[leader]
	switch {
	case leader == v.rank:
		return v.lead(view)
	case view.Gone[leader], view.Late[leader] && (b.Step != v.Step || view.Stalled):
		v.Round++
		return true
	case b.Step == v.Step && b.Round == v.Round && b.Voted == v.Round && v.Voted < v.Round:
		v.Vote, v.Voted = b.Vote, v.Round
		return true
	}
	return false
}

func (v *Voter) leader() int { return v.members[(v.Round-1)%len(v.members)] }

// adopt takes over a decision that another rank has published. It reports whether there was one.
func (v *Voter) adopt(view View) bool {
	for _, r := range v.members {
		switch b := view.Ballots[r]; {
		case b.Step == v.Step && b.Decided:
			v.decide(b.Vote)
		case b.Step == v.Step+1:
			v.decide(b.Before)
		case b.Step > v.Step+1:
			v.LeftOut = true
		default:
			continue
		}
		return true
	}
	return false
}

func (v *Voter) decide(o Outcome) {
	v.Vote, v.Decided = o, true
	v.LeftOut = !slices.Contains(o.Ranks(), v.rank)
}

// lead makes the leader's next change: the proposal, and later the decision.
func (v *Voter) lead(view View) (changed bool) {
	if !v.quorum(view) {
		return false
	}
	if v.Voted == v.Round {
		if view.First != nil {
			v.Vote = view.First(v.Step, v.Vote)
		}
		v.decide(v.Vote)
		return true
	}
	highest, vote := v.Voted, v.Vote
	var joined Outcome
	for _, r := range v.members {
		b := view.Ballots[r]
		if r == v.rank {
			b = v.Ballot
		}
		if b.Step != v.Step {
			continue
		}
		if b.Voted > highest {
			highest, vote = b.Voted, b.Vote
		}
		if !view.Gone[r] {
			joined = append(joined, Entry{r, b.Fault})
		}
	}
	if highest == 0 {
		vote = joined
	}
	v.Vote, v.Voted = vote, v.Round
	return true
}

// quorum reports whether enough ranks have entered the round or, if this rank has made a proposal, have voted for it.
func (v *Voter) quorum(view View) bool {
	ready, all, restLate := 1, true, true
	for _, r := range v.members {
		b := view.Ballots[r]
		switch {
		case r == v.rank:
		case b.Step == v.Step && b.Round >= v.Round && (v.Voted < v.Round || b.Voted >= v.Round):
			ready++
		case !view.Gone[r]:
			all, restLate = false, restLate && view.Late[r]
		}
	}
	return all || restLate && (view.First != nil || 2*ready > len(v.members))
}

// Missing returns the members that the agreement is waiting for: the ones that have not joined and are not gone. If all
// have joined, it returns all other members that are not gone.
func (v *Voter) Missing(view View) (ranks []int) {
	var others []int
	for _, r := range v.members {
		if r == v.rank || view.Gone[r] {
			continue
		}
		others = append(others, r)
		if view.Ballots[r].Step != v.Step {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 0 {
		return others
	}
	return ranks
}
