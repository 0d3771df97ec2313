package connection

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

const (
	// AnyRank lets the group choose a member's rank.
	AnyRank = -1
	// SelfPeer is the number of a host's connection to itself.
	SelfPeer = 0
)

// Fact is something that all members must have in common, such as an option of
// their command.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Advice is what to do when it differs, if that is not to give every member the
	// same command.
	Advice string `json:"-"`
}

// Join is what a member says of itself.
type Join struct {
	Rank  int    `json:"rank"` // that it insists on, or AnyRank
	Size  int    `json:"size"` // of the group it wants to join
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Facts []Fact `json:"facts,omitempty"` // in the same order everywhere
}

// Group decides who belongs to a group and knows who is here. It does no I/O and
// reads no clock.
type Group struct {
	Noun        string // what a member is called: rank, node
	Size        int
	Facts       []Fact
	SilentTicks int    // after which a member is lost; 0 is never
	FullAdvice  string // advice to one who comes when all have joined

	Members []*Member // in the order of arrival, then of ranks

	begun   bool     // see Begin
	refused []string // and why
}

// Member is one who was admitted.
type Member struct {
	Join
	Peer   int  // the number of its connection
	Gone   bool // it was lost after the group has begun
	Silent int  // ticks since it was last heard
}

// Admit takes a member in, or says why not.
func (g *Group) Admit(peer int, j Join) (refusal string) {
	if refusal = g.refusal(j); refusal != "" {
		g.Refuse(j.process(), refusal)
	} else {
		g.Members = append(g.Members, &Member{Join: j, Peer: peer})
	}
	return refusal
}

func (g *Group) refusal(j Join) string {
	for i, f := range g.Facts {
		theirs := ""
		if i < len(j.Facts) && j.Facts[i].Name == f.Name {
			theirs = j.Facts[i].Value
		}
		if theirs != f.Value {
			advice := cmp.Or(f.Advice, "give every "+g.Noun+" the same command")
			return fmt.Sprintf("%s is %s here and %s at the coordinator: %s", f.Name, quoted(theirs), quoted(f.Value), advice)
		}
	}
	switch {
	case j.Size != g.Size:
		return fmt.Sprintf("%s wants a group of %d, this one has %d", g.Name(j), j.Size, g.Size)
	case j.Rank != AnyRank && (j.Rank < 0 || j.Rank >= g.Size):
		return fmt.Sprintf("%s %d does not exist: it must be 0 to %d", g.Noun, j.Rank, g.Size-1)
	}
	if m := g.ByRank(j.Rank); m != nil && j.Rank != AnyRank {
		return fmt.Sprintf("duplicate %s %d: %s has already joined", g.Noun, j.Rank, m.process())
	}
	if len(g.Members) == g.Size {
		text := fmt.Sprintf("all %s have joined: %s", unit.Plural(g.Size, g.Noun), g.names())
		if g.FullAdvice != "" {
			text += "; " + g.FullAdvice
		}
		return text
	}
	return ""
}

func quoted(value string) string {
	if _, err := strconv.Atoi(value); err == nil {
		return value
	}
	return strconv.Quote(value)
}

// Name is how messages call a member: "rank 1 (host a, pid 12)".
func (g *Group) Name(j Join) string {
	switch {
	case j.Rank == AnyRank:
		return j.process()
	case j.Host == "":
		return fmt.Sprintf("%s %d (pid %d)", g.Noun, j.Rank, j.PID)
	}
	return fmt.Sprintf("%s %d (host %s, pid %d)", g.Noun, j.Rank, j.Host, j.PID)
}

func (j Join) process() string {
	if j.Host == "" {
		return fmt.Sprintf("pid %d", j.PID)
	}
	return fmt.Sprintf("host %s (pid %d)", j.Host, j.PID)
}

// Refuse remembers who could not join: Missing tells.
func (g *Group) Refuse(who, why string) {
	const most = 5 // enough to see the pattern
	if text := who + ": " + why; len(g.refused) < most && !slices.Contains(g.refused, text) {
		g.refused = append(g.refused, text)
	}
}

// ByPeer is the member of a connection, nil if there is none or it is gone.
func (g *Group) ByPeer(peer int) *Member {
	m, _ := lists.First(g.Members, func(m *Member) bool { return m.Peer == peer && !m.Gone })
	return m
}

// ByRank is the member of a rank, nil if it has not joined.
func (g *Group) ByRank(rank int) *Member {
	m, _ := lists.First(g.Members, func(m *Member) bool { return m.Rank == rank })
	return m
}

// MarkAlive notes that a member lives, and returns it as Peer does.
func (g *Group) MarkAlive(peer int) *Member {
	m := g.ByPeer(peer)
	if m != nil {
		m.Silent = 0
	}
	return m
}

// Complete reports whether all have joined.
func (g *Group) Complete() bool { return len(g.Members) == g.Size }

// Begin makes the members final: from now on a loss is one. It gives ranks to those
// that did not insist on one, first to the host itself, which may have been slower than others, then in the
// order of their arrival, and sorts by rank.
func (g *Group) Begin() {
	g.begun = true
	next := 0
	slices.SortStableFunc(g.Members, func(a, b *Member) int {
		return cmp.Compare(min(a.Peer, SelfPeer+1), min(b.Peer, SelfPeer+1))
	})
	for _, m := range g.Members {
		if m.Rank == AnyRank {
			for g.ByRank(next) != nil {
				next++
			}
			m.Rank = next
		}
	}
	slices.SortFunc(g.Members, func(a, b *Member) int { return cmp.Compare(a.Rank, b.Rank) })
}

// Tick lets time pass and returns who has been silent for too long.
func (g *Group) Tick() (silent []*Member) {
	for _, m := range g.Members {
		m.Silent++
		if g.SilentTicks > 0 && m.Silent > g.SilentTicks && !m.Gone && m.Peer != SelfPeer { // its silence would be our own
			silent = append(silent, m)
		}
	}
	return silent
}

// Disconnect takes a member for dead, and returns it. From a group that has not begun it is
// removed: it may come again. nil says that nobody was lost by it.
func (g *Group) Disconnect(peer int, cause string) *Member {
	m := g.ByPeer(peer)
	switch {
	case m == nil:
	case g.begun:
		m.Gone = true
	default:
		g.Members = slices.DeleteFunc(g.Members, func(other *Member) bool { return other == m })
		g.Refuse(m.process(), "joined and left: "+cause)
	}
	return m
}

// SilenceCause is the cause of the loss of a member that Tick has returned.
func (g *Group) SilenceCause() string {
	return (&SilentError{time.Duration(g.SilentTicks) * Tick}).Error()
}

// most is how many members a message names.
const most = 8

func listed(names []string) string {
	if extra := len(names) - most; extra > 0 {
		names = append(names[:most:most], fmt.Sprintf("and %d more", extra))
	}
	return strings.Join(names, ", ")
}

func (g *Group) names() string {
	return listed(lists.Map(g.Members, func(m *Member) string { return g.Name(m.Join) }))
}

// Missing says who has not joined within the time, and who was refused.
func (g *Group) Missing(within time.Duration) string {
	text := fmt.Sprintf("%d of %s joined within %v", len(g.Members), unit.Plural(g.Size, g.Noun), within)
	if len(g.Members) > 0 {
		text += ": " + g.names()
	}
	if slices.ContainsFunc(g.Members, func(m *Member) bool { return m.Rank == AnyRank }) {
		text += fmt.Sprintf("; missing: %d more", g.Size-len(g.Members))
	} else {
		var ranks []string
		for rank := range g.Size {
			if g.ByRank(rank) == nil {
				ranks = append(ranks, fmt.Sprint(rank))
			}
		}
		text += "; missing: " + g.Noun + " " + listed(ranks)
	}
	if len(g.refused) > 0 {
		text += "; refused: " + strings.Join(g.refused, "; ")
	}
	return text
}
