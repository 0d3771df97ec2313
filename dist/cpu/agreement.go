package cpu

import (
	"encoding/binary"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// Every collective begins with an agreement of all ranks on the call. Ranks that make different calls then get an error
// and never each other's data. Within a host, every rank waits for every other rank. Between hosts, the first rank of
// each host represents the host, which keeps the number of messages small.

// words are small numbers that the ranks exchange in an agreement, such as the offsets of their
// buffers.
type words [3]uint64

// begin starts a call of the given number of epochs on this host.
func (e *engine) begin(l *shm.Label, epochs int) error {
	if len(e.locals) == 1 {
		epochs = 0 // there is no other rank to signal to
	}
	if err := e.member.Begin(l, epochs); err != nil {
		return err
	}
	if e.hosts != nil {
		e.hosts.countCall(l)
	}
	return nil
}

// agree makes all ranks agree on a call. It calls read with the words of each rank of this host.
func (e *engine) agree(l *shm.Label, mine words, read func(peer int, w words)) error {
	if err := e.postWords(l, mine); err != nil {
		return err
	}
	if read != nil {
		for _, peer := range e.locals {
			read(peer, e.wordsOf(peer, mine))
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
	if err := h.flush(h.leaders); err != nil {
		return err
	}
	return e.endAgreement()
}

// gather returns the words of all ranks. Every rank sends its own to every other, which is quadratic
// but acceptable for rare calls such as Split.
func (e *engine) gather(l *shm.Label, mine words) ([]words, error) {
	if err := e.postWords(l, mine); err != nil {
		return nil, err
	}
	all := make([]words, e.Size())
	for _, peer := range e.locals {
		all[peer] = e.wordsOf(peer, mine)
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
	if err := h.flush(links); err != nil {
		return nil, err
	}
	for _, link := range links {
		for i := range all[link.Peer] {
			all[link.Peer][i] = binary.LittleEndian.Uint64(in[link.Peer][8*i:])
		}
	}
	return all, e.endAgreement()
}

// postWords begins an agreement. It publishes words to the ranks of this host and waits for their words. In a group
// over several hosts, the agreement has a second epoch, which endAgreement completes.
func (e *engine) postWords(l *shm.Label, w words) error {
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

// wordsOf returns the words that a rank of this host has published with postWords.
func (e *engine) wordsOf(peer int, mine words) (w words) {
	if peer == e.Rank() {
		return mine
	}
	for i := range w {
		w[i] = *e.member.Word(peer, e.member.Next()-1, i)
	}
	return w
}

// endAgreement completes an agreement with other hosts. It is a barrier of this host: no rank continues before all have
// read the words and the first rank has received the calls of the other hosts. Only then do the other ranks of this
// host know that all hosts make the same call.
func (e *engine) endAgreement() error {
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
