package rendezvous

import (
	"fmt"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/process/launch"
)

// Member is a node's end of the rendezvous. Its methods do not wait, Close
// excepted.
type Member struct {
	link   *link
	addr   string
	host   *host         // of the node that is the host too
	silent time.Duration // that the host may be; 0 is any
	events chan Event
	quit   chan struct{}
	close  sync.Once
}

func newMember(l *link, j join, heartbeat time.Duration) *Member {
	m := &Member{link: l, addr: j.Addr, silent: heartbeat, events: make(chan Event), quit: make(chan struct{})}
	l.Send(message{Join: &j})
	go m.run()
	return m
}

// Events delivers what happens, in order. It must be read until the end of the
// group: Finished, Refused, Lost, or a Stop without Restart.
func (m *Member) Events() <-chan Event { return m.events }

// Addr is the address at which other nodes reach this one.
func (m *Member) Addr() string { return m.addr }

// Ready says that nothing of an earlier round is left here. A port is chosen that
// is free at this moment, in case this node's rank 0 needs one.
func (m *Member) Ready(attempt int) error {
	port, err := launch.FreePortOn(m.addr)
	if err != nil {
		return err
	}
	m.link.Send(message{Ready: &ready{Attempt: attempt, Port: port}})
	return nil
}

// Failed reports a failure on this node; who and where is filled in.
func (m *Member) Failed(attempt int, f Failure) { m.link.Send(message{Failed: &failed{attempt, f}}) }

// Done reports that every rank of this node has ended well.
func (m *Member) Done(attempt int) { m.link.Send(message{Done: &done{attempt}}) }

// Close leaves the rendezvous, which the others take for a failure unless the
// group has ended. The host's own waits until the others have been told.
func (m *Member) Close() {
	m.close.Do(func() {
		close(m.quit)
		m.link.Finish()
		m.link.Abort()
		if m.host != nil {
			<-m.host.ended
		}
	})
}

func (m *Member) run() {
	defer m.link.Finish() // the host need not wait for what this node does next
	heard := make(chan message)
	broken := make(chan error, 1)
	go func() {
		for {
			msg, err := m.link.Receive()
			if err != nil {
				broken <- err
				return
			}
			select {
			case heard <- msg:
			case <-m.quit:
				return
			}
		}
	}()
	tell := func(e Event) {
		select {
		case m.events <- e:
		case <-m.quit:
		}
	}
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	silent := time.Duration(0)
	for {
		select {
		case <-m.quit:
			return
		case err := <-broken:
			tell(Event{Lost: describe(err)})
			return
		case msg := <-heard:
			silent = 0
			switch {
			case msg.Start != nil:
				tell(Event{Start: msg.Start})
			case msg.Stop != nil:
				tell(Event{Stop: msg.Stop})
				if !msg.Stop.Restart {
					return
				}
			case msg.Finished:
				tell(Event{Finished: true})
				return
			case msg.Refused != "":
				tell(Event{Refused: msg.Refused})
				return
			}
		case <-beat.C:
			m.link.Send(message{Beat: true})
			if silent += beatTime; m.silent > 0 && silent > m.silent { // in beats, as the council counts in ticks
				tell(Event{Lost: fmt.Sprintf("nothing was heard from the rendezvous for %v (its host is stopped, or the network is cut)", m.silent)})
				return
			}
		}
	}
}
