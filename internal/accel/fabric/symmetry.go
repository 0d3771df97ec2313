package fabric

import (
	"sort"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// symmetry watches a fabric that stands for many equal parts of a machine. A message that leaves its part enters the
// next one, where it meets the messages of that part. Here both use the links of the same part.
//
// This is exact unless two messages from different parts reach a link in the same picosecond. Their order then depends
// on the numbers of the messages, which differ from part to part. Ties between messages from one part are harmless,
// because all parts number their own messages in the same order.
type symmetry struct {
	latest []arrival // by link
	tied   bool
}

// arrival is the latest arrival of a message or a flit at a link.
type arrival struct {
	at   event.Time
	part int // relative number of the part that it came from
	any  bool
}

// Symmetric declares that the machine has many equal parts and only the links of one are simulated. Tied tells whether
// that was exact.
func (f *Fabric) Symmetric() { f.symmetry = &symmetry{latest: make([]arrival, len(f.links))} }

// Tied reports whether messages from different parts reached a link in the same picosecond.
func (f *Fabric) Tied() bool { return f.symmetry != nil && f.symmetry.tied }

// part returns where a message at one of its hops came from: 0 is the part of the link.
func (m *Message) part(hop int) int {
	if hop < m.Enters {
		return 0
	}
	return m.Part
}

// noteArrival looks for a tie when a message, or one of its flits, reaches the link of a hop.
func (f *Fabric) noteArrival(m *Message, hop int, now event.Time) {
	if f.symmetry == nil {
		return
	}
	link, part := m.Path[hop].Link, m.part(hop)
	last := &f.symmetry.latest[link]
	f.symmetry.tied = f.symmetry.tied || last.any && last.at == now && last.part != part || f.meetsTrain(link, part, now)
	*last = arrival{now, part, true}
}

// meetsTrain reports whether a flit of the last train on a link, which came from another part, reaches the link now.
func (f *Fabric) meetsTrain(link int32, part int, now event.Time) bool {
	c := f.links[link].train
	if c.message == 0 {
		return false
	}
	m := f.messages.at(c.message - 1)
	if m == nil || m.split || m.train == nil || m.part(int(c.hop)) == part {
		return false
	}
	ready := m.train[c.hop].ready
	i := sort.Search(m.flits, func(i int) bool { return ready.at(i, m.flits) >= now })
	return i < m.flits && ready.at(i, m.flits) == now
}
