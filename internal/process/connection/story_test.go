package connection

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// TestStories runs the scripts in testdata against a Group. The commands are:
//
//	group NOUN size=N [silent=TICKS] [FACT=VALUE]...   makes a new group
//	join PEER rank=R size=N host=H pid=P [FACT=VALUE]...
//	hear PEER, lose PEER CAUSE, refuse WHO WHY
//	tick N       reports silent members and disconnects them
//	missing TIME, members, begin
func TestStories(t *testing.T) {
	s := story{T: t}
	proctest.Stories(t, s.do)
}

type story struct {
	*testing.T
	group Group
}

func (s *story) do(verb string, args []string) []string {
	g := &s.group
	peer := func() int { return s.number(args[0]) }
	switch verb {
	case "group":
		s.group = Group{Noun: args[0]}
		j := s.join(args[1:])
		g.Size, g.Facts = j.Size, j.Facts
	case "join":
		if why := g.Admit(peer(), s.join(args[1:])); why != "" {
			return []string{"refused: " + why}
		}
	case "hear":
		if g.MarkAlive(peer()) == nil {
			return []string{"nobody"}
		}
	case "lose":
		m := g.Disconnect(peer(), strings.Join(args[1:], " "))
		if m == nil {
			return []string{"nobody"}
		}
		return []string{g.Name(m.Join) + " was lost"}
	case "refuse":
		g.Refuse(args[0], strings.Join(args[1:], " "))
	case "tick":
		var lost []string
		for range s.number(args[0]) {
			for _, m := range g.Tick() {
				lost = append(lost, fmt.Sprintf("%s was lost: %s", g.Name(m.Join), g.SilenceCause(m)))
				g.Disconnect(m.Peer, g.SilenceCause(m))
			}
		}
		return lost
	case "begin":
		g.Begin()
	case "missing":
		d := must.Get(time.ParseDuration(args[0]))(s)
		return []string{g.Missing(d)}
	case "members":
		var names []string
		for _, m := range g.Members {
			name := fmt.Sprintf("peer %d: %s", m.Peer, g.Name(m.Join))
			if m.Gone {
				name += ", gone"
			}
			names = append(names, name)
		}
		return append(names, fmt.Sprintf("complete: %t", g.Complete()))
	default:
		s.Fatalf("no verb %q", verb)
	}
	return nil
}

// join parses a member's description, and the limits of a group.
func (s *story) join(args []string) (j Join) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "rank":
			if j.Rank = AnyRank; value != "any" {
				j.Rank = s.number(value)
			}
		case "size":
			j.Size = s.number(value)
		case "silent":
			s.group.SilentTicks = s.number(value)
		case "host":
			j.Host = value
		case "pid":
			j.PID = s.number(value)
		default:
			j.Facts = append(j.Facts, Fact{Name: name, Value: value})
		}
	}
	return j
}

func (s *story) number(text string) int {
	return must.Get(strconv.Atoi(text))(s)
}
