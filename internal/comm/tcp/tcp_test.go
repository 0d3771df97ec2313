package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/process/connection"
)

const guard = 30 * time.Second // limits every wait, so that a hang fails the test

func pair(t must.T) (*Link, *Link) {
	return must.Get2(loopbackPair())(t)
}

// Messages of any lengths arrive complete and in order, in both directions at once, whatever the
// portions in which both sides post them.
func TestLinkKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := pair(t)
		defer a.Close()
		defer b.Close()
		var sleeper Sleeper
		type way struct {
			from, to *Link
			sent     []byte
			got      []byte
		}
		ways := []*way{{from: a, to: b}, {from: b, to: a}}
		for k, w := range ways {
			lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 1<<20)), 1, 6).Draw(t, "lengths")
			for i, n := range lengths {
				piece := make([]byte, n)
				for j := range piece {
					piece[j] = byte(j*3 + i + k)
				}
				w.sent = append(w.sent, piece...)
				w.from.Out.Post(piece)
			}
			w.got = make([]byte, len(w.sent))
			for rest := w.got; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "portion")
				w.to.In.Expect(rest[:n])
				rest = rest[n:]
			}
		}
		for limit := time.Now().Add(guard); !a.Idle() || !b.Idle(); {
			movedA, errA := a.Progress()
			movedB, errB := b.Progress()
			if errA != nil || errB != nil || time.Now().After(limit) {
				t.Fatalf("%v, %v, idle %v and %v", errA, errB, a.Idle(), b.Idle())
			}
			if !movedA && !movedB {
				sleeper.Sleep(time.Millisecond, a, b)
			}
		}
		for i, w := range ways {
			if !bytes.Equal(w.sent, w.got) {
				t.Errorf("way %d: %d bytes came out differently", i, len(w.sent))
			}
		}
	})
}

func TestLinkNoticesAnotherHeader(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	for _, c := range []struct{ sent, want Header }{
		{Header{1, 2, 3}, Header{1, 2, 3}}, {Header{1, 2, 3}, Header{1, 2, 4}}, {Header{1, 3, 3}, Header{1, 2, 3}},
		{Header{2, 2, 3}, Header{1, 2, 3}},
	} {
		a.Out.PostHeader(c.sent)
		b.In.ExpectHeader(c.want)
		err := errors.Join(drive(a), drive(b))
		var other *MismatchError
		if found := errors.As(err, &other); found != (c.sent != c.want) ||
			found && (other.Got != c.sent || other.Want != c.want) {
			t.Errorf("sent %v, expected %v: %v", c.sent, c.want, err)
		}
	}
}

func TestLinkNoticesTheEnd(t *testing.T) {
	a, b := pair(t)
	defer b.Close()
	a.Out.PostHeader(Header{})
	must.Do(t, drive(a))
	a.Close() // data that was sent before must still arrive
	b.In.ExpectHeader(Header{})
	if err := drive(b); err != nil {
		t.Errorf("what was sent before the end: %v", err)
	}
	b.In.Expect(make([]byte, 1))
	if err := drive(b); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, want EOF", err)
	}
}

// A peer that reads nothing must not block this end: Progress returns and reports that the link is
// backed up.
func TestLinkBacksUp(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	much := make([]byte, 64<<20)
	a.Out.Post(much)
	var sleeper Sleeper
	for still := 0; still < 3; {
		moved := must.Get(a.Progress())(t)
		if still++; moved {
			still = 0
		} else {
			sleeper.Sleep(20*time.Millisecond, a)
		}
	}
	if !a.Out.Pending() || a.Out.Done() == 0 {
		t.Errorf("%d of %d bytes are in the kernel's buffers, want some and not all", a.Out.Done(), len(much))
	}
}

func open(t *testing.T, key string) *Listener {
	t.Helper()
	l := must.Get(Listen(netip.MustParseAddr("127.0.0.1"), connection.PortRange{}, []byte(key)))(t)
	t.Cleanup(l.Close)
	return l
}

var here = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestListener(t *testing.T) {
	l := open(t, "the right key")
	mine := Ticket{Group: [16]byte{1}, Rank: 3, Use: ForProgram}
	// The connection may arrive before Accept waits for it, and among others.
	for _, ticket := range []Ticket{{Group: [16]byte{2}, Rank: 3, Use: ForProgram},
		{Group: [16]byte{1}, Rank: 4, Use: ForProgram}, mine} {
		c := must.Get(Dial(within(t, guard), netip.Addr{}, here, l.Port(), []byte("the right key"), ticket))(t)
		defer c.Close()
		fmt.Fprintf(c, "rank %d of group %d\n", ticket.Rank, ticket.Group[0])
	}
	c := must.Get(l.Accept(within(t, guard), mine))(t)
	defer c.Close()
	var said [18]byte
	if _, err := io.ReadFull(c, said[:]); err != nil || string(said[:]) != "rank 3 of group 1\n" {
		t.Errorf("took the connection that says %q (%v)", said, err)
	}
}

func TestListenerRefuses(t *testing.T) {
	l := open(t, "the right key")
	if _, err := Dial(within(t, guard), netip.Addr{}, here, l.Port(), []byte("a wrong key"), Ticket{}); err == nil ||
		!strings.Contains(err.Error(), "the secrets differ") {
		t.Errorf("dialling with a wrong key: %v", err)
	}
	if _, err := l.Accept(within(t, 2*time.Second), Ticket{}); err == nil ||
		!strings.Contains(err.Error(), "refused: 127.0.0.1: the secrets differ") {
		t.Errorf("waiting for it: %v", err)
	}
}

// Dial tries all addresses of a peer, even if another service answers at the first one.
func TestDialTriesAllAddresses(t *testing.T) {
	l := open(t, "key")
	mail := must.Get(net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", l.Port())))(t)
	defer mail.Close()
	go func() {
		for {
			c, err := mail.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "220 this is a mail server, which speaks first and at great length, as they all do\r\n")
			c.Close()
		}
	}()
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), here[0]}
	c := must.Get(Dial(within(t, guard), netip.Addr{}, addrs, l.Port(), []byte("key"), Ticket{}))(t)
	c.Close()
}

// controls returns two connected control connections.
func controls(t *testing.T, h Handler) (a, b *Control) {
	t.Helper()
	l := open(t, "key")
	dialled, err := Dial(within(t, guard), netip.Addr{}, here, l.Port(), []byte("key"), Ticket{Use: ForControl})
	if err != nil {
		t.Fatal(err)
	}
	taken := must.Get(l.Accept(within(t, guard), Ticket{Use: ForControl}))(t)
	if a, err = NewControl(dialled, 5*time.Second, h); err == nil {
		b, err = NewControl(taken, 5*time.Second, h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestControl(t *testing.T) {
	failures := make(chan shm.Failure, 1)
	a, b := controls(t, Handler{
		Failed: func(f shm.Failure) { failures <- f },
		Calls:  func(call uint64) (uint64, string) { return call + 1, fmt.Sprintf("call %d", call) },
	})
	if calls, text, ok := a.Ask(7, guard); !ok || calls != 8 || text != "call 7" {
		t.Errorf("asked: %d %q %v", calls, text, ok)
	}
	want := shm.Failure{Kind: shm.PeerGone, Rank: 3, PID: 4, Dead: true, Text: "rank 3 is gone"}
	b.Fail(want)
	if got := <-failures; got != want {
		t.Errorf("heard %+v, want %+v", got, want)
	}
	if end, _ := b.End(); end != Open {
		t.Errorf("ended %v before its end", end)
	}
	a.Close()
	b.AwaitEnd(guard)
	if end, _ := b.End(); end != Left {
		t.Errorf("the peer said goodbye, but it ended %v", end)
	}
	b.Close()
}

func TestControlNoticesDeath(t *testing.T) {
	a, b := controls(t, Handler{})
	a.link.Abort() // without the closing message
	b.AwaitEnd(guard)
	if end, err := b.End(); end != Closed {
		t.Errorf("ended %v (%v), want %v", end, err, Closed)
	}
	if _, _, ok := b.Ask(1, guard); ok {
		t.Error("the dead answered")
	}
}

func TestUnansweredQuestionIsForgotten(t *testing.T) {
	released := make(chan struct{})
	a, b := controls(t, Handler{Calls: func(uint64) (uint64, string) { <-released; return 0, "" }})
	defer b.Close()
	defer a.Close()
	if _, _, ok := a.Ask(1, time.Millisecond); ok {
		t.Error("answered before the peer did")
	}
	close(released)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.answers) != 0 {
		t.Errorf("%d answers are still waited for", len(a.answers))
	}
}

// exchanges checks over several rounds that every rank gets the data of all ranks.
func exchanges(t *testing.T, ends []Exchange) {
	t.Helper()
	var ranks sync.WaitGroup
	for r, exchange := range ends {
		ranks.Go(func() {
			for round := range 5 {
				mine := bytes.Repeat([]byte{byte(r + round)}, r*5+round)
				all, err := exchange(within(t, guard), mine)
				if err != nil || len(all) != len(ends) {
					t.Errorf("rank %d, round %d: %v (%v)", r, round, all, err)
					return
				}
				for k, b := range all {
					if !bytes.Equal(b, bytes.Repeat([]byte{byte(k + round)}, k*5+round)) {
						t.Errorf("rank %d, round %d: rank %d gave %v", r, round, k, b)
					}
				}
			}
		})
	}
	ranks.Wait()
}

// freePort returns a port that is free at this moment.
func freePort(t *testing.T) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

func TestBootstrap(t *testing.T) {
	at := freePort(t)
	var ends []Exchange
	for r := range 4 {
		ends = append(ends, (&Bootstrap{Endpoint: at, Rank: r, Size: 4, Secret: []byte("secret")}).Exchange)
	}
	exchanges(t, ends)
}

// A rank with another executable is refused. Here it says nothing about its executable.
func TestBootstrapSameBuild(t *testing.T) {
	at := freePort(t)
	var ranks sync.WaitGroup
	for r := range 2 {
		ranks.Go(func() {
			b := &Bootstrap{Endpoint: at, Rank: r, Size: 2, Secret: []byte("secret"), SameBuild: r == 0}
			if _, err := b.Exchange(within(t, guard), nil); err == nil || !strings.Contains(err.Error(), "--allow-other-build") {
				t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	ranks.Wait()
}

func TestBootstrapSaysWhoIsMissing(t *testing.T) {
	at := freePort(t)
	var ranks sync.WaitGroup
	for r, secret := range []string{"secret", "secret", "other secret"} {
		ranks.Go(func() {
			s := &Bootstrap{Endpoint: at, Rank: r, Size: 4, Secret: []byte(secret)}
			limit := guard
			if r == 0 { // rank 0 decides when to give up; the others join within its timeout, even on a loaded machine
				limit = 3 * time.Second
			}
			_, err := s.Exchange(within(t, limit), nil)
			want := "meeting at " + at + ": "
			if r == 2 {
				want = "the secrets differ"
			} else if err != nil && !strings.Contains(err.Error(),
				"missing: rank 2, 3; refused: 127.0.0.1: the secrets differ") {
				t.Errorf("rank %d does not say who is missing: %v", r, err)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v, want %q", r, err, want)
			}
		})
	}
	ranks.Wait()
}

func TestBootstrapPortInUse(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	s := &Bootstrap{Endpoint: l.Addr().String(), Size: 2, Secret: []byte("secret")}
	if _, err := s.Exchange(within(t, guard), nil); err == nil ||
		!strings.Contains(err.Error(), "the port is in use: choose another one") {
		t.Errorf("got %v", err)
	}
}

func TestMachine(t *testing.T) {
	a, err := Machine()
	if b, errB := Machine(); err != nil || errB != nil || a != b || a == "" {
		t.Errorf("this machine is %q and %q (%v, %v)", a, b, err, errB)
	}
}
