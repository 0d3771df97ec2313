package connection

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

var testSecret = []byte("a secret of thirty-one characters")

var service = Service{Banner: "a service of this test\n", Secret: testSecret}

type message struct {
	Text string `json:"text"`
}

func accept(conn net.Conn) (*Link[message], error) {
	c, err := service.ServerHandshake(conn)
	if err != nil {
		return nil, err
	}
	return NewLink[message](c), nil
}

func come(conn net.Conn) (*Link[message], error) {
	c, err := service.ClientHandshake(conn)
	if err != nil {
		return nil, err
	}
	return NewLink[message](c), nil
}

// recorder records the bytes sent over a connection, and can alter them.
type recorder struct {
	net.Conn
	mu     sync.Mutex
	seen   *bytes.Buffer
	change func([]byte) []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.seen.Write(p)
	out := p
	if r.change != nil {
		out = r.change(bytes.Clone(p))
	}
	r.mu.Unlock()
	if _, err := r.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// greet connects two links over a recorded loopback connection.
func greet(t *testing.T) (host, member *Link[message], hostSays *recorder, wire *bytes.Buffer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	b := must.Get(l.Accept())(t)
	t.Cleanup(func() { a.Close(); b.Close() })
	wire = new(bytes.Buffer)
	hostSays = &recorder{Conn: b, seen: wire}
	memberSays := &recorder{Conn: a, seen: new(bytes.Buffer)}
	greeted := make(chan error, 1)
	go func() {
		var err error
		host, err = accept(hostSays)
		greeted <- err
	}()
	if member, err = come(memberSays); err != nil {
		t.Fatal(err)
	}
	if err := <-greeted; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Abort(); member.Abort() })
	wire.Write(memberSays.seen.Bytes())
	return host, member, hostSays, wire
}

func TestSecretDoesNotTravel(t *testing.T) {
	host, member, _, wire := greet(t)
	host.Send(message{Text: "for some reason"})
	if m, err := member.Receive(); err != nil || m.Text != "for some reason" {
		t.Fatalf("got %+v, %v", m, err)
	}
	if wire.Len() < 100 || !bytes.Contains(wire.Bytes(), []byte(service.Banner)) {
		t.Fatal("nothing was recorded")
	}
	for n := 8; n <= len(testSecret); n++ {
		if bytes.Contains(wire.Bytes(), testSecret[:n]) {
			t.Fatalf("%d bytes of the secret were sent", n)
		}
	}
}

// Changed, repeated and reflected frames are detected.
func TestForgery(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"none":     nil,
		"changed":  func(p []byte) []byte { p[len(p)-4] ^= 1; return p },
		"repeated": func(p []byte) []byte { return append(p, p...) },
	} {
		host, member, says, _ := greet(t)
		says.mu.Lock()
		says.change = change
		says.mu.Unlock()
		host.Send(message{Text: "one"})
		_, first := member.Receive()
		if name == "none" || name == "repeated" {
			if first != nil {
				t.Errorf("%s: %v", name, first)
			}
		} else if first == nil {
			t.Errorf("%s: not noticed", name)
		}
		if name == "repeated" {
			if m, err := member.Receive(); err == nil {
				t.Errorf("a repeated frame was taken for %+v", m)
			}
		}
	}
	host, member, _, _ := greet(t)
	body := []byte(`{"text":"x"}`)
	if bytes.Equal(host.conn.hash(HostSide, 0, body), member.conn.hash(MemberSide, 0, body)) {
		t.Error("a frame can be sent back to its sender")
	}
}

// A client rejects a host that accepts every proof but does not know the secret.
func TestFalseHost(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		theirs.Write(append([]byte(service.Banner), make([]byte, nonceSize)...))
		io.ReadFull(theirs, make([]byte, nonceSize+proofSize))
		theirs.Write(append([]byte{accepted}, make([]byte, proofSize)...))
	}()
	if _, err := come(ours); !errors.Is(err, ErrWrongSecret) {
		t.Errorf("got %v", err)
	}
}

// A client gives up on a service that sends no greeting after HandshakeTimeout. It may be the right one, stopped.
// Time is simulated.
func TestSilentService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		begin := time.Now()
		if _, err := come(ours); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(begin); d != HandshakeTimeout {
			t.Errorf("it took %v", d)
		}
	})
}

// Run detects a silent peer and sends heartbeats meanwhile. Time spent in the handler does not count as
// silence of the peer. Time is simulated.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := Pipe()
		l, peer := NewLink[message](ours), NewLink[message](theirs)
		beats := 0
		go func() {
			for {
				m, err := peer.Receive()
				if err != nil {
					return
				}
				if m == (message{}) {
					beats++
				}
			}
		}()
		peer.Send(message{"think"})
		begin := time.Now()
		err := l.Run(SilenceLimit, func(m message) bool { time.Sleep(3 * SilenceLimit); return true })
		var silent *SilentError
		if d := time.Since(begin); !errors.As(err, &silent) || d < 4*SilenceLimit || d > 4*SilenceLimit+3*Tick {
			t.Errorf("got %v after %v", err, d)
		}
		l.Abort()
		peer.Abort()
		synctest.Wait()
		if want := int(4*SilenceLimit/HeartbeatInterval) - 1; beats < want {
			t.Errorf("%d beats came, not %d", beats, want)
		}
	})
	ours, theirs := Pipe()
	l, peer := NewLink[message](ours), NewLink[message](theirs)
	peer.Send(message{"enough"})
	if err := l.Run(0, func(m message) bool { return m.Text != "enough" }); err != nil {
		t.Errorf("one that wants no more got %v", err)
	}
	peer.Finish()
	if err := l.Run(0, func(message) bool { return true }); !IsDisconnect(err) {
		t.Errorf("the end is %v", err)
	}
	l.Abort()
}

// A client with the wrong secret gets an error that says so, and learns nothing else.
func TestWrongSecret(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	refused := make(chan error, 1)
	go func() { _, err := service.ServerHandshake(theirs); refused <- err }()
	if _, err := (Service{Banner: service.Banner,
		Secret: []byte("a guess at the secret")}).ClientHandshake(ours); !errors.Is(err,
		ErrWrongSecret) {
		t.Errorf("the guesser got %v", err)
	}
	if err := <-refused; !errors.Is(err, ErrWrongSecret) {
		t.Errorf("the listener got %v", err)
	}
}

// A sender that calls Throttle can send any amount to a slow reader. The reader may pause for any time, and for less
// than lingerTimeout after each message that is queued at the end. Time is simulated.
func TestSlowReader(t *testing.T) {
	for pause, all := range map[time.Duration]bool{lingerTimeout - Tick: true, lingerTimeout + Tick: false} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := Pipe()
			host, member := NewLink[message](ours), NewLink[message](theirs)
			const count = 2 * queueLength
			ended := make(chan struct{})
			go func() {
				for range count {
					host.Throttle()
					host.Send(message{"again"})
				}
				host.Finish()
				close(ended)
			}()
			time.Sleep(10 * lingerTimeout)
			got := 0
			for ; ; got++ {
				m, err := member.Receive()
				if err != nil {
					break
				}
				if m.Text != "again" {
					t.Fatalf("message %d is %q", got, m.Text)
				}
				time.Sleep(pause)
			}
			if (got == count) != all || got < count-queueLength/4-2 {
				t.Errorf("with pauses of %v, %d of %d messages came", pause, got, count)
			}
			host.Abort()
			member.Abort()
			<-ended
		})
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		go func() { theirs.Write(data); theirs.Close() }()
		l := NewLink[message](newConn(ours, testSecret, MemberSide))
		defer l.Abort()
		if m, err := l.Receive(); err == nil {
			t.Errorf("an unauthenticated frame was taken for %+v", m)
		}
	})
}

// The build ID distinguishes two builds of the program, and the hash of the executable also two files of one build.
func TestBuild(t *testing.T) {
	tool, err := exec.LookPath("go") // another build
	if other := buildIDOf(tool); err != nil || len(other) != 12 || other == BuildID() {
		t.Errorf("%s is build %q, this one %q (%v)", tool, other, BuildID(), err)
	}
	code := must.Get(os.ReadFile("/proc/self/exe"))(t)
	path := filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(path, code, 0o600))
	if got := executableHash(path); got != BuildFact(false).Value {
		t.Errorf("a copy has %q, this program %q", got, BuildFact(false).Value)
	}
	must.Do(t, os.WriteFile(path, append(code, 0), 0o600))
	if got := executableHash(path); got == BuildFact(false).Value || buildIDOf(path) != BuildID() {
		t.Errorf("a byte more gives %q, as before (build ID %s)", got, buildIDOf(path))
	}
	if f := BuildFact(false); len(f.Value) != 12 || f.Advice == "" {
		t.Errorf("%+v", f)
	}
	if text := DescribeInterfaces(); !strings.Contains(text, "127.0.0.1") {
		t.Errorf("no loopback among %q", text)
	}
}
