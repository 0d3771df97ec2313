package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/must"
)

// hangGuard bounds every wait. A test that reaches it has failed.
const hangGuard = 3 * time.Minute

func local(t *testing.T) (net.Listener, string) {
	t.Helper()
	name := fmt.Sprintf("connection-%s-%d", t.Name(), os.Getpid())
	l := must.Get(ListenLocal(name))(t)
	t.Cleanup(func() { l.Close() })
	return l, "@" + name
}

// Files arrive with the frame they were sent with.
func TestFiles(t *testing.T) {
	ours, theirs := must.Get2(SocketPair())(t)
	defer ours.Close()
	fd, err := unix.Dup(int(theirs.Fd())) // as a child would inherit it
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	child := must.Get(FromDescriptor(fd))(t)
	defer child.Close()
	for i, files := range []int{0, 2, 0, MaxFiles, 1} {
		var sent []*os.File
		for range files {
			f := must.Get(os.Open("/dev/null"))(t)
			sent = append(sent, f)
		}
		must.Do(t, ours.Send(message{strconv.Itoa(i)}, sent...))
		for _, f := range sent {
			f.Close()
		}
	}
	for i, files := range []int{0, 2, 0, MaxFiles, 1} {
		var m message
		if err := child.Receive(&m); err != nil || m.Text != strconv.Itoa(i) {
			t.Fatalf("got %+v, %v", m, err)
		}
		if len(child.files) != files {
			t.Errorf("frame %d came with %d files, not %d", i, len(child.files), files)
		}
		got, err := child.Files(files)
		if err != nil {
			t.Error(err)
		}
		for _, f := range got {
			if _, err := f.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("a passed file reads %v", err)
			}
			f.Close()
		}
	}
	if _, err := child.Files(1); err == nil {
		t.Error("a file came that was not sent")
	}
	host, member := Pipe()
	go io.Copy(io.Discard, member)
	if err := host.Send(message{}, os.Stdin); err == nil {
		t.Error("a pipe carried a file")
	}
}

// raw is a message with a binary encoding.
type raw []byte

func (r raw) MarshalBinary() ([]byte, error)     { return r, nil }
func (r *raw) UnmarshalBinary(data []byte) error { *r = data; return nil }

// Messages with a binary encoding may be of any length.
func TestRawFrame(t *testing.T) {
	host, member := Pipe()
	want := raw(strings.Repeat("\x00\xff", trustedFrame))
	go host.Send(want)
	var got raw
	if err := member.Receive(&got); err != nil || string(got) != string(want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

// A frame that announces more bytes than follow is detected, without allocating memory for them.
func TestDamagedLength(t *testing.T) {
	for _, head := range []string{"\xff\xff\xff\xff", "\x3f\xff\xff\xff"} {
		ours, theirs := net.Pipe()
		go func() { io.WriteString(theirs, head+"{}"); theirs.Close() }()
		var m message
		if err := Plain(ours).Receive(&m); err == nil || err == io.EOF {
			t.Errorf("got %v", err)
		}
	}
}

// DialAny finds the service among closed and unresponsive addresses. If it is found twice, the second
// connection is closed.
func TestFind(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	var conns [2]chan *Conn
	addresses := []string{mute.Addr().String(), "127.0.0.1:1"}
	for i := range conns {
		l := must.Get(ListenTCP(t.Context(), "127.0.0.1", 0))(t)
		defer l.Close()
		conns[i] = make(chan *Conn, 1)
		go service.Serve(l, func(c *Conn) { conns[i] <- c }, func(string, error) {})
		addresses = append(addresses, l.Addr().String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	c := must.Get(service.DialAny(ctx, "tcp", addresses...))(t)
	defer c.Close()
	if c.PID != 0 {
		t.Errorf("a TCP connection leads to process %d", c.PID)
	}
	go c.Send(message{"here"})
	open, patience := 0, time.After(hangGuard)
	for range conns {
		var other *Conn
		select {
		case other = <-conns[0]:
		case other = <-conns[1]:
		case <-patience: // the other dial was cancelled before its handshake
			continue
		}
		var m message
		if err := other.Receive(&m); err == nil {
			open++
			patience = time.After(time.Second)
		} else if !IsDisconnect(err) {
			t.Errorf("the other one: %v", err)
		}
	}
	if open != 1 {
		t.Errorf("%d connections are open", open)
	}
	_, err = Service{Banner: service.Banner, Secret: []byte("a guess")}.DialAny(ctx, "tcp", addresses...)
	if !errors.Is(err, ErrWrongSecret) {
		t.Errorf("with a wrong secret: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := service.DialAny(short, "tcp", "127.0.0.1:1"); err == nil ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestListenElsewhere(t *testing.T) {
	// reserved for documentation by RFC 5737
	if _, err := ListenTCP(t.Context(), "192.0.2.77", 1); !errors.Is(err, ErrNotLocal) {
		t.Errorf("got %v", err)
	}
}

// The payloads of members and of the host's answers.
type brought struct{ Mark int }
type got struct{ Marks []int }

// TestCollect: all members join, and each receives everyone's payload and an open file.
func TestCollect(t *testing.T) {
	l, address := local(t)
	const size = 4
	group := &Group{Noun: "rank", Size: size}
	group.Admit(SelfPeer, Join{Size: size})
	arrivals := Arrivals[brought](l, service)
	answers := make(chan error, size)
	for rank := 1; rank < size; rank++ {
		go func() {
			c, err := service.DialAny(t.Context(), "unix", address)
			if err == nil {
				defer c.Close()
				var g got
				if g, err = JoinOnce[got](t.Context(), c, Join{Rank: rank, Size: size}, brought{10 * rank}); err == nil {
					if _, ferr := c.Files(1); ferr != nil || fmt.Sprint(g.Marks) != "[0 10 20 30]" {
						err = fmt.Errorf("got %v, %v", g, ferr)
					}
				}
			}
			answers <- err
		}()
	}
	members := must.Get(Collect(t.Context(), arrivals, group))(t)
	marks := make([]int, size)
	for rank, m := range members {
		if rank > 0 {
			marks[rank] = m.Payload.Mark
			if m.Join.PID != os.Getpid() {
				t.Errorf("rank %d is process %d", rank, m.Join.PID)
			}
		}
	}
	for _, m := range members[1:] {
		if err := Welcome(m, got{marks}, os.Stdin); err != nil {
			t.Error(err)
		}
	}
	for range size - 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	// Latecomers are answered until the listener is closed.
	go RefuseLatecomers(arrivals, group)
	c := must.Get(service.Dial(t.Context(), "unix", address))(t)
	defer c.Close()
	var refused *RefusedError
	if _, err := JoinOnce[got](t.Context(), c, Join{Rank: 1, Size: size}, brought{}); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "duplicate rank 1") {
		t.Errorf("got %v", err)
	}
}

// A member that does not fit, or does not come, fails the whole group.
func TestCollectInVain(t *testing.T) {
	for name, c := range map[string]struct {
		second Join
		want   string
	}{
		"twice":  {Join{Rank: 1, Size: 3}, "duplicate rank 1"},
		"size":   {Join{Rank: 2, Size: 5}, "expects a group of 5, this one has 3"},
		"range":  {Join{Rank: 3, Size: 3}, "rank 3 does not exist"},
		"none":   {Join{Rank: AnyRank, Size: 3}, "a rank must be given"},
		"absent": {Join{Rank: -9}, "2 of 3 ranks joined within"},
	} {
		t.Run(name, func(t *testing.T) {
			l, address := local(t)
			group := &Group{Noun: "rank", Size: 3}
			group.Admit(SelfPeer, Join{Size: 3})
			ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
			defer cancel()
			first := make(chan error, 1)
			enter := func(j Join) error {
				c, err := service.DialAny(t.Context(), "unix", address)
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = JoinOnce[got](t.Context(), c, j, brought{})
				return err
			}
			come, arrivals := Arrivals[brought](l, service), make(chan Arrival[brought])
			go func() { first <- enter(Join{Rank: 1, Size: 3}) }()
			go func() {
				defer close(arrivals)
				arrivals <- <-come
				if c.second.Rank != -9 {
					go enter(c.second)
				} else {
					cancel() // no one else joins
				}
				for a := range come {
					arrivals <- a
				}
			}()
			if _, err := Collect(ctx, arrivals, group); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("rank 0 got %v", err)
			}
			var refused *RefusedError
			if err := <-first; !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("rank 1 got %v", err)
			}
			l.Close()
			RefuseLatecomers(arrivals, group)
		})
	}
}
