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
	sent  []*mpi.Slot // of messages that MPI may not have taken yet
}

const anyTag = -1

// newMailbox receives what has a tag, or any.
func newMailbox(lib *mpi.Library, c comm, tag int) *mailbox {
	m := &mailbox{lib: lib, comm: c, slot: new(mpi.Slot)}
	m.probe = lib.IprobeAny(tag, c, m.slot)
	return m
}

func (m *mailbox) send(to, tag int, body []byte) error {
	m.sweep()
	s := new(mpi.Slot)
	if err := m.lib.Isend(mpi.Memory(body), len(body), m.lib.Type(dtype.U8), to, tag, m.comm, s).Run(); err != nil {
		return err
	}
	m.sent = append(m.sent, s)
	return nil
}

// receive gives the next message that is there, if any.
func (m *mailbox) receive() (from int, body []byte, ok bool, err error) {
	if err := m.probe.Run(); err != nil || !m.slot.Done() {
		return 0, nil, false, err
	}
	from, tag := m.lib.Source(m.slot), m.lib.Tag(m.slot)
	if err := m.lib.Count(m.slot).Run(); err != nil {
		return 0, nil, false, err
	}
	n := m.slot.Bytes()
	body = make([]byte, max(1, n))
	err = m.lib.Recv(mpi.Memory(body), n, m.lib.Type(dtype.U8), from, tag, m.comm, m.slot).Run()
	return from, body[:n], err == nil, err
}

// sweep forgets what MPI has taken.
func (m *mailbox) sweep() {
	m.sent = slices.DeleteFunc(m.sent, func(s *mpi.Slot) bool { return m.lib.Test(s).Run() == nil && s.Done() })
}

// flush waits a while for MPI to take what was sent.
func (m *mailbox) flush(limit time.Duration) {
	var p backoff
	for m.sweep(); len(m.sent) > 0 && p.pause() < limit; m.sweep() {
	}
	if len(m.sent) > 0 {
		abandon(m.sent)
	}
}
