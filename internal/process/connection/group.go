package connection

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
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
	// SelfPeer is the connection number of the host's own member.
	SelfPeer = 0
)

// Fact is a value that all members must agree on, such as a command-line option.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Advice says what to do if the value differs. The default is to give every member the same
	// command.
	Advice string `json:"-"`
	// AnyValue makes the group accept members with another value.
	AnyValue bool `json:"-"`
}

// Join is what a member sends to join a group.
type Join struct {
	Rank  int    `json:"rank"` // requested rank, or AnyRank
	Size  int    `json:"size"` // expected group size
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Space string `json:"space,omitempty"` // see NewJoin
	Facts []Fact `json:"facts,omitempty"` // in the same order for every member
}

// NewJoin describes this process as a member. Members with the same Space can observe each other's
// processes.
func NewJoin(rank, size int, host string, facts []Fact) Join {
	return Join{Rank: rank, Size: size, Host: host, PID: os.Getpid(), Space: space(), Facts: facts}
}

// localPID returns the process of a member of this host, or 0.
func (j Join) localPID() int {
	if j.Space == "" || j.Space != space() {
		return 0
	}
	return j.PID
}

// Group decides who belongs to a group and records who is present. It does no I/O and reads no
// clock.
type Group struct {
	Noun        string // the word for a member in messages: "rank" or "node"
	Size        int
	Facts       []Fact
	SilentTicks int    // ticks of silence after which a member is lost; 0 for no limit
	FullAdvice  string // advice for a member that arrives when all have joined
	// Observe reads what the host knows about a silent member; see [Host.Observe]. If it is nil,
	// nothing is observed.
	Observe func(*Member) Evidence

	Members []*Member // in order of arrival; sorted by rank after Begin

	begun   bool     // set by Begin
	refused []string // for each member that could not join, its name and the reason
}

// Member is an admitted member.
type Member struct {
	Join
	Peer   int  // number of its connection
	Gone   bool // it was lost after Begin
	Silent int  // ticks since its last message

	silenceStart Evidence // observed when its silence began
}

// Admit adds a member, or returns why it is refused.
func (g *Group) Admit(peer int, j Join) (why string) {
	if why = g.refusal(j); why != "" {
		g.Refuse(j.process(), why)
	} else {
		g.Members = append(g.Members, &Member{Join: j, Peer: peer})
	}
	return why
}

// refusal returns why a member cannot join, or "" if it can. It compares facts first, because a different command
// usually explains a wrong size or rank too.
func (g *Group) refusal(j Join) string {
	for i, f := range g.Facts {
		theirs := ""
		if i < len(j.Facts) && j.Facts[i].Name == f.Name {
			theirs = j.Facts[i].Value
		}
		if theirs != f.Value && !f.AnyValue {
			advice := cmp.Or(f.Advice, "give every "+g.Noun+" the same command")
			return fmt.Sprintf("%s is %s here and %s at the coordinator: %s", f.Name, quoteValue(theirs), quoteValue(f.Value),
				advice)
		}
	}
	switch {
	case j.Size != g.Size:
		return fmt.Sprintf("%s expects a group of %d, this one has %d", g.Name(j), j.Size, g.Size)
	case j.Rank != AnyRank && (j.Rank < 0 || j.Rank >= g.Size):
		return fmt.Sprintf("%s %d does not exist: it must be 0 to %d", g.Noun, j.Rank, g.Size-1)
	}
	if m := g.ByRank(j.Rank); m != nil && j.Rank != AnyRank {
		return fmt.Sprintf("duplicate %s %d: %s has already joined", g.Noun, j.Rank, m.process())
	}
	if g.Complete() || g.begun {
		text := fmt.Sprintf("all %s have joined: %s", unit.Plural(g.Size, g.Noun), g.names())
		if g.FullAdvice != "" {
			text += "; " + g.FullAdvice
		}
		return text
	}
	return ""
}

func quoteValue(value string) string {
	if _, err := strconv.Atoi(value); err == nil {
		return value
	}
	return strconv.Quote(value)
}

// Name returns a member's name for messages, such as "rank 1 (host a, pid 12)".
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

// Refuse records a failed attempt to join, which Missing reports.
func (g *Group) Refuse(who, why string) {
	const maxRefused = 5 // enough to see a pattern
	if text := who + ": " + why; len(g.refused) < maxRefused && !slices.Contains(g.refused, text) {
		g.refused = append(g.refused, text)
	}
}

// ByPeer returns the present member of a connection, or nil.
func (g *Group) ByPeer(peer int) *Member {
	m, _ := lists.First(g.Members, func(m *Member) bool { return m.Peer == peer && !m.Gone })
	return m
}

// ByRank returns the member of a rank, or nil if it has not joined.
func (g *Group) ByRank(rank int) *Member {
	m, _ := lists.First(g.Members, func(m *Member) bool { return m.Rank == rank })
	return m
}

// MarkAlive records that a message has arrived over a connection. It returns the member, or nil if there is none.
func (g *Group) MarkAlive(peer int) *Member {
	m := g.ByPeer(peer)
	if m != nil {
		m.Silent = 0
	}
	return m
}

// Complete reports whether all members have joined.
func (g *Group) Complete() bool { return len(g.Members) == g.Size }

// Begin makes the membership final. After Begin, a member that disconnects is marked as gone and not removed. Begin
// assigns ranks to members that requested none: first to the host's own member, then in order of arrival. It sorts the
// members by rank.
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

// Tick adds one tick of silence to every member and returns the members that are beyond the limit.
func (g *Group) Tick() (silent []*Member) {
	for _, m := range g.Members {
		if m.Silent++; m.Silent == quietTicks && g.Observe != nil {
			m.silenceStart = g.Observe(m)
		}
		// The host's own member is exempt: its silence only means that this process was stopped.
		if g.SilentTicks > 0 && m.Silent > g.SilentTicks && !m.Gone && m.Peer != SelfPeer {
			silent = append(silent, m)
		}
	}
	return silent
}

// Disconnect removes the member of a connection and returns it, or nil if there is none. After Begin, it is only marked
// as gone.
func (g *Group) Disconnect(peer int, cause string) *Member {
	m := g.ByPeer(peer)
	if m == nil {
		return nil
	}
	if g.begun {
		m.Gone = true
		return m
	}
	g.Members = slices.DeleteFunc(g.Members, func(other *Member) bool { return other == m })
	g.Refuse(m.process(), "joined and left: "+cause)
	return m
}

// SilenceCause explains the silence of a member that Tick has returned.
func (g *Group) SilenceCause(m *Member) string {
	e := SilentError{Limit: time.Duration(g.SilentTicks) * Tick}
	if g.Observe != nil {
		e.Cause = g.Observe(m).Since(m.silenceStart).Cause(e.Limit)
	}
	return e.Error()
}

// maxNames is the number of members that a message names.
const maxNames = 8

func joinNames(names []string) string {
	if extra := len(names) - maxNames; extra > 0 {
		names = append(names[:maxNames:maxNames], fmt.Sprintf("and %d more", extra))
	}
	return strings.Join(names, ", ")
}

func (g *Group) names() string {
	return joinNames(lists.Map(g.Members, func(m *Member) string { return g.Name(m.Join) }))
}

// Missing returns a text that says which members have not joined within the time and which were refused.
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
		text += "; missing: " + g.Noun + " " + joinNames(ranks)
	}
	if len(g.refused) > 0 {
		text += "; refused: " + strings.Join(g.refused, "; ")
	}
	return text
}

// Arrival is a member that has asked to join a group that meets once. If err is set, the attempt
// failed before the member could be identified.
type Arrival[P any] struct {
	*Conn
	Join    Join
	Payload P

	from string
	err  error
}

// joinRequest is a member's first frame; joinReply is the host's answer.
type joinRequest[P any] struct {
	Join    Join `json:"join"`
	Payload P    `json:"payload"`
}

type joinReply[A any] struct {
	Refused string `json:"refused,omitempty"`
	Payload A      `json:"payload"`
}

// Arrivals accepts members until the listener is closed. Members may connect before anyone receives
// from the channel. Every arrival must be received, by [Collect] or [RefuseLatecomers], because the
// channel is unbuffered.
func Arrivals[P any](l net.Listener, s Service) <-chan Arrival[P] {
	arrivals := make(chan Arrival[P])
	admit := func(c *Conn) {
		var o joinRequest[P]
		a := Arrival[P]{Conn: c, from: hostOf(c.RemoteAddr())}
		if a.err = c.ReceiveFirst(&o); a.err != nil {
			c.Close()
		}
		if a.Join, a.Payload = o.Join, o.Payload; c.PID != 0 {
			a.Join.PID = c.PID // the kernel's answer cannot be forged
		}
		arrivals <- a
	}
	refuse := func(from string, err error) { arrivals <- Arrival[P]{from: from, err: err} }
	go func() {
		s.Serve(l, admit, refuse)
		close(arrivals)
	}()
	return arrivals
}

// RefuseLatecomers answers members that arrive after the group is complete or has been abandoned.
// It returns when the listener is closed.
func RefuseLatecomers[P any](arrivals <-chan Arrival[P], g *Group) {
	for a := range arrivals {
		if a.err != nil {
			continue
		}
		why := g.refusal(a.Join)
		a.Refuse(cmp.Or(why, "the group was abandoned"))
	}
}

// Collect waits until every member of the group has joined and returns the arrivals by rank. Members that g already had
// are nil. It gives up when ctx ends. A member that is refused makes the whole group fail: the member that should be in
// its place will not come. On any error, all members that have joined get the reason.
func Collect[P any](ctx context.Context, arrivals <-chan Arrival[P], g *Group) ([]*Arrival[P], error) {
	begin := time.Now()
	members := make([]*Arrival[P], g.Size)
	for !g.Complete() {
		var fault error
		select {
		case a, open := <-arrivals:
			if !open {
				return nil, net.ErrClosed
			}
			if a.err != nil {
				g.Refuse(a.from, a.err.Error())
				continue
			}
			refusal := "a rank must be given"
			if a.Join.Rank != AnyRank {
				refusal = g.Admit(0, a.Join)
			}
			if refusal == "" {
				members[a.Join.Rank] = &a
				continue
			}
			a.Refuse(refusal)
			fault = fmt.Errorf("%s (pid %d): %s", a.from, a.Join.PID, refusal)
		case <-ctx.Done():
			fault = fmt.Errorf("%s (%w)", g.Missing(time.Since(begin).Round(time.Millisecond)), context.Cause(ctx))
		}
		for _, m := range members {
			if m != nil {
				m.Refuse(fault.Error())
			}
		}
		return nil, fault
	}
	return members, nil
}

// Refuse tells a member why it cannot join, and closes its connection.
func (a *Arrival[P]) Refuse(why string) {
	a.SetWriteDeadline(time.Now().Add(lingerTimeout))
	a.Send(joinReply[any]{Refused: why}) // if this fails, the member has already gone
	a.Close()
}

// Welcome answers an admitted member, with open files if the connection can carry them, and closes
// its connection.
func Welcome[P, A any](a *Arrival[P], answer A, files ...*os.File) error {
	a.SetWriteDeadline(time.Now().Add(lingerTimeout))
	err := a.Send(joinReply[A]{Payload: answer}, files...)
	a.Close()
	return err
}

// RefusedError carries the host's reason for refusing a member.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "refused: " + e.Why }

// JoinOnce joins a group that meets once and waits for the host's answer. Files are sent if the
// connection can carry them. When ctx ends, the host gets one more second to answer, since it knows
// which members are missing.
func JoinOnce[A, P any](ctx context.Context, c *Conn, j Join, payload P, files ...*os.File) (answer A, err error) {
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now().Add(lingerTimeout)) })()
	if err := c.Send(joinRequest[P]{j, payload}, files...); err != nil {
		return answer, err
	}
	var r joinReply[A]
	switch err := c.Receive(&r); {
	case err != nil && ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case err != nil:
		return answer, fmt.Errorf("waiting for the others: %w", err)
	case r.Refused != "":
		return answer, &RefusedError{r.Refused}
	}
	return r.Payload, nil
}
