package cpu

import (
	"encoding/binary"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// Every collective begins with an agreement of all ranks on what it is. Within a
// host it is a wait of everyone for everyone; between hosts the first rank of each
// speaks for its host.

// words are small numbers that all ranks tell each other.
type words [3]uint64

// begin starts a call of so many epochs on this host.
func (e *engine) begin(l *shm.Label, epochs int) error {
	if len(e.locals) == 1 {
		epochs = 0 // nobody to signal to
	}
	if err := e.member.Begin(l, epochs); err != nil {
		return err
	}
	if e.hosts != nil {
		e.hosts.begun(l)
	}
	return nil
}

// agree makes all ranks agree on a call, and brings the words of this host's
// ranks to read.
func (e *engine) agree(l *shm.Label, mine words, read func(peer int, w words)) error {
	if err := e.tell(l, mine); err != nil {
		return err
	}
	if read != nil {
		for _, peer := range e.locals {
			read(peer, e.told(peer, mine))
		}
	}
	h := e.hosts
	if h == nil {
		return nil
	}
	header := h.header(l, 0)
	for _, link := range h.leaders {
		link.Out.PostHeader(header)
		link.In.ExpectHeader(header)
	}
	if err := h.settle(h.leaders); err != nil {
		return err
	}
	return e.dismiss()
}

// gather gives all ranks' words. Every rank tells every other itself: it is for
// calls that happen rarely.
func (e *engine) gather(l *shm.Label, mine words) ([]words, error) {
	if err := e.tell(l, mine); err != nil {
		return nil, err
	}
	all := make([]words, e.Size())
	for _, peer := range e.locals {
		all[peer] = e.told(peer, mine)
	}
	h := e.hosts
	if h == nil {
		return all, nil
	}
	const bytes = 8 * len(mine)
	var out [bytes]byte
	for i, v := range mine {
		binary.LittleEndian.PutUint64(out[8*i:], v)
	}
	in := make([][bytes]byte, e.Size())
	var links []*tcp.Link
	header := h.header(l, bytes)
	for peer, link := range e.links {
		if link := link.tcp; link != nil {
			link.Out.PostHeader(header)
			link.Out.Post(out[:])
			link.In.ExpectHeader(header)
			link.In.Expect(in[peer][:])
			links = append(links, link)
		}
	}
	if err := h.settle(links); err != nil {
		return nil, err
	}
	for _, link := range links {
		for i := range all[link.Peer] {
			all[link.Peer][i] = binary.LittleEndian.Uint64(in[link.Peer][8*i:])
		}
	}
	return all, e.dismiss()
}

// tell begins an agreement: it publishes words to the ranks of this host and waits
// for theirs. With other hosts it has a second epoch, see dismiss.
func (e *engine) tell(l *shm.Label, w words) error {
	epochs := 1
	if e.hosts != nil {
		epochs = 2
	}
	if err := e.begin(l, epochs); err != nil {
		return err
	}
	if len(e.locals) == 1 {
		return nil
	}
	m, epoch := e.member, e.member.Next()
	for i, v := range w {
		*m.Word(m.Rank(), epoch, i) = v
	}
	m.Signal()
	return e.awaitLocals(epoch)
}

// told reads what tell has brought from a rank of this host.
func (e *engine) told(peer int, mine words) (w words) {
	if peer == e.Rank() {
		return mine
	}
	for i := range w {
		w[i] = *e.member.Word(peer, e.member.Next()-1, i)
	}
	return w
}

// dismiss ends an agreement with other hosts: nobody goes on before all of this host
// have read the words, and its first rank has heard the other hosts.
func (e *engine) dismiss() error {
	if len(e.locals) == 1 {
		return nil
	}
	epoch := e.member.Next()
	e.member.Signal()
	return e.awaitLocals(epoch)
}

// awaitLocals waits for an epoch of all ranks of this host.
func (e *engine) awaitLocals(epoch uint32) error {
	for _, peer := range e.locals {
		if peer == e.Rank() {
			continue
		}
		if err := e.member.Await(peer, epoch); err != nil {
			return err
		}
	}
	return nil
}
