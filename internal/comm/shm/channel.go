package shm

import (
	"fmt"
	"sync/atomic"
)

// Note is the header of a message. It travels with every slot, and the receiver checks that it equals its own.
type Note struct {
	Type  uint64 // of the elements
	Count uint64
	Bytes uint64
}

// Channel is one end of a FIFO of messages from one rank to another. A message longer than a slot is sent in pieces,
// so that the sender can fill one slot while the receiver empties another.
type Channel struct {
	m     *Member
	ring  *ring
	peer  int
	count uint32 // slots used by this end so far; wraps around
	// describe returns the name of a message in errors.
	describe func(Note) string
}

// ChannelTo returns the sending end of the channel to a peer. use is ForCollectives or ForProgram.
func (m *Member) ChannelTo(use, peer int, describe func(Note) string) *Channel {
	return &Channel{m: m, peer: peer, ring: &m.board.rings[(use*m.Size()+m.rank)*m.Size()+peer], describe: describe}
}

// ChannelFrom returns the receiving end of the channel from a peer. use is ForCollectives or ForProgram.
func (m *Member) ChannelFrom(use, peer int, describe func(Note) string) *Channel {
	return &Channel{m: m, peer: peer, ring: &m.board.rings[(use*m.Size()+peer)*m.Size()+m.rank], describe: describe}
}

// Transfer is the state of one message at one end of a channel.
type Transfer struct {
	c       *Channel
	note    Note
	done    int // bytes
	started bool
}

// Begin starts a message. The caller transfers it by calling Send or Recv of the result until it is complete.
func (c *Channel) Begin(n Note) Transfer { return Transfer{c: c, note: n} }

// Complete reports whether the message is done. An empty message takes one slot.
func (t *Transfer) Complete() bool { return t.started && t.done == int(t.note.Bytes) }

// piece returns the range of bytes that the next slot holds.
func (t *Transfer) piece() (from, to int) {
	return t.done, min(t.done+channelSlotBytes, int(t.note.Bytes))
}

// Send copies pieces of src into the free slots. It does not block, and reports whether any slot was free.
func (t *Transfer) Send(src []byte) (moved bool) {
	r := t.c.ring
	for !t.Complete() && t.c.count-r.emptied.Load() < channelSlots {
		slot := &r.slots[t.c.count%channelSlots]
		from, to := t.piece()
		slot.head = [4]uint64{t.note.Type, t.note.Count, t.note.Bytes}
		copy(slot.data[:], src[from:to])
		t.c.count++
		r.filled.Store(t.c.count)
		if r.filledSleepers.Load() > 0 {
			Unpark(&r.filled)
		}
		t.done, t.started, moved = to, true, true
	}
	return moved
}

// Recv calls take with each piece that has arrived and its offset in the message. It does not block, and reports
// whether any piece had arrived.
func (t *Transfer) Recv(take func(off int, piece []byte)) (moved bool, err error) {
	r := t.c.ring
	for !t.Complete() && int32(r.filled.Load()-t.c.count) > 0 {
		slot := &r.slots[t.c.count%channelSlots]
		if want := [4]uint64{t.note.Type, t.note.Count, t.note.Bytes}; slot.head != want {
			got := Note{slot.head[0], slot.head[1], slot.head[2]}
			return moved, t.c.m.Disagree(fmt.Sprintf("rank %d sends %s to rank %d, which receives %s",
				t.c.peer, t.c.describe(got), t.c.m.rank, t.c.describe(t.note)))
		}
		from, to := t.piece()
		take(from, slot.data[:to-from])
		t.c.count++
		r.emptied.Store(t.c.count)
		if r.emptiedSleepers.Load() > 0 {
			Unpark(&r.emptied)
		}
		t.done, t.started, moved = to, true, true
	}
	return moved, nil
}

// ForSpace waits one step for a free slot.
func (w *Wait) ForSpace(c *Channel) error {
	w.Peer = c.peer
	return w.forWord(&c.ring.emptied, c.count-channelSlots, &c.ring.emptiedSleepers)
}

// ForPiece waits one step for a filled slot.
func (w *Wait) ForPiece(c *Channel) error {
	w.Peer = c.peer
	return w.forWord(&c.ring.filled, c.count, &c.ring.filledSleepers)
}

// Empty reports whether the receiver has taken all slots that were sent.
func (c *Channel) Empty() bool { return c.ring.emptied.Load() == c.count }

// ForEmpty waits one step until the receiver has taken more slots.
func (w *Wait) ForEmpty(c *Channel) error {
	w.Peer = c.peer
	if seen := c.ring.emptied.Load(); seen != c.count {
		return w.forWord(&c.ring.emptied, seen, &c.ring.emptiedSleepers)
	}
	return nil
}

func (w *Wait) forWord(word *atomic.Uint32, seen uint32, sleepers *atomic.Int32) error {
	if word.Load() != seen {
		return nil // something moved in the meantime
	}
	return w.pause(word, seen, sleepers)
}
