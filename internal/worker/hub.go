package worker

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/decl"
)

// Hub is the supervisor's end: it listens for the workers of one launch and
// turns what they say into events.
type Hub struct {
	token  string
	ln     net.Listener
	events chan Event

	mu    sync.Mutex
	conns map[int]*json.Encoder
	open  []net.Conn
	gone  chan struct{}
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
	Done      *decl.Outcome
	Index     int  // with Done
	Secondary bool // with Done
	Closed    bool
}

// Listen opens the socket for one launch. It lives in the abstract name space:
// no file is left behind, however the supervisor ends.
func Listen() (*Hub, error) {
	name := "@kernbench-" + rand.Text()
	ln, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("listening for workers: %w", err)
	}
	h := &Hub{token: rand.Text(), ln: ln, events: make(chan Event, 64), conns: map[int]*json.Encoder{}, gone: make(chan struct{})}
	go h.accept()
	return h, nil
}

// Vars are the variables that make a process a worker of this hub. With
// shared, it finds the agreement's memory on descriptor ShmFD.
func (h *Hub) Vars(shared bool) map[string]string {
	m := map[string]string{addrVar: "unix:" + h.ln.Addr().String(), tokenVar: h.token}
	if shared {
		m[agreeVar] = "shm:" + strconv.Itoa(ShmFD)
	}
	return m
}

// Events delivers what the workers say, until Close.
func (h *Hub) Events() <-chan Event { return h.events }

// helloLimit bounds how long a connection may stay silent before its token.
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
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(helloLimit))
	dec := json.NewDecoder(conn)
	var m toSupervisor
	if err := dec.Decode(&m); err != nil || m.Hello == nil ||
		subtle.ConstantTimeCompare([]byte(m.Hello.Token), []byte(h.token)) != 1 {
		return // not one of ours
	}
	conn.SetReadDeadline(time.Time{})
	rank := m.Hello.Rank
	h.mu.Lock()
	_, twice := h.conns[rank]
	if !twice {
		h.conns[rank] = json.NewEncoder(conn)
		h.open = append(h.open, conn)
	}
	h.mu.Unlock()
	if twice {
		return
	}
	h.emit(Event{Rank: rank, PID: m.Hello.PID, Joined: true})
	for {
		var m toSupervisor
		if err := dec.Decode(&m); err != nil {
			h.emit(Event{Rank: rank, Closed: true})
			return
		}
		switch {
		case m.Ready != nil:
			h.emit(Event{Rank: rank, Ready: true, Env: m.Ready.Env, Error: m.Ready.Error})
		case m.Beat != nil:
			h.emit(Event{Rank: rank, Beat: true, Phase: m.Beat.Phase, Waiting: m.Beat.Waiting})
		case m.Done != nil:
			h.emit(Event{Rank: rank, Done: &m.Done.Outcome, Index: m.Done.Index, Secondary: m.Done.Secondary})
		}
	}
}

func (h *Hub) emit(e Event) {
	select {
	case h.events <- e:
	case <-h.gone:
	}
}

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
	err := h.ln.Close()
	for _, c := range h.open {
		c.Close()
	}
	return err
}
