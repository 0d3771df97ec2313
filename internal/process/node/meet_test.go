package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/process/connection"
)

const hangGuard = 3 * time.Minute

var testSecret = []byte("a secret of thirty-one characters")

func freeEndpoint(t *testing.T, addr string) string {
	t.Helper()
	port := must.Get(connection.PortRange{}.FreePort(addr))(t)
	return net.JoinHostPort(addr, strconv.Itoa(port))
}

func testConfig(endpoint string, nodes int) Config {
	return Config{Endpoint: endpoint, ID: "job", Nodes: nodes, Procs: 2, Node: AnyNode, Secret: testSecret,
		JoinTimeout: hangGuard, Heartbeat: DefaultHeartbeat, Host: "here"}
}

func joinTest(t *testing.T, cfg Config) *member {
	t.Helper()
	m := must.Get(meet(t.Context(), cfg))(t)
	t.Cleanup(m.leave)
	return m
}

func next(t *testing.T, m *member) Event {
	t.Helper()
	select {
	case e := <-m.events:
		return e
	case <-time.After(hangGuard):
		t.Fatal("no event came")
		return Event{}
	}
}

// gather makes a group of n nodes at one address and starts the first round.
func gather(t *testing.T, addr string, n, restarts int) []*member {
	t.Helper()
	cfg := testConfig(freeEndpoint(t, addr), n)
	cfg.MaxRestarts = restarts
	members := make([]*member, n)
	for i := range members {
		cfg.Node = i // without it, the order of the joins decides
		members[i] = joinTest(t, cfg)
	}
	startRound(t, members, 0)
	return members
}

func startRound(t *testing.T, members []*member, attempt int) {
	t.Helper()
	for _, m := range members {
		must.Do(t, m.ready())
	}
	seen := map[int]bool{}
	for _, m := range members {
		e := next(t, m)
		if e.Start == nil || e.Start.Attempt != attempt || len(e.Start.Hosts) != len(members) || seen[e.Start.Node] {
			t.Fatalf("got %+v", e)
		}
		seen[e.Start.Node] = true
		if e.Start.MasterAddr != members[0].addr || e.Start.MasterPort == 0 {
			t.Errorf("master %s:%d, want one at %s", e.Start.MasterAddr, e.Start.MasterPort, members[0].addr)
		}
	}
}

func TestGroupLives(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1", "::1"} {
		members := gather(t, addr, 3, 1)
		members[2].link.Send(message{Attempt: 0, Failed: &Failure{Rank: 5, Cause: "ended with exit code 7", Code: 7}})
		for _, m := range members {
			if e := next(t, m); e.Stop == nil || e.Stop.Restarts == 0 || e.Stop.Failure.Rank != 5 || e.Stop.Failure.Code != 7 {
				t.Fatalf("%s: got %+v", addr, e)
			}
		}
		startRound(t, members, 1)
		for _, m := range members {
			m.link.Send(message{Attempt: 1, Done: true})
		}
		for _, m := range members {
			if e := next(t, m); !e.Finished {
				t.Fatalf("%s: got %+v", addr, e)
			}
		}
	}
}

func TestSingleNode(t *testing.T) {
	m := joinTest(t, Config{Nodes: 1, Procs: 1, Node: AnyNode, JoinTimeout: hangGuard, Heartbeat: DefaultHeartbeat,
		Host: "here"})
	m.ready()
	if e := next(t, m); e.Start == nil || e.Start.MasterAddr != "localhost" {
		t.Fatalf("got %+v", e)
	}
	m.link.Send(message{Attempt: 0, Failed: &Failure{Rank: 0, Code: 3}})
	if e := next(t, m); e.Stop == nil || e.Stop.Failure.Code != 3 {
		t.Errorf("got %+v", e)
	}
}

// A node that disappears ends the group on the other nodes, also if it is the host of the rendezvous.
func TestNodeIsLost(t *testing.T) {
	t.Parallel()
	members := gather(t, "127.0.0.1", 3, 3)
	members[1].leave()
	for _, i := range []int{0, 2} {
		e := next(t, members[i])
		if e.Stop == nil || e.Stop.Restarts > 0 || e.Stop.Failure.Node != 1 ||
			!strings.Contains(e.Stop.Failure.String(), "was lost: its process ended") {
			t.Errorf("node %d got %+v", i, e)
		}
	}
	members = gather(t, "127.0.0.1", 3, 3)
	members[0].link.Abort() // like the death of the process
	for _, i := range []int{1, 2} {
		if e := next(t, members[i]); e.Lost == "" && e.Stop == nil {
			t.Errorf("node %d got %+v", i, e)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	cfg := testConfig(freeEndpoint(t, "127.0.0.1"), 2)
	cfg.JoinTimeout = 8 * time.Second // generous, because the machine may be busy
	host := joinTest(t, cfg)
	host.ready()

	wrong := cfg
	wrong.Secret = []byte("another secret that is long enough")
	if _, err := meet(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "refused: the secrets differ") {
		t.Errorf("a wrong secret: %v", err)
	}
	other := cfg
	other.ID = "other"
	if e := next(t, joinTest(t, other)); !strings.Contains(e.Refused,
		`--rdzv-id is "other" here and "job" at the coordinator: give each job its own`) {
		t.Errorf("another job: %+v", e)
	}
	e := next(t, host)
	for _, want := range []string{"1 of 2 nodes joined within 8s", "missing: 1 more", "; refused: ",
		"127.0.0.1: the secrets differ", `--rdzv-id is "other" here`} {
		if !strings.Contains(e.Refused, want) {
			t.Errorf("the host got %q, want %q in it", e.Refused, want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "SSH-2.0-OpenSSH_9.2 and enough else to fill a greeting\r\n")
		}
	}()
	_, err = meet(t.Context(), testConfig(l.Addr().String(), 2))
	if err == nil || !strings.Contains(err.Error(),
		l.Addr().String()+": the port is in use: the service at this port is not a kernbench rendezvous") {
		t.Errorf("got %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	cfg := testConfig("192.0.2.1:29400", 2) // reserved for documentation by RFC 5737
	cfg.JoinTimeout = 300 * time.Millisecond
	_, err := meet(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(),
		"no rendezvous at 192.0.2.1:29400 within 300ms: is the same command running on that host") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg.JoinTimeout = hangGuard
	why := errors.New("somebody pressed a key")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if _, err := meet(ctx, cfg); !errors.Is(err, why) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	good := testConfig("127.0.0.1:29400", 2)
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Heartbeat = time.Millisecond }, "must be at least 1s"},
		{func(c *Config) { c.Endpoint = ":29400" }, "want HOST:PORT"},
		{func(c *Config) { c.Endpoint = "a:b:c" }, "want HOST:PORT"},
		{func(c *Config) { c.Endpoint = "node0:0" }, "want 1 to 65535"},
		{func(c *Config) { c.Endpoint = "node0:70000" }, "want 1 to 65535"},
	} {
		cfg := good
		c.change(&cfg)
		if _, err := meet(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestSplitEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"node0": "node0 29400", "node0:1": "node0 1", "10.0.0.1:5": "10.0.0.1 5", "[fd00::1]:5": "fd00::1 5",
		"fd00::1": "fd00::1 29400",
	} {
		if name, port, err := SplitEndpoint(endpoint); err != nil || name+" "+port != want {
			t.Errorf("%s: got %s %s, %v", endpoint, name, port, err)
		}
	}
}

// Two nodes on one host give a warning that names the host.
func TestTwice(t *testing.T) {
	if got := (Round{Hosts: []string{"a", "b", "a", "c", "b",
		"a"}}).sharedHosts(); got != "nodes 0, 2, 5 are all on host a; nodes 1, 4 are all on host b" {
		t.Error(got)
	}
	if got := (Round{Hosts: []string{"a", "b"}}).sharedHosts(); got != "" {
		t.Error(got)
	}
}
