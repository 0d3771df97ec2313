package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/must"
)

// strangers are the ways in which clients fail to complete a handshake.
var strangers = []struct {
	name string
	say  func(net.Conn) (stay bool)
}{
	{"leave", func(net.Conn) bool { return false }},
	{"silent", func(net.Conn) bool { return true }},
	{"short", func(c net.Conn) bool { c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); return true }},
	{"guess", func(c net.Conn) bool { c.Write(make([]byte, nonceSize+proofSize)); return false }},
	{"long", func(c net.Conn) bool { c.Write(make([]byte, 64<<10)); return false }},
}

// idle is a coordinator that ignores everything.
type idle struct{ heard, refused atomic.Int64 }

func (i *idle) Receive(peer int, m message, _ time.Duration) []Action[message] {
	i.heard.Add(1)
	return []Action[message]{{Peer: peer, Message: m}}
}
func (i *idle) Disconnect(int, string, time.Duration) []Action[message] { return nil }
func (i *idle) Refuse(string, string)                                   { i.refused.Add(1) }
func (i *idle) Tick(time.Duration) []Action[message]                    { return nil }
func (i *idle) Over() bool                                              { return false }

// A flood of strangers locks no member out, uses a bounded number of goroutines, and leaves nothing
// behind. This holds for every kind of server, also while no one collects members.
func TestFlood(t *testing.T) {
	count := 3000
	if testing.Short() {
		count = 1000
	}
	kinds := map[string]func(*testing.T, net.Listener) (member func(*Conn) error){
		"a service": func(t *testing.T, l net.Listener) func(*Conn) error {
			go service.Serve(l, func(c *Conn) { c.Send(message{"hello"}); c.Close() }, func(string, error) {})
			return hear
		},
		"a service that is busy": func(t *testing.T, l net.Listener) func(*Conn) error {
			go service.Serve(l, func(c *Conn) { c.Send(message{"hello"}); c.Close() }, func(string, error) { select {} })
			return hear
		},
		"a host": func(t *testing.T, l net.Listener) func(*Conn) error {
			NewUntimedHost(new(idle)).Serve(l, service)
			return func(c *Conn) error { return errors.Join(c.Send(message{"hello"}), hear(c)) }
		},
		"arrivals that nobody takes yet": func(t *testing.T, l net.Listener) func(*Conn) error {
			arrivals := Arrivals[brought](l, service)
			return func(c *Conn) error {
				entered := make(chan error, 1)
				go func() {
					_, err := JoinOnce[got](t.Context(), c, Join{Rank: 1, Size: 2}, brought{})
					entered <- err
				}()
				g := &Group{Noun: "rank", Size: 2}
				g.Admit(SelfPeer, Join{Size: 2})
				members, err := Collect(t.Context(), arrivals, g)
				if err == nil {
					err = Welcome(members[1], got{})
				}
				return errors.Join(err, <-entered)
			}
		},
	}
	for kind, serve := range kinds {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(kind+" "+network, func(t *testing.T) { flood(t, network, count, serve) })
		}
	}
}

func hear(c *Conn) error {
	for {
		var m message
		if err := c.ReceiveFirst(&m); err != nil || m.Text == "hello" {
			return err
		}
	}
}

func flood(t *testing.T, network string, count int, serve func(*testing.T, net.Listener) func(*Conn) error) {
	l, err := ListenTCP(t.Context(), "127.0.0.1", 0)
	address := ""
	if network == "unix" {
		l, address = local(t)
	} else if err == nil {
		address = l.Addr().String()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := runtime.NumGoroutine()
	member := serve(t, l)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	most := 0
	join := func(when string) {
		ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
		defer cancel()
		// On a busy machine one attempt may take longer than handshakeTime.
		if _, err := Retry(ctx, func() (struct{}, error) {
			c, err := service.DialAny(ctx, network, address)
			if err == nil {
				err = member(c)
				c.Close()
			}
			return struct{}{}, err
		}); err != nil {
			t.Fatalf("%s, a member gets %v", when, err)
		}
	}
	for i := range count {
		c := must.Get(net.DialTimeout(network, address, hangGuard))(t)
		if strangers[i%len(strangers)].say(c) && len(open) < 2*maxUnproven {
			open = append(open, c)
		} else {
			c.Close()
		}
		most = max(most, runtime.NumGoroutine()-before)
		if i == count/2 {
			join("during the flood")
		}
	}
	join("after the flood")
	// Clients that were disconnected may not have noticed yet.
	if limit := 2 * maxUnproven; most > limit {
		t.Errorf("the flood took %d goroutines, more than %d", most, limit)
	}
	for _, c := range open {
		c.Close()
	}
	for end := time.Now().Add(hangGuard); runtime.NumGoroutine()-before > 20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left of the flood", runtime.NumGoroutine()-before)
		}
	}
}

// An address that fills the limiter with silent connections does not lock out another address, however
// recent its connections are: the address with the most connections loses one.
func TestFullDoor(t *testing.T) {
	d := newHandshakeLimiter()
	enter := func(from string) (g *pendingConn, theirs net.Conn) {
		ours, theirs := net.Pipe()
		g = d.add(ours, from)
		go func() { io.Copy(io.Discard, ours); d.remove(g) }()
		return g, theirs
	}
	_, honest := enter("10.0.0.1")
	defer honest.Close()
	for range 2 * maxUnproven {
		enter("10.0.0.66")
	}
	if _, err := honest.Write([]byte("still here")); err != nil {
		t.Errorf("the only connection of its address was shown out: %v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) > maxUnproven {
		t.Errorf("%d wait at a door for %d", len(d.pending), maxUnproven)
	}
}

// failing is a listener whose Accept fails a few times before it works.
type failing struct {
	net.Listener
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times--; f.times >= 0 {
		return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
	}
	return f.Listener.Accept()
}

// Serve continues after an error of Accept.
func TestAcceptFails(t *testing.T) {
	l, address := local(t)
	go service.Serve(&failing{l, 3}, func(c *Conn) { c.Send(message{"hello"}) }, func(string, error) {})
	c, err := service.DialAny(t.Context(), "unix", address)
	if err == nil {
		err = hear(c)
	}
	if err != nil {
		t.Error(err)
	}
}

// Another user of this host is rejected even if it knows the secret.
func TestOtherUser(t *testing.T) {
	if unix.Getuid() != 0 {
		t.Fatalf("this test becomes another user: it needs root (uid %d)", unix.Getuid())
	}
	l, address := local(t)
	refused := make(chan error, 1)
	go service.Serve(l, func(*Conn) { refused <- nil }, func(_ string, err error) { refused <- err })
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which has another user ID, ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			refused <- fmt.Errorf("becoming another user: %w", errno)
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: address})
		}
		if err != nil {
			refused <- err
		}
	}()
	if err := <-refused; err == nil || !bytes.Contains([]byte(err.Error()), []byte("belongs to user 65534")) {
		t.Errorf("got %v", err)
	}
}
