package rendezvous

import (
	"net"
	"sync"
	"time"
)

// host runs the council: it connects its decisions to sockets and time.
type host struct {
	listener net.Listener // nil when there is nobody to wait for
	secret   []byte
	council  council
	links    map[int]*link
	heard    chan heard
	ended    chan struct{}
	begun    time.Time

	readers sync.WaitGroup
}

// heard is something that happened to a connection.
type heard struct {
	peer     int
	link     *link // a new connection
	message  message
	err      error // it ended
	rejected string
	from     string // with rejected
}

// maxStrangers bounds the connections that have not yet proved anything.
const maxStrangers = 64

func newHost(listener net.Listener, cfg Config) *host {
	h := &host{
		listener: listener, secret: cfg.Secret, links: map[int]*link{}, heard: make(chan heard), ended: make(chan struct{}), begun: time.Now(),
		council: council{common: cfg.join(""), joinTicks: int(cfg.JoinTimeout / tick), silentTicks: int(cfg.Heartbeat / tick)},
	}
	go h.run()
	if listener != nil {
		go h.accept()
	}
	return h
}

// run is the loop; it ends when the group is over and everybody was told.
func (h *host) run() {
	defer close(h.ended)
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	// A ticker of its own: on a loaded machine ticks get lost, and counted in them
	// the beats would come too late.
	beats := time.NewTicker(beatTime)
	defer beats.Stop()
	for h.council.stage != over {
		select {
		case e := <-h.heard:
			h.send(h.take(e))
		case <-ticks.C:
			h.send(h.council.pass(time.Since(h.begun)))
		case <-beats.C:
			for _, l := range h.links {
				l.Send(message{Beat: true})
			}
		}
	}
	if h.listener != nil {
		h.listener.Close()
	}
	for _, s := range h.council.seats {
		if l := h.links[s.peer]; s.gone && l != nil {
			l.Abort() // nobody is there to hear the end
		}
	}
	var finishing sync.WaitGroup
	for _, l := range h.links {
		finishing.Go(l.Finish)
	}
	finishing.Wait()
	// The readers end when the members close, or lose patience; meanwhile, what
	// they say is of no more interest.
	quiet := make(chan struct{})
	go func() { h.readers.Wait(); close(quiet) }()
	for {
		select {
		case e := <-h.heard:
			if e.link != nil {
				e.link.Abort()
			}
			continue
		case <-quiet:
		}
		for _, l := range h.links {
			l.Abort()
		}
		return
	}
}

func (h *host) take(e heard) []order {
	at := time.Since(h.begun)
	switch {
	case e.link != nil:
		h.links[e.peer] = e.link
		h.readers.Go(func() { h.listen(e.peer, e.link) })
	case e.rejected != "":
		h.council.reject(e.from, e.rejected)
	case e.err != nil:
		orders := h.council.lose(e.peer, describe(e.err), at)
		h.links[e.peer].Abort()
		delete(h.links, e.peer)
		return orders
	default:
		return h.council.hear(e.peer, e.message, at)
	}
	return nil
}

func (h *host) send(orders []order) {
	for _, o := range orders {
		if l := h.links[o.peer]; l != nil {
			l.Send(o.message)
			if o.Refused != "" && h.council.stage != over { // this one alone is not wanted
				go l.Finish()
			}
		}
	}
}

func (h *host) tell(e heard) bool {
	select {
	case h.heard <- e:
		return true
	case <-h.ended:
		return false
	}
}

// accept lets members in; who fails the handshake is only remembered.
func (h *host) accept() {
	strangers := make(chan struct{}, maxStrangers)
	for peer := hostPeer + 1; ; peer++ {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		select {
		case strangers <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		go func() {
			defer func() { <-strangers }()
			l, err := greetMember(conn, h.secret)
			if err != nil {
				conn.Close()
				from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				h.tell(heard{rejected: err.Error(), from: from})
				return
			}
			if !h.tell(heard{peer: peer, link: l}) {
				l.Abort()
			}
		}()
	}
}

func (h *host) listen(peer int, l *link) {
	for {
		m, err := l.Receive()
		if !h.tell(heard{peer: peer, message: m, err: err}) || err != nil {
			return
		}
	}
}
