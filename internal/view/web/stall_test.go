package web

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// smallBuffers is a listener whose connections have small buffers, so that answers soon fill them.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// TestClientsThatNeverRead opens fifty connections that ask for a large answer or for a stream and
// never read: all of them are closed.
func TestClientsThatNeverRead(t *testing.T) {
	s := newServer(t.TempDir(), "")
	s.stall, s.streamTime = 100*time.Millisecond, 100*time.Millisecond
	large := make([]byte, 1<<20)
	s.mux.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) { w.Write(large) })
	l := smallBuffers{must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)}
	server := s.HTTP()
	closed := make(chan string, 100)
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- c.RemoteAddr().String()
		}
	}
	go server.Serve(l)
	defer server.Close()
	idle := map[string]bool{}
	for i := range 50 {
		c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
		target := []string{"/large", "/api/live"}[i%2]
		must.Get(fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", target))(t)
		idle[c.LocalAddr().String()] = true
	}
	for len(idle) > 0 {
		delete(idle, <-closed) // the limit of the test ends a wait for ever
	}
}

// deadlines is a connection that records when its deadline is set.
type deadlines struct {
	*httptest.ResponseRecorder
	calls strings.Builder
	most  int // bytes of the largest write
}

func (d *deadlines) SetWriteDeadline(time.Time) error { d.calls.WriteString("d"); return nil }
func (d *deadlines) Flush()                           { d.calls.WriteString("f") }

func (d *deadlines) Write(data []byte) (int, error) {
	d.calls.WriteString("w")
	d.most = max(d.most, len(data))
	return len(data), nil
}

// TestDeadlines checks that a client has its time for each part of an answer and for each event of a
// stream, so that long downloads over slow lines and silent streams are not cut off.
func TestDeadlines(t *testing.T) {
	conn := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w := &deadlineWriter{conn, http.NewResponseController(conn), time.Minute}
	n := must.Get(w.Write(make([]byte, 2*writeChunk+1)))(t)
	if n != 2*writeChunk+1 || conn.calls.String() != "dwdwdw" || conn.most != writeChunk {
		t.Errorf("%d bytes by %s, at most %d at once", n, conn.calls.String(), conn.most)
	}
	conn.calls.Reset()
	events := 0
	stream(w, httptest.NewRequest("GET", "/", nil), "n", time.Millisecond, func() (any, bool, error) {
		events++
		return events, events == 3, nil
	})
	if got := conn.calls.String(); got != "dwfdwfdwf" {
		t.Errorf("three events by %s", got)
	}
}
