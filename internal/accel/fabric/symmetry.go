package fabric

import (
	"sort"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// symmetry detects inexact results of a fabric that stands for many equal parts of a machine. In the machine, a message
// that leaves its part enters another part and meets the messages of that part. In the fabric, there is only one part,
// and both messages use its links.
//
// This is exact unless two messages from different parts reach a link in the same picosecond. Their order then depends
// on the IDs of the messages, which differ from part to part. Ties between messages from the same part are harmless,
// because all parts number their own messages in the same order.
type symmetry struct {
	latest []arrival // by link
	tied   bool
}

// arrival is the latest arrival of a message or a flit at a link.
type arrival struct {
	at   event.Time
	part int  // relative number of the part that it came from
	seen bool // there was an arrival
}

// Symmetric declares that the machine has many equal parts, and that the fabric has only one of them. If Tied is
// false at the end, the result is exact for all of them.
func (f *Fabric) Symmetric() { f.symmetry = &symmetry{latest: make([]arrival, len(f.links))} }

// Tied reports whether messages from different parts reached a link in the same picosecond.
func (f *Fabric) Tied() bool { return f.symmetry != nil && f.symmetry.tied }

// originPart returns the relative number of the part from which a message came to the link of a hop. 0 is the link's
// own part.
func (m *Message) originPart(hop int) int {
	if hop < m.Enters {
		return 0
	}
	return m.Part
}

// checkTie records that a message, or one of its flits, reaches the link of a hop, and detects a tie with another one.
func (f *Fabric) checkTie(m *Message, hop int, now event.Time) {
	if f.symmetry == nil {
		return
	}
	link, part := m.Path[hop].Link, m.originPart(hop)
	last := &f.symmetry.latest[link]
	f.symmetry.tied = f.symmetry.tied || last.seen && last.at == now && last.part != part || f.meetsTrain(link, part, now)
	*last = arrival{now, part, true}
}

// meetsTrain reports whether a flit of the last train on a link, which came from another part, reaches the link now.
func (f *Fabric) meetsTrain(link int32, part int, now event.Time) bool {
	c := f.links[link].train
	if c.message == 0 {
		return false
	}
	m := f.messages.at(c.message - 1)
	if m == nil || m.split || m.train == nil || m.originPart(int(c.hop)) == part {
		return false
	}
	ready := m.train[c.hop].ready
	i := sort.Search(m.flits, func(i int) bool { return ready.time(i, m.flits) >= now })
	return i < m.flits && ready.time(i, m.flits) == now
}
