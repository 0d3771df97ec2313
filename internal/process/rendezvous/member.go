package rendezvous

import (
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// Member is a node's end of the rendezvous. Its methods do not wait, Close
// excepted.
type Member struct {
	link   *connection.Link[message]
	addr   string                    // at which other nodes reach this one
	ports  connection.PortRange      // to choose the ranks' from
	host   *connection.Host[message] // of the node that is the host too
	events chan Event
	quit   chan struct{}
	close  sync.Once
}

// newMember joins the group. The host may be silent for no longer than the limit; 0 is
// no limit.
func newMember(l *connection.Link[message], j join, ports connection.PortRange, silence time.Duration) *Member {
	m := &Member{link: l, addr: j.Addr, ports: ports, events: make(chan Event), quit: make(chan struct{})}
	l.Send(message{Join: &j})
	go m.run(silence)
	return m
}

// Events delivers what happens, in order. It must be read until the end of the
// group: Finished, Refused, Lost, or a Stop without Restart.
func (m *Member) Events() <-chan Event { return m.events }

// Ready says that nothing of an earlier round is left here. A port is chosen that
// is free at this moment, in case this node's rank 0 needs one.
func (m *Member) Ready(attempt int) error {
	port, err := m.ports.FreePort(m.addr)
	if err != nil {
		return err
	}
	m.link.Send(message{Attempt: attempt, Ready: &ready{port}})
	return nil
}

// Failed reports a failure on this node; who and where is filled in.
func (m *Member) Failed(attempt int, f Failure) { m.link.Send(message{Attempt: attempt, Failed: &f}) }

// Done reports that every rank of this node has ended well.
func (m *Member) Done(attempt int) { m.link.Send(message{Attempt: attempt, Done: true}) }

// Close leaves the rendezvous, which the others take for a failure unless the
// group has ended. The host's own waits until the others have been told.
func (m *Member) Close() {
	m.close.Do(func() {
		close(m.quit)
		m.link.Finish()
		m.link.Abort()
		if m.host != nil {
			<-m.host.Ended()
		}
	})
}

func (m *Member) run(silence time.Duration) {
	defer m.link.Finish() // the host need not wait for what this node does next
	tell := func(e Event) {
		select {
		case m.events <- e:
		case <-m.quit:
		}
	}
	err := m.link.Run(silence, func(msg message) (more bool) {
		if msg.Event == (Event{}) { // a heart-beat
			return true
		}
		tell(msg.Event)
		return msg.Start != nil || msg.Stop != nil && msg.Stop.Restart
	})
	if err != nil {
		tell(Event{Lost: connection.DescribeLoss(err)})
	}
}
