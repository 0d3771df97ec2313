package mpi

import (
	"time"

	"github.com/kernbench/kernbench/internal/dtype"
	"github.com/kernbench/kernbench/internal/mpi"
)

// mailbox sends and receives small messages of the backend itself, on a
// communicator or a tag where no others are.
type mailbox struct {
	lib   *mpi.Library
	comm  comm
	slot  *mpi.Slot
	probe *mpi.Call
	sent  []*letter // that MPI may not have taken yet
}

// letter is a message on its way.
type letter struct {
	body []byte
	slot *mpi.Slot
}

const anyTag = -1

// newMailbox receives what has a tag, or any.
func newMailbox(lib *mpi.Library, c comm, tag int) *mailbox {
	m := &mailbox{lib: lib, comm: c, slot: mpi.NewSlot()}
	m.probe = lib.IprobeAny(tag, c, m.slot)
	return m
}

func (m *mailbox) send(to, tag int, body []byte) error {
	l := &letter{body, mpi.NewSlot()}
	if err := m.lib.Isend(address(body), len(body), m.lib.Type(dtype.U8), to, tag, m.comm, l.slot).Run(); err != nil {
		return err
	}
	m.sent = append(m.sent, l)
	return nil
}

// receive gives the next message that is there, if any.
func (m *mailbox) receive() (from, tag int, body []byte, ok bool, err error) {
	if err := m.probe.Run(); err != nil || !m.slot.Done() {
		return 0, 0, nil, false, err
	}
	from, tag = m.lib.Source(m.slot), m.lib.Tag(m.slot)
	n, err := m.lib.Bytes(m.slot)
	if err != nil {
		return 0, 0, nil, false, err
	}
	body = make([]byte, max(1, n))
	err = m.lib.Recv(address(body), n, m.lib.Type(dtype.U8), from, tag, m.comm, m.slot).Run()
	return from, tag, body[:n], err == nil, err
}

// flush waits a while for what was sent, and keeps the rest forever.
func (m *mailbox) flush(limit time.Duration) {
	var p pace
	for len(m.sent) > 0 && p.pause() < limit {
		l := m.sent[0]
		if err := m.lib.Test(l.slot).Run(); err == nil && !l.slot.Done() {
			continue
		}
		m.sent = m.sent[1:]
	}
	for _, l := range m.sent {
		abandon(l)
	}
	m.sent = nil
}
