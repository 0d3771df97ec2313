package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// Hub is the supervisor's end: it listens for the workers of one launch and
// turns what they say into events.
type Hub struct {
	token  string
	ln     net.Listener
	ranks  int // whose sync group goes through this hub; 0 when it does not
	events chan Event
	gone   chan struct{}

	mu      sync.Mutex
	conns   map[int]*connection.Conn
	sync    []*connection.Conn // by rank
	perTask int                // results that a worker sends for one task
	busy    map[int]int        // by worker, how many of them are to come

	departures *departures
}

// Listen opens the socket for one launch of processes on this host.
func Listen() (*Hub, error) {
	ln, err := connection.ListenLocal("kernbench-" + rand.Text())
	return newHub(ln, 0, err)
}

// ListenTCP opens the socket for one launch of ranks that are not started by
// this process and may be on other hosts, which reach it at the address. Their sync
// group goes through it too.
func ListenTCP(addr string, ports connection.PortRange, ranks int) (*Hub, error) {
	ln, err := ports.Listen(addr)
	return newHub(ln, ranks, err)
}

func newHub(ln net.Listener, ranks int, err error) (*Hub, error) {
	if err != nil {
		return nil, fmt.Errorf("listening for workers: %w", err)
	}
	h := &Hub{token: rand.Text(), ln: ln, ranks: ranks, events: make(chan Event, 1024), gone: make(chan struct{}),
		conns: map[int]*connection.Conn{}, sync: make([]*connection.Conn, ranks), perTask: 1, busy: map[int]int{},
		departures: newDepartures()}
	go Service(h.token).Serve(ln, h.admit, func(string, error) {}) // who is not one of ours is of no interest
	return h, nil
}

// Vars are the variables that make a process a worker of this hub. With
// shared, it finds the sync group's memory on descriptor ShmFD.
func (h *Hub) Vars(shared bool) map[string]string {
	m := map[string]string{addrVar: h.ln.Addr().Network() + ":" + h.ln.Addr().String(), tokenVar: h.token}
	switch {
	case h.ranks > 1:
		m[syncVar] = syncHub
	case shared:
		m[syncVar] = syncShm
	}
	return m
}

// Events delivers what the workers say, until Close.
func (h *Hub) Events() <-chan Event { return h.events }

// admit takes in a worker, or a rank's second connection for the sync group, and
// listens to it until it ends.
func (h *Hub) admit(c *connection.Conn) {
	var m message
	if err := c.ReceiveFirst(&m); err != nil || m.Hello == nil || !h.add(c, *m.Hello) {
		c.Close()
		return
	}
	if !m.Hello.Sync {
		h.emit(Event{Rank: m.Hello.Rank, Joined: true})
		h.listen(c, m.Hello.Rank)
	}
}

// add gives a connection its place, unless it has one already. The last of the sync
// group's starts it; it ends with its connections.
func (h *Hub) add(c *connection.Conn, hi hello) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gone:
		return false
	default:
	}
	if !hi.Sync {
		if h.conns[hi.Rank] != nil {
			return false
		}
		h.conns[hi.Rank] = c
		h.departures.expect(c.Conn, hi.Rank)
		return true
	}
	if hi.Rank < 0 || hi.Rank >= h.ranks || h.sync[hi.Rank] != nil {
		return false
	}
	h.sync[hi.Rank] = c
	if !slices.Contains(h.sync, nil) {
		go syncgroup.ServeHub(context.Background(), h.sync) // how it ends, the ranks tell themselves
	}
	return true
}

func (h *Hub) listen(c *connection.Conn, rank int) {
	defer c.Close()
	for {
		var m message
		if err := c.Receive(&m); err != nil {
			h.departures.firstGone() // noted before this end is closed too, and with it forgotten
			h.settle(rank, math.MaxInt)
			h.emit(Event{Rank: rank, Closed: true})
			return
		}
		if m.Event == nil {
			continue
		}
		if m.Event.Done != nil {
			h.settle(rank, 1)
		}
		m.Event.Rank += rank
		h.emit(*m.Event)
	}
}

func (h *Hub) emit(e Event) {
	select {
	case h.events <- e:
	case <-h.gone:
	}
}

// FirstDisconnected is the rank whose connection was the first to end, or -1. Events
// may tell of several ends in another order than they happened.
func (h *Hub) FirstDisconnected() int { return h.departures.firstGone() }

func (h *Hub) send(rank int, m message) error {
	h.mu.Lock()
	c := h.conns[rank]
	h.mu.Unlock()
	if c == nil {
		return fmt.Errorf("rank %d is not connected", rank)
	}
	return c.Send(m)
}

// Job tells a rank what the launch is about.
func (h *Hub) Job(rank int, j Job) error {
	if j.InProcess && !j.Virtual {
		h.mu.Lock()
		h.perTask = j.Size
		h.mu.Unlock()
	}
	return h.send(rank, message{Job: &j})
}

// Task gives a rank its next point.
func (h *Hub) Task(rank int, t Task) error {
	h.mu.Lock()
	h.busy[rank] = h.perTask
	h.mu.Unlock()
	return h.send(rank, message{Task: &t})
}

// settle notes results of a worker, or that there will be none.
func (h *Hub) settle(rank, results int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy[rank] = max(0, h.busy[rank]-results)
}

// Abort cancels the context of a rank's body, and wakes it if it waits for others that
// will not come.
func (h *Hub) Abort(rank int, reason string) error { return h.send(rank, message{Abort: &reason}) }

// Cancel aborts every rank that is at a task and lets the bodies end by themselves,
// within the limit. It reports whether all have ended.
func (h *Hub) Cancel(reason string, limit time.Duration) bool {
	for _, rank := range h.atWork() {
		h.Abort(rank, reason) // one that cannot be told is gone
	}
	for end := time.Now().Add(limit); len(h.atWork()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// atWork is the ranks of the workers that have not answered their task.
func (h *Hub) atWork() (ranks []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for rank, left := range h.busy {
		if left > 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Quit asks a rank to end.
func (h *Hub) Quit(rank int) error { return h.send(rank, message{Quit: true}) }

// Close ends the connections; workers still connected end themselves.
func (h *Hub) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gone:
		return nil
	default:
		close(h.gone)
	}
	h.departures.close()
	err := h.ln.Close()
	for _, c := range h.conns {
		c.Close()
	}
	for _, c := range h.sync {
		if c != nil {
			c.Close()
		}
	}
	return err
}
