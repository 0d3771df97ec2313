package mpi

import (
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
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
	m.sweep()
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
	if err := m.lib.Count(m.slot).Run(); err != nil {
		return 0, 0, nil, false, err
	}
	n := m.slot.Bytes()
	body = make([]byte, max(1, n))
	err = m.lib.Recv(address(body), n, m.lib.Type(dtype.U8), from, tag, m.comm, m.slot).Run()
	return from, tag, body[:n], err == nil, err
}

// sweep forgets what MPI has taken.
func (m *mailbox) sweep() {
	m.sent = slices.DeleteFunc(m.sent, func(l *letter) bool { return m.lib.Test(l.slot).Run() == nil && l.slot.Done() })
}

// flush waits a while for MPI to take what was sent.
func (m *mailbox) flush(limit time.Duration) {
	var p pace
	for m.sweep(); len(m.sent) > 0 && p.pause() < limit; m.sweep() {
	}
	if len(m.sent) > 0 {
		abandon(m.sent)
	}
}
