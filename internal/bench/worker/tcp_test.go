package worker

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Workers of other hosts connect over TCP, and have their sync group at the hub.
func TestRanksOfOtherHosts(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		h := must.Get(ListenTCP(address, connection.PortRange{}, 2))(t)
		t.Cleanup(func() { h.Close() })
		for rank := range 2 {
			n := strconv.Itoa(rank)
			start(t, h, nil, "RANK="+n, "LOCAL_RANK="+n)
		}
		j := job()
		j.Size = 2
		seen := map[int]bool{}
		for ready := 0; ready < 2; {
			switch e := next(t, h); {
			case e.Joined:
				seen[e.Rank] = true
				h.Job(e.Rank, j)
			case e.Ready:
				if ready++; e.Error != "" {
					t.Fatalf("rank %d: %s", e.Rank, e.Error)
				}
			}
		}
		if !seen[0] || !seen[1] {
			t.Fatalf("ranks %v", seen)
		}
		h.Task(0, task(0, "wait"))
		h.Task(1, task(0, "wait"))
		for range 2 {
			if e := next(t, h); e.Done == nil || e.Done.Status != journal.OK {
				t.Errorf("%s: %+v", address, e)
			}
		}
		// A rank that fails ends the other one, which only waits for it.
		h.Task(0, task(1, "wait"))
		h.Task(1, task(1, "panic"))
		for range 2 {
			e := next(t, h)
			if e.Done == nil || e.Done.Status != journal.Failed || e.Secondary != (e.Rank == 0) {
				t.Errorf("%s: %+v", address, e)
			}
			if e.Rank == 0 && !strings.Contains(e.Done.Reason, "rank 1") {
				t.Errorf("the reason of rank 0 does not name the rank that left: %s", e.Done.Reason)
			}
		}
		for rank := range 2 {
			h.Quit(rank)
		}
	}
}

// A process without the token is not admitted, and the token is never sent.
func TestUnauthenticatedAtTheHub(t *testing.T) {
	h := must.Get(ListenTCP("127.0.0.1", connection.PortRange{}, 2))(t)
	defer h.Close()
	guess := strings.Repeat("x", len(h.token))
	for _, c := range []struct{ token, hello string }{
		{guess, ""}, {h.token, `{}`}, {h.token, strings.Repeat("x", 10000)}, {h.token, `{"hello":{"rank":7,"sync":true}}`},
		{"", "GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 100)}, // no proof at all
	} {
		conn := must.Get(net.Dial("tcp", h.ln.Addr().String()))(t)
		if c.token != "" {
			known, err := Service(c.token).ClientHandshake(conn)
			if (err == nil) != (c.token == h.token) {
				t.Errorf("token %s: %v", c.token, err)
			}
			if err != nil {
				continue
			}
			known.Send(raw(c.hello))
		} else {
			conn.Write([]byte(c.hello))
		}
		answer, err := io.ReadAll(conn)
		if bytes.Contains(answer, []byte(h.token)) || strings.Contains(string(answer), "job") {
			t.Errorf("%.60q was answered with %q, %v", c.hello, answer, err)
		}
		conn.Close()
	}
	select {
	case e := <-h.Events():
		t.Errorf("an event: %+v", e)
	default:
	}
}

// raw is an encoded message.
type raw string

func (r raw) MarshalBinary() ([]byte, error) { return []byte(r), nil }
