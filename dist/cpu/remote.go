package cpu

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// place is what a rank tells the others when it joins: who it is and where.
type place struct {
	Host    string // under which it counts
	Machine string // that it really is
	Name    string // of the host in messages
	PID     int
	CPUs    []int
	Threads int
	Nonce   []byte
	Proof   []byte // that it knows the secret
}

// door is where a rank's connections come in.
type door struct {
	Addresses []netip.Addr
	Port      int
	Fault     string // instead: why there is none
}

// silence is how long a host may be unreachable before its ranks count as lost.
const silence = 5 * time.Second

// joinHosts meets ranks that may be on several hosts. Every rank does the same
// exchanges in the same order, also one that has failed meanwhile: it says so
// in the next one, and all give up together.
func (b backend) joinHosts(ctx context.Context, c dist.Config) (dist.Engine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("the time to join, %v, is over", c.Timeout))
	defer cancel()
	places, key, err := meetHosts(ctx, c)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(places, func(p place) bool { return p.Host != places[0].Host }) {
		c.Exchange = nil // one host: as if nobody had asked
		return b.Join(ctx, c)
	}
	f := &family{key: key, places: places, timeout: c.Timeout, silence: min(silence, c.Timeout)}
	fault := f.open(ctx, c)
	if fault != nil {
		return nil, fault
	}
	e, fault := b.enter(ctx, c, f)
	// Nobody returns before all are connected with all.
	said := ""
	if fault != nil {
		said = fault.Error()
	}
	faults, err := tcp.Swap(ctx, c.Exchange, c.Size, said)
	if err == nil {
		for r, text := range faults {
			if text != "" && r != c.Rank {
				err = errors.Join(err, fmt.Errorf("rank %d (host %s): %s", r, places[r].Name, text))
			}
		}
	}
	if fault != nil || err != nil {
		if e != nil {
			e.Close()
		}
		f.lobby.Close()
		return nil, errors.Join(fault, err)
	}
	return e, nil
}

// meetHosts is the first exchange: who is where, and whether all know the
// secret. The key is made from it and from what all ranks gave.
func meetHosts(ctx context.Context, c dist.Config) ([]place, []byte, error) {
	machine, err := tcp.Machine()
	if err != nil {
		return nil, nil, err
	}
	me := place{Host: c.Host, Machine: machine, Name: c.Host, PID: os.Getpid(), CPUs: affinity(), Threads: runtime.GOMAXPROCS(0), Nonce: make([]byte, 16)}
	if c.Host == "" {
		me.Host = machine
		me.Name, _ = os.Hostname()
	}
	rand.Read(me.Nonce)
	me.Proof = proof(c, c.Rank, me.Nonce)
	places, err := tcp.Swap(ctx, c.Exchange, c.Size, me)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the other ranks: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(c.Secret))
	for r, p := range places {
		if !hmac.Equal(p.Proof, proof(c, r, p.Nonce)) {
			return nil, nil, fmt.Errorf("rank %d (pid %d, host %s) joins with another secret, or another group, than rank %d", r, p.PID, p.Name, c.Rank)
		}
		mac.Write(p.Nonce)
	}
	mac.Write([]byte("key of " + c.ID))
	return places, mac.Sum(nil), nil
}

// proof shows that a rank knows the secret, without showing the secret.
func proof(c dist.Config, rank int, nonce []byte) []byte {
	mac := hmac.New(sha256.New, []byte(c.Secret))
	fmt.Fprintf(mac, "rank %d of %d in %s ", rank, c.Size, c.ID)
	mac.Write(nonce)
	return mac.Sum(nil)
}

// family is what a group over several hosts has in common with those split off
// from it. Ranks here are those of the first group.
type family struct {
	key     []byte
	places  []place
	doors   []door
	lobby   *tcp.Lobby
	timeout time.Duration
	silence time.Duration
}

// open opens this rank's lobby and tells the others where it is. Where all
// ranks are on one machine it is closed to every other.
func (f *family) open(ctx context.Context, c dist.Config) error {
	var mine door
	bind, err := netip.Addr{}, error(nil)
	switch alone := !slices.ContainsFunc(f.places, func(p place) bool { return p.Machine != f.places[0].Machine }); {
	case alone && c.Interface == "":
		bind = netip.MustParseAddr("127.0.0.1")
		mine.Addresses = []netip.Addr{bind}
	default:
		mine.Addresses, err = tcp.Addresses(c.Interface)
		if err == nil && c.Interface != "" && len(mine.Addresses) == 1 {
			bind = mine.Addresses[0]
		}
	}
	if err == nil {
		f.lobby, err = tcp.OpenLobby(bind, f.key)
	}
	if err != nil {
		mine.Fault = err.Error()
	} else {
		mine.Port = f.lobby.Port()
	}
	f.doors, err = tcp.Swap(ctx, c.Exchange, c.Size, mine)
	for r, d := range f.doors {
		if d.Fault != "" {
			err = errors.Join(err, fmt.Errorf("rank %d (host %s): %s", r, f.places[r].Name, d.Fault))
		}
	}
	if err != nil && f.lobby != nil {
		f.lobby.Close()
	}
	return err
}

// enter makes the first group of a family: this host's shared memory, and
// connections to the ranks elsewhere.
func (b backend) enter(ctx context.Context, c dist.Config, f *family) (*spanning, error) {
	world := make([]int, c.Size)
	for r := range world {
		world[r] = r
	}
	s := newSpanning(f, c.Rank, world, c.ID)
	region, err := regionBytes(len(s.locals))
	if err != nil {
		return nil, err
	}
	board := shm.BoardBytes(c.Size) // with room for all ranks, so that they keep their numbers
	meeting, err := shm.Meet(ctx, shm.Party{
		ID: c.ID + " on " + s.places[s.rank].Host, Secret: c.Secret, Rank: s.place, Size: len(s.locals), Timeout: c.Timeout,
		CPUs: affinity(), Threads: runtime.GOMAXPROCS(0),
	}, func() (*os.File, error) { return shm.NewFile(board + len(s.locals)*region) })
	if err != nil {
		return nil, fmt.Errorf("the ranks %v of this host: %w", s.locals, err)
	}
	defer meeting.File.Close()
	segment, err := shm.Map(meeting.File)
	if err == nil {
		if err = segment.Claim(c.Rank); err != nil {
			segment.Close()
		}
	}
	if err != nil {
		meeting.Close()
		return nil, err
	}
	pids := make([]int, c.Size)
	for r, p := range f.places {
		pids[r] = p.PID
	}
	s.engine = newEngine(segment, shm.NewHeap(segment, board+s.place*region, region), shm.Membership{
		Segment: segment, Board: shm.BoardAt(segment, 0, c.Size), Rank: c.Rank, PIDs: pids, World: world, Crowded: s.crowded, Timeout: c.Timeout,
	})
	s.engine.meeting = meeting
	if err := s.connect(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// connect opens the connections to all other ranks: control with everyone, the
// other two with ranks of other hosts. Of two ranks the later one dials.
func (s *spanning) connect(ctx context.Context) error {
	type result struct {
		peer int
		use  tcp.Use
		conn *tcp.Conn
		err  error
	}
	results := make(chan result)
	pending := 0
	for peer := range s.places {
		if peer == s.rank {
			continue
		}
		uses := []tcp.Use{tcp.ForControl}
		if !s.local(peer) {
			uses = []tcp.Use{tcp.ForControl, tcp.ForCollectives, tcp.ForProgram}
		}
		for _, use := range uses {
			pending++
			go func() {
				r := result{peer: peer, use: use}
				if peer > s.rank {
					r.conn, r.err = s.lobby.Take(ctx, tcp.Ticket{Group: s.tag, Rank: uint32(peer), Use: use})
				} else {
					d := s.doors[s.world[peer]]
					r.conn, r.err = tcp.Dial(ctx, d.Addresses, d.Port, s.key, tcp.Ticket{Group: s.tag, Rank: uint32(s.rank), Use: use})
				}
				results <- r
			}()
		}
	}
	var faults []string
	for range pending {
		r := <-results
		err := r.err
		if err == nil {
			err = s.attach(r.peer, r.use, r.conn)
		}
		if err != nil && len(faults) < 3 { // the others say the same
			faults = append(faults, fmt.Sprintf("rank %d cannot connect with %s: %v", s.rank, s.named(r.peer), err))
		}
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	for _, ranks := range s.hosts {
		if link := s.links[ranks[0]]; s.place == 0 && link != nil {
			s.leaders = append(s.leaders, link)
		}
	}
	return nil
}

func (s *spanning) attach(peer int, use tcp.Use, conn *tcp.Conn) (err error) {
	switch use {
	case tcp.ForControl:
		s.controls[peer], err = tcp.NewControl(conn, s.silence, tcp.Handler{Failed: s.hear, Said: s.said})
	case tcp.ForCollectives:
		s.links[peer], err = tcp.NewLink(conn.TCPConn, peer, s.timeout)
	default:
		s.chats[peer], err = tcp.NewLink(conn.TCPConn, peer, s.timeout)
	}
	return err
}
