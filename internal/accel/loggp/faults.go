package loggp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// The kinds of faults, which are also the names of the options.
const (
	SlowRank    = "slow-rank"
	SlowLink    = "slow-link"
	DeadLink    = "dead-link"
	StartOffset = "start-offset"
)

// FaultKind describes a kind of fault.
type FaultKind struct{ Name, Help string }

// FaultKinds lists the kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{
		{SlowRank, "ranks whose computation, overheads, reductions and copies take longer: 3:2x, or 3:2x+5:1.5x for two"},
		{SlowLink, "links with less bandwidth, in both directions: NAME:4x, or NAME:4x+NAME:2x for two"},
		{DeadLink, "links that carry nothing, in both directions: NAME, or NAME+NAME; messages take other paths"},
		{StartOffset, "ranks that start later: RANK:10us, or 3:10us+5:1ms for two"},
	}
}

// NoFault is the value of an option for no fault of its kind. It allows a sweep to include the healthy machine.
const NoFault = "none"

// Fault is a deviation of a machine from its network.
type Fault struct {
	Kind   string
	Rank   int
	Link   string     // name of a cable
	Factor int64      // of a slow rank or link, in thousandths
	Delay  event.Time // of a start
}

// String returns the fault in the notation of its option.
func (f Fault) String() string {
	switch f.Kind {
	case SlowRank:
		return fmt.Sprintf("%s %d:%sx", f.Kind, f.Rank, factorText(f.Factor))
	case SlowLink:
		return fmt.Sprintf("%s %s:%sx", f.Kind, f.Link, factorText(f.Factor))
	case DeadLink:
		return f.Kind + " " + f.Link
	}
	return fmt.Sprintf("%s %d:%v", f.Kind, f.Rank, time.Duration(f.Delay/event.Nanosecond))
}

func factorText(thousandths int64) string {
	return strconv.FormatFloat(float64(thousandths)/1000, 'f', -1, 64)
}

// ParseFaults reads the value of an option: faults of one kind, joined by +. "" and NoFault are none.
func ParseFaults(kind, text string) (list []Fault, err error) {
	if text == "" || text == NoFault {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, "+") {
		f, err := parseFault(kind, item)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

func parseFault(kind, text string) (Fault, error) {
	f := Fault{Kind: kind, Link: text}
	if kind == DeadLink {
		if text == "" {
			return f, fmt.Errorf("%s: want the name of a link", kind)
		}
		return f, nil
	}
	colon := strings.LastIndex(text, ":")
	if colon < 1 {
		return f, fmt.Errorf("%s %q: want a colon and a value after the name, as in %s", kind, text, example(kind))
	}
	subject, value := text[:colon], text[colon+1:]
	f.Link = subject
	if kind != SlowLink {
		rank, err := strconv.Atoi(subject)
		if err != nil || rank < 0 {
			return f, fmt.Errorf("%s %q: want a rank before the colon, as in %s", kind, text, example(kind))
		}
		f.Link, f.Rank = "", rank
	}
	if kind == StartOffset {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 || d > time.Hour {
			return f, fmt.Errorf("%s %q: want a time from 0 to 1h after the colon, as in %s", kind, text, example(kind))
		}
		f.Delay = event.Time(d) * event.Nanosecond
		return f, nil
	}
	number, times := strings.CutSuffix(value, "x")
	factor, err := strconv.ParseFloat(number, 64)
	thousandths := math.Round(factor * 1000)
	if err != nil || !times || !(factor >= 1 && factor <= 1e6) || thousandths/1000 != factor {
		return f, fmt.Errorf("%s %q: want a factor from 1x to 1000000x with at most 3 decimals after the colon, as in %s",
			kind, text, example(kind))
	}
	f.Factor = int64(thousandths)
	return f, nil
}

func example(kind string) string {
	switch kind {
	case SlowLink:
		return "leaf0-spine1:4x"
	case StartOffset:
		return "3:10us"
	}
	return "3:2x"
}

// broken holds the faults of a machine by rank and by link. Its maps are nil if it has none.
type broken struct {
	ranks   map[int32]int64 // factors in thousandths
	links   map[int32]int64
	dead    map[int32]bool
	offsets map[int32]event.Time
}

// resolve finds the ranks and links of the faults in a network with at least the given number of ranks.
func (n *Network) resolve(ranks int) (b broken, err error) {
	if available := n.MaxRanks(); ranks > available || ranks < 1 {
		return b, fmt.Errorf("it has %d ranks, want %d", available, ranks)
	}
	b = broken{map[int32]int64{}, map[int32]int64{}, map[int32]bool{}, map[int32]event.Time{}}
	for _, f := range n.Faults {
		var links []int32
		switch {
		case f.Link != "":
			if links, err = n.cable(f.Link, ranks); err != nil {
				return b, fmt.Errorf("%v: %w", f, err)
			}
		case f.Rank >= ranks:
			return b, fmt.Errorf("%v: there are only ranks 0 to %d", f, ranks-1)
		}
		switch f.Kind {
		case SlowRank:
			b.ranks[int32(f.Rank)] = max(b.ranks[int32(f.Rank)], f.Factor)
		case StartOffset:
			b.offsets[int32(f.Rank)] = max(b.offsets[int32(f.Rank)], f.Delay)
		}
		for _, l := range links {
			if f.Kind == DeadLink {
				b.dead[l] = true
			} else {
				b.links[l] = max(b.links[l], f.Factor)
			}
		}
	}
	return b, n.connected(b.dead, ranks)
}

// cable returns the links of the cable with a name.
func (n *Network) cable(name string, ranks int) ([]int32, error) {
	if n.Graph == nil {
		text, named := strings.CutSuffix(name, "-"+flatSwitch)
		if rank, err := strconv.Atoi(text); named && err == nil && rank >= 0 && rank < ranks {
			return []int32{int32(rank), int32(ranks + rank)}, nil
		}
		return nil, fmt.Errorf("unknown link %q: the links of a flat network are 0-%s to %d-%s", name, flatSwitch, ranks-1,
			flatSwitch)
	}
	cable := int32(-1)
	for _, l := range n.Graph.Links {
		if l.Name == name || n.Graph.Cables[l.Cable] == name {
			cable = l.Cable
		}
	}
	var links []int32
	for i, l := range n.Graph.Links {
		if l.Cable == cable {
			links = append(links, int32(i))
		}
	}
	if links == nil {
		return nil, suggest.Unknown("link", name, n.Graph.Cables)
	}
	return links, nil
}

// connected reports an error if dead links cut ranks off.
func (n *Network) connected(dead map[int32]bool, ranks int) error {
	var isolated []int
	if n.Graph != nil {
		isolated = n.Graph.Isolated(dead, ranks)
	} else {
		for rank := range ranks {
			if dead[int32(rank)] && ranks > 1 {
				isolated = append(isolated, rank)
			}
		}
	}
	if len(isolated) == 0 {
		return nil
	}
	const maxListed = 8
	pairs := lists.Map(isolated[:min(maxListed, len(isolated))], func(rank int) string {
		if rank == 0 {
			return "0 and all others"
		}
		return fmt.Sprintf("0 and %d", rank)
	})
	more := ""
	if len(isolated) > maxListed {
		more = fmt.Sprintf(", and %d more", len(isolated)-maxListed)
	}
	return fmt.Errorf("no path in both directions between ranks %s%s", strings.Join(pairs, ", "), more)
}

// ParseFaultList reads faults of several kinds: KIND=VALUE;KIND=VALUE, where VALUE is the value of an option.
func ParseFaultList(text string) (list []Fault, err error) {
	if text == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ";") {
		kind, value, _ := strings.Cut(item, "=")
		if _, err := suggest.Find("fault", kind, FaultKinds(), func(k FaultKind) string { return k.Name }); err != nil {
			return nil, err
		}
		more, err := ParseFaults(kind, value)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}
