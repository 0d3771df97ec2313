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
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// Hub is the supervisor's end of the connections to the workers of one launch. It accepts the workers
// and turns their messages into events.
type Hub struct {
	token  string
	ln     net.Listener
	ranks  int // size of the sync group that this hub serves; 0 if it serves none
	events chan Event
	gone   chan struct{} // closed by Close

	mu      sync.Mutex               // guards the fields below
	conns   map[int]*connection.Conn // connections of the workers, by first rank
	sync    []*connection.Conn       // connections of the sync group, by rank
	perTask int                      // number of results that a worker sends for one task
	busy    map[int]int              // number of results still expected, by worker
}

// Listen returns a hub for one launch of processes on this host.
func Listen() (*Hub, error) {
	ln, err := connection.ListenLocal("kernbench-" + rand.Text())
	return newHub(ln, 0, err)
}

// ListenTCP returns a hub for one launch of ranks that another launcher starts, possibly on other
// hosts. They reach the hub at addr. The hub also serves their sync group.
func ListenTCP(addr string, ports connection.PortRange, ranks int) (*Hub, error) {
	ln, err := ports.Listen(addr)
	return newHub(ln, ranks, err)
}

func newHub(ln net.Listener, ranks int, err error) (*Hub, error) {
	if err != nil {
		return nil, fmt.Errorf("listening for workers: %w", err)
	}
	h := &Hub{token: rand.Text(), ln: ln, ranks: ranks, events: make(chan Event, 1024), gone: make(chan struct{}),
		conns: map[int]*connection.Conn{}, sync: make([]*connection.Conn, ranks), perTask: 1, busy: map[int]int{}}
	go Service(h.token).Serve(ln, h.admit, func(string, error) {}) // ignore connections without the token
	return h, nil
}

// Vars returns the environment variables that make a process a worker of this hub. shared means that the
// process has the sync group's shared memory on descriptor ShmFD.
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

// Events delivers the workers' events until Close.
func (h *Hub) Events() <-chan Event { return h.events }

// admit registers a new connection: a worker's, or a rank's second connection for the sync group. It
// receives from a worker until its connection ends.
func (h *Hub) admit(c *connection.Conn) {
	var m message
	if err := c.ReceiveFirst(&m); err != nil || m.Hello == nil || !h.add(c, *m.Hello) {
		c.Close()
		return
	}
	if !m.Hello.Sync {
		joined := Event{Rank: m.Hello.Rank, Joined: true}
		if here := proc.Space(); here != "" && here == m.Hello.Host {
			joined.PID = m.Hello.PID
		} else {
			joined.Host = m.Hello.Name
		}
		h.emit(joined)
		h.listen(c, m.Hello.Rank)
	}
}

// add registers a connection and reports whether its rank was still free. The sync group starts with the
// connection of its last rank, and ends when its connections end.
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
		return true
	}
	if hi.Rank < 0 || hi.Rank >= h.ranks || h.sync[hi.Rank] != nil {
		return false
	}
	h.sync[hi.Rank] = c
	if !slices.Contains(h.sync, nil) {
		go syncgroup.ServeHub(context.Background(), h.sync) // the ranks report its errors
	}
	return true
}

// listen turns a worker's messages into events until its connection ends.
func (h *Hub) listen(c *connection.Conn, rank int) {
	defer c.Close()
	for {
		var m message
		if err := c.Receive(&m); err != nil {
			h.countResults(rank, math.MaxInt)
			h.emit(Event{Rank: rank, Closed: true})
			return
		}
		if m.Event == nil {
			continue
		}
		if m.Event.Done != nil {
			h.countResults(rank, 1)
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

// Ping sends a rank an empty message, so that TCP shows whether its host still acknowledges packets. The
// supervisor sends nothing else while a point runs.
func (h *Hub) Ping(rank int) {
	_ = h.send(rank, message{}) // listen reports a broken connection
}

// Observe reads what this host knows about a worker. pid is its process on this host, or 0 if it runs on another host.
func (h *Hub) Observe(rank, pid int) connection.Evidence {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.conns[rank]
	if c == nil {
		c = new(connection.Conn)
	}
	return c.Observe(pid)
}

func (h *Hub) send(rank int, m message) error {
	h.mu.Lock()
	c := h.conns[rank]
	h.mu.Unlock()
	if c == nil {
		return fmt.Errorf("rank %d is not connected", rank)
	}
	return c.Send(m)
}

// Job sends a worker the description of the launch.
func (h *Hub) Job(rank int, j Job) error {
	if j.InProcess && !j.Virtual {
		h.mu.Lock()
		h.perTask = j.Size
		h.mu.Unlock()
	}
	return h.send(rank, message{Job: &j})
}

// Task sends a worker its next point.
func (h *Hub) Task(rank int, t Task) error {
	h.mu.Lock()
	h.busy[rank] = h.perTask
	h.mu.Unlock()
	return h.send(rank, message{Task: &t})
}

// countResults subtracts results that have arrived, or can no longer arrive, from the number that is
// still expected of a worker.
func (h *Hub) countResults(rank, results int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy[rank] = max(0, h.busy[rank]-results)
}

// Abort cancels the context of a worker's bodies, and wakes ranks that wait in the sync group.
func (h *Hub) Abort(rank int, reason string) error { return h.send(rank, message{Abort: &reason}) }

// Cancel aborts every worker that runs a task, waits up to the limit for the bodies to return, and
// reports whether all have returned.
func (h *Hub) Cancel(reason string, limit time.Duration) bool {
	for _, rank := range h.busyRanks() {
		h.Abort(rank, reason) // an error means that the worker is gone
	}
	for end := time.Now().Add(limit); len(h.busyRanks()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// busyRanks returns the workers whose results are still expected.
func (h *Hub) busyRanks() (ranks []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for rank, left := range h.busy {
		if left > 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Quit asks a rank to exit.
func (h *Hub) Quit(rank int) error { return h.send(rank, message{Quit: true}) }

// Close closes the connections. Workers that are still connected exit.
func (h *Hub) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gone:
		return nil
	default:
		close(h.gone)
	}
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
