// Package survivors is how the ranks of a group that has failed agree on which of them
// are left, though more may die, or come late, while they do. It has no clock and no
// network: a rank publishes a [Ballot], looks at those of the others, and publishes the
// next one, until its agreement is decided.
//
// An agreement is decided as by Paxos, in rounds that the members lead in turn. The
// leader waits until a quorum has entered its round, proposes what was voted for in the
// highest round before, or else those who came, and decides once a quorum has voted for
// it. Whoever finds its leader gone or late enters the next round.
//
// A quorum is everybody but those that are gone, dead or departed, which is certain and
// final: so any number may die. A rank that is late may live, and sees the others as
// late; it can be done without only by more than half of all members. So all that live get
// one outcome, and of a network that is cut in two at most one side. Ranks that have a
// memory in common need no majority: there the first decision that is made counts.
package survivors

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Ballot is what a rank has published last: all that the others know of it.
type Ballot struct {
	Step    int     // the agreement that it is in, from 1; 0: it has not come
	Fault   string  `json:",omitempty"` // why it cannot go on with what it came from; "": it can
	Round   int     // the highest that it has entered, from 1
	Voted   int     `json:",omitempty"` // in which round it voted, 0: not yet
	Vote    Outcome `json:",omitempty"` // for what
	Decided bool    `json:",omitempty"` // Vote is the outcome of this agreement
	Before  Outcome `json:",omitempty"` // of the agreement before
}

// Outcome are those who came to an agreement, in the order of their ranks.
type Outcome []Entry

// Entry is one of them.
type Entry struct {
	Rank  int
	Fault string `json:",omitempty"`
}

// Ranks are those of an outcome.
func (o Outcome) Ranks() []int {
	return lists.Map(o, func(e Entry) int { return e.Rank })
}

// View is what a rank sees of the group, by rank.
type View struct {
	Ballots []Ballot
	// Gone tells who is dead or has left. It must be found out before the ballots, so that
	// they are the last that such a rank has published.
	Gone []bool
	// Late tells who is not waited for any longer.
	Late []bool
	// Stalled tells that nothing has happened for so long that another leader should try.
	Stalled bool
	// First makes an outcome the decision of a step, unless there is one, and gives the
	// one that counts. nil: the ranks have no memory in common.
	First func(step int, o Outcome) Outcome
}

// Voter is one rank's part.
type Voter struct {
	Ballot  // to be published whenever it has changed
	LeftOut bool
	rank    int
	members []int
}

// New begins the first agreement of a rank, of a group of so many.
func New(rank, size int) *Voter {
	return &Voter{rank: rank, Ballot: Ballot{Step: 1, Round: 1}, members: lists.Range[int](size)}
}

// Next begins the next agreement, among those of the outcome of the last.
func (v *Voter) Next(fault string) {
	v.members = v.Vote.Ranks()
	v.Ballot = Ballot{Step: v.Step + 1, Fault: fault, Round: 1, Before: v.Vote}
}

// Look takes in what the others have published and tells whether the own ballot has
// changed. It is over once Decided or LeftOut.
func (v *Voter) Look(at View) (changed bool) {
	for !v.Decided && !v.LeftOut && v.look(at) {
		changed, at.Stalled = true, false
	}
	return changed
}

// look does one thing at a time.
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

// adopt takes over what others know to be decided.
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

// lead is the part of the leader of a round.
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

// quorum tells whether enough have entered the round or, once there is a proposal, have
// voted for it.
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

// Missing are the members that have not come, or all others where each has, and are not gone.
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
