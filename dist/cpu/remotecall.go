package cpu

import (
	"encoding/binary"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// Every collective begins with an agreement of all ranks on what it is, as it
// does within a host. There it is a wait of everyone for everyone; between hosts
// the first rank of each speaks for its host.

// words are small numbers that all ranks tell each other.
type words [3]uint64

// begin starts a call of so many epochs on this host.
func (s *spanning) begin(l *shm.Label, epochs int) error {
	if len(s.locals) > 1 {
		if err := s.member.Begin(l, epochs); err != nil {
			return err
		}
	} else if s.member.Failed() {
		return s.refusedIn(l.Text())
	}
	n := s.calls.Load() + 1
	s.labels[n&1].Store(l)
	s.calls.Store(n)
	return nil
}

// refusedIn is failedIn for a call that has not begun.
func (s *spanning) refusedIn(text string) error {
	f := s.member.Failure().(*shm.Failure) // what Member.Failure returns
	if f.Kind == shm.Refusal {
		f.Text += fmt.Sprintf("; rank %d calls %s", s.rank, text)
	}
	return f
}

// header stands before a message of the present call.
func (s *spanning) header(l *shm.Label, bytes int) tcp.Header {
	return tcp.Header{Call: s.calls.Load(), Sign: l.Signature(), Bytes: uint64(bytes)}
}

// tellLocals publishes words to the ranks of this host and waits for theirs.
func (s *spanning) tellLocals(w words) error {
	if len(s.locals) == 1 {
		return nil
	}
	m, epoch := s.member, s.member.Next()
	for i, v := range w {
		*m.Word(s.rank, epoch, i) = v
	}
	m.Signal()
	return s.awaitLocals(epoch, nil)
}

// localWords reads what tellLocals has brought.
func (s *spanning) localWords(peer int) (w words) {
	for i := range w {
		w[i] = *s.member.Word(peer, s.member.Next()-1, i)
	}
	return w
}

// dismissLocals ends an agreement: nobody goes on before all of this host have
// read the words, and its first rank has heard the other hosts.
func (s *spanning) dismissLocals() error {
	if len(s.locals) == 1 {
		return nil
	}
	epoch := s.member.Next()
	s.member.Signal()
	return s.awaitLocals(epoch, nil)
}

// agree makes all ranks agree on a call, and brings the words of this host's
// ranks to read.
func (s *spanning) agree(l *shm.Label, mine words, read func(peer int, w words)) error {
	if err := s.begin(l, 2); err != nil {
		return err
	}
	if err := s.tellLocals(mine); err != nil {
		return err
	}
	if read != nil && len(s.locals) > 1 {
		for _, peer := range s.locals {
			read(peer, s.localWords(peer))
		}
	}
	h := s.header(l, 0)
	for _, link := range s.leaders {
		link.Out.PostHeader(h)
		link.In.ExpectHeader(h)
	}
	if err := s.settle(s.leaders); err != nil {
		return err
	}
	return s.dismissLocals()
}

// gather gives all ranks' words. Every rank tells every other itself: it is for
// calls that happen rarely.
func (s *spanning) gather(l *shm.Label, mine words) ([]words, error) {
	if err := s.begin(l, 2); err != nil {
		return nil, err
	}
	if err := s.tellLocals(mine); err != nil {
		return nil, err
	}
	all := make([]words, s.Size())
	if len(s.locals) > 1 {
		for _, peer := range s.locals {
			all[peer] = s.localWords(peer)
		}
	}
	all[s.rank] = mine
	const bytes = 8 * len(mine)
	var out [bytes]byte
	for i, v := range mine {
		binary.LittleEndian.PutUint64(out[8*i:], v)
	}
	in := make([][bytes]byte, s.Size())
	var links []*tcp.Link
	h := s.header(l, bytes)
	for peer, link := range s.links {
		if link != nil {
			link.Out.PostHeader(h)
			link.Out.Post(out[:])
			link.In.ExpectHeader(h)
			link.In.Expect(in[peer][:])
			links = append(links, link)
		}
	}
	if err := s.settle(links); err != nil {
		return nil, err
	}
	for _, link := range links {
		for i := range all[link.Peer] {
			all[link.Peer][i] = binary.LittleEndian.Uint64(in[link.Peer][8*i:])
		}
	}
	return all, s.dismissLocals()
}

// Prepare chooses the code for a call.
func (s *spanning) Prepare(p dist.Plan) (func() error, error) {
	own := p.Op == dist.AllReduce && !p.Steps && p.Count > 0
	switch {
	case p.Op.PointToPoint() && s.local(p.Peer):
		return s.spreading(s.engine.message(p)), nil
	case p.Op.PointToPoint():
		return s.guarded(s.chat(p)), nil
	case p.Op == dist.Barrier && !p.Steps:
		l := label(p, "")
		return s.guarded(func() error { return s.agree(l, words{}, nil) }), nil
	case own && p.Codec != nil:
		run, err := s.coded(p)
		return s.guarded(run), err
	case own && p.Algorithm == hierarchical:
		return s.guarded(s.across(p)), nil
	}
	run, err := s.steps(p)
	return s.guarded(run), err
}
