// Package survivors lets the ranks of a failed group agree on the set of survivors, even if more ranks die or arrive
// late meanwhile. It has no clock and no network: a rank publishes a [Ballot], looks at those of the others, and
// publishes the next one, until its agreement is decided.
//
// An agreement is decided as in Paxos, in rounds that the members lead in turn. The leader waits until a quorum has
// entered its round. It proposes the outcome that was voted for in the highest earlier round, or else the ranks that
// have joined, and decides once a quorum has voted for it. A rank whose leader is gone or late enters the next round.
//
// A quorum is every rank that is not gone. Gone (dead or departed) is certain and final, so any number of ranks may
// die. A late rank may still be alive, and considers the others late; it can be left out only by more than half of all
// members. So all surviving ranks get one outcome, and if a network is cut in two, at most one side does. Ranks that
// share memory need no majority: there the first decision counts.
package survivors

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Ballot is the state that a rank has published last: everything that the others know about it.
type Ballot struct {
	Step    int     // the current agreement, from 1; 0: it has not joined one
	Fault   string  `json:",omitempty"` // why it cannot use the previous outcome; "": it can
	Round   int     // the highest round that it has entered, from 1
	Voted   int     `json:",omitempty"` // the round in which it voted; 0: none
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
	// Gone marks ranks that are dead or have left. It must be determined before the ballots are read, so that these are
	// the last ones of such ranks.
	Gone []bool
	// Late marks ranks that are not waited for any longer.
	Late []bool
	// Stalled: nothing has happened for so long that another leader should try.
	Stalled bool
	// First makes an outcome the decision of a step, unless there is one, and returns the one that counts. nil: the ranks
	// share no memory.
	First func(step int, o Outcome) Outcome
}

// Voter is the state machine of one rank.
type Voter struct {
	Ballot  // to publish whenever it has changed
	LeftOut bool
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

// Look processes the ballots of the others and reports whether the own ballot has changed. The agreement is over once
// Decided or LeftOut.
func (v *Voter) Look(at View) (changed bool) {
	for !v.Decided && !v.LeftOut && v.look(at) {
		changed, at.Stalled = true, false
	}
	return changed
}

// look makes one change at a time.
func (v *Voter) look(at View) (changed bool) {
	if v.adopt(at) {
		return true
	}
	for _, r := range v.members {
		if b := at.Ballots[r]; b.Step == v.Step && b.Round > v.Round {
			v.Round = b.Round
			return true
		}
	}
	leader := v.leader()
	b := at.Ballots[leader]
	switch {
	case leader == v.rank:
		return v.lead(at)
	case at.Gone[leader], at.Late[leader] && (b.Step != v.Step || at.Stalled):
		v.Round++
		return true
	case b.Step == v.Step && b.Round == v.Round && b.Voted == v.Round && v.Voted < v.Round:
		v.Vote, v.Voted = b.Vote, v.Round
		return true
	}
	return false
}

func (v *Voter) leader() int { return v.members[(v.Round-1)%len(v.members)] }

// adopt takes over a decision that others have published.
func (v *Voter) adopt(at View) bool {
	for _, r := range v.members {
		switch b := at.Ballots[r]; {
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

// lead makes the next step of the leader of a round.
func (v *Voter) lead(at View) (changed bool) {
	if !v.quorum(at) {
		return false
	}
	if v.Voted == v.Round {
		if at.First != nil {
			v.Vote = at.First(v.Step, v.Vote)
		}
		v.decide(v.Vote)
		return true
	}
	highest, vote := v.Voted, v.Vote
	var came Outcome
	for _, r := range v.members {
		b := at.Ballots[r]
		if r == v.rank {
			b = v.Ballot
		}
		if b.Step != v.Step {
			continue
		}
		if b.Voted > highest {
			highest, vote = b.Voted, b.Vote
		}
		if !at.Gone[r] {
			came = append(came, Entry{r, b.Fault})
		}
	}
	if highest == 0 {
		vote = came
	}
	v.Vote, v.Voted = vote, v.Round
	return true
}

// quorum reports whether enough ranks have entered the round or, once there is a proposal, have voted for it.
func (v *Voter) quorum(at View) bool {
	ready, all, butLate := 1, true, true
	for _, r := range v.members {
		b := at.Ballots[r]
		switch {
		case r == v.rank:
		case b.Step == v.Step && b.Round >= v.Round && (v.Voted < v.Round || b.Voted >= v.Round):
			ready++
		case !at.Gone[r]:
			all, butLate = false, butLate && at.Late[r]
		}
	}
	return all || butLate && (at.First != nil || 2*ready > len(v.members))
}

// Missing returns the members that have not joined and are not gone; if all have joined, all others that are not gone.
func (v *Voter) Missing(at View) (ranks []int) {
	var others []int
	for _, r := range v.members {
		if r == v.rank || at.Gone[r] {
			continue
		}
		others = append(others, r)
		if at.Ballots[r].Step != v.Step {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) == 0 {
		return others
	}
	return ranks
}
