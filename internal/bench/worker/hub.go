package worker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// Hub is the supervisor's end: it listens for the workers of one launch and
// turns what they say into events.
type Hub struct {
	token  string
	ln     net.Listener
	ranks  int // that agree through this hub; 0 when they do it elsewhere
	events chan Event

	mu    sync.Mutex
	conns map[int]*json.Encoder
	open  []net.Conn
	agree []io.ReadWriteCloser // by rank
	gone  chan struct{}

	departures *departures
}

// Event is something a worker said, or that its connection ended.
type Event struct {
	Rank int
	PID  int // with Joined

	Joined    bool
	Ready     bool
	Env       map[string]*string // with Ready: the swept variables it saw
	Error     string             // with Ready: why it cannot work
	Beat      bool
	Phase     string // with Beat
	Waiting   bool   // with Beat
	Done      *bench.Outcome
	Index     int  // with Done
	Secondary bool // with Done
	Culprit   *int // with Secondary: whose failure it follows, if known
	Closed    bool
}

// Listen opens the socket for one launch. It lives in the abstract name space:
// no file is left behind, however the supervisor ends.
func Listen() (*Hub, error) {
	return newHub("unix", "@kernbench-"+rand.Text(), 0)
}

// ListenTCP opens the socket for one launch of ranks that are not started by
// this process and may be on other hosts, which reach it at the address. They
// also agree through it.
func ListenTCP(addr string, ranks int) (*Hub, error) {
	return newHub("tcp", net.JoinHostPort(addr, "0"), ranks)
}

func newHub(network, address string, ranks int) (*Hub, error) {
	ln, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("listening for workers: %w", err)
	}
	h := &Hub{token: rand.Text(), ln: ln, ranks: ranks, events: make(chan Event, 64), conns: map[int]*json.Encoder{},
		agree: make([]io.ReadWriteCloser, ranks), gone: make(chan struct{}), departures: newDepartures()}
	go h.accept()
	return h, nil
}

// Vars are the variables that make a process a worker of this hub. With
// shared, it finds the agreement's memory on descriptor ShmFD.
func (h *Hub) Vars(shared bool) map[string]string {
	m := map[string]string{addrVar: h.ln.Addr().Network() + ":" + h.ln.Addr().String(), tokenVar: h.token}
	switch {
	case h.ranks > 1:
		m[agreeVar] = agreeHub
	case shared:
		m[agreeVar] = agreeShm
	}
	return m
}

// Events delivers what the workers say, until Close.
func (h *Hub) Events() <-chan Event { return h.events }

// helloLimit bounds how long a worker may take to say who it is.
const helloLimit = 10 * time.Second

func (h *Hub) accept() {
	for {
		conn, err := h.ln.Accept()
		if err != nil {
			return
		}
		go h.serve(conn)
	}
}

func (h *Hub) serve(conn net.Conn) {
	if _, err := (connection.Service{Banner: Banner, Secret: []byte(h.token)}).Greet(conn); err != nil {
		return // not one of ours
	}
	conn.SetReadDeadline(time.Now().Add(helloLimit))
	// The first line is read apart: what follows may be the agreement's, which is
	// no JSON.
	in := bufio.NewReader(io.LimitReader(conn, maxHello))
	line, err := in.ReadSlice('\n')
	var m toSupervisor
	if err != nil || json.Unmarshal(line, &m) != nil || m.Hello == nil {
		conn.Close()
		return
	}
	conn.SetReadDeadline(time.Time{})
	rest, _ := in.Peek(in.Buffered())
	stream := io.MultiReader(bytes.NewReader(bytes.Clone(rest)), conn)
	if m.Hello.Agree {
		h.joinAgreement(m.Hello.Rank, struct {
			io.Reader
			io.WriteCloser
		}{stream, conn})
		return
	}
	h.converse(conn, json.NewDecoder(stream), *m.Hello)
}

// maxHello bounds the first line.
const maxHello = 4 << 10

// joinAgreement adds a rank's second connection; the last one starts the
// agreement, which ends with the connections.
func (h *Hub) joinAgreement(rank int, conn io.ReadWriteCloser) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gone:
		conn.Close()
		return
	default:
	}
	if rank < 0 || rank >= h.ranks || h.agree[rank] != nil {
		conn.Close()
		return
	}
	h.agree[rank] = conn
	if !slices.Contains(h.agree, nil) {
		go syncgroup.NewHub(h.agree).Run(context.Background()) // how it ends, the ranks tell themselves
	}
}

// converse listens to one worker until its connection ends.
func (h *Hub) converse(conn net.Conn, dec *json.Decoder, hi hello) {
	defer conn.Close()
	rank := hi.Rank
	h.mu.Lock()
	_, twice := h.conns[rank]
	if !twice {
		h.conns[rank] = json.NewEncoder(conn)
		h.open = append(h.open, conn)
		h.departures.expect(conn, rank)
	}
	h.mu.Unlock()
	if twice {
		return
	}
	h.emit(Event{Rank: rank, PID: hi.PID, Joined: true})
	for {
		var m toSupervisor
		if err := dec.Decode(&m); err != nil {
			h.departures.firstGone() // noted before this end is closed too, and with it forgotten
			h.emit(Event{Rank: rank, Closed: true})
			return
		}
		who := rank + m.Rank
		switch {
		case m.Ready != nil:
			h.emit(Event{Rank: who, Ready: true, Env: m.Ready.Env, Error: m.Ready.Error})
		case m.Beat != nil:
			h.emit(Event{Rank: who, Beat: true, Phase: m.Beat.Phase, Waiting: m.Beat.Waiting})
		case m.Done != nil:
			h.emit(Event{Rank: who, Done: &m.Done.Outcome, Index: m.Done.Index, Secondary: m.Done.Secondary, Culprit: m.Done.Culprit})
		}
	}
}

func (h *Hub) emit(e Event) {
	select {
	case h.events <- e:
	case <-h.gone:
	}
}

// FirstGone is the rank whose connection was the first to end, or -1. Events
// may tell of several ends in another order than they happened.
func (h *Hub) FirstGone() int { return h.departures.firstGone() }

// Send gives an order to one rank.
func (h *Hub) send(rank int, m toWorker) error {
	h.mu.Lock()
	enc := h.conns[rank]
	h.mu.Unlock()
	if enc == nil {
		return fmt.Errorf("rank %d is not connected", rank)
	}
	return enc.Encode(m)
}

// Job tells a rank what the launch is about.
func (h *Hub) Job(rank int, j Job) error { return h.send(rank, toWorker{Job: &j}) }

// Task gives a rank its next point.
func (h *Hub) Task(rank int, t Task) error { return h.send(rank, toWorker{Task: &t}) }

// Abort wakes a rank that waits for others that will not come.
func (h *Hub) Abort(rank int, reason string) error { return h.send(rank, toWorker{Abort: &reason}) }

// Quit asks a rank to end.
func (h *Hub) Quit(rank int) error { return h.send(rank, toWorker{Quit: true}) }

// Close ends the conversation; workers still connected end themselves.
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
	for _, c := range h.open {
		c.Close()
	}
	for _, c := range h.agree {
		if c != nil {
			c.Close()
		}
	}
	return err
}
