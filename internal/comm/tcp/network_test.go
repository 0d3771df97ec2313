package tcp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// loopbackPair returns the two ends of a connection within this process.
func loopbackPair() (a, b *Link, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	accepted, err := l.Accept()
	if err != nil {
		dialled.Close()
		return nil, nil, err
	}
	if a, err = NewLink(dialled.(*net.TCPConn), 1, time.Minute); err != nil {
		accepted.Close()
		return nil, nil, err
	}
	if b, err = NewLink(accepted.(*net.TCPConn), 0, time.Minute); err != nil {
		a.Close()
	}
	return a, b, err
}

// drive moves data until no message is pending.
func drive(l *Link) error { return (&prober{ctx: context.Background()}).moveAll(l.Idle, l) }

// measured measures the network between goroutines. Rank i behaves as if it were on the host named by
// letter i, and uses the i-th interface if some are given.
func measured(t *testing.T, hosts string, devices ...string) ([]Network, error) {
	ends := syncgroup.Local(len(hosts))
	all, errs := make([]Network, len(hosts)), make([]error, len(hosts))
	var ranks sync.WaitGroup
	for r := range hosts {
		m := Measuring{Exchange: ends[r].Exchange, Rank: r, Size: len(hosts), Host: hosts[r : r+1], Time: time.Millisecond}
		if r < len(devices) {
			m.Interface = devices[r]
		}
		ranks.Go(func() { all[r], errs[r] = m.Measure(t.Context()) })
	}
	ranks.Wait()
	return all, errors.Join(errs...)
}

// If data may take a faster fabric, the measured network is not a limit. All ranks must report this.
func TestFabric(t *testing.T) {
	classes := t.TempDir()
	if got := fabricIn(classes); got != "" {
		t.Errorf("found %q in nothing", got)
	}
	must.Do(t, os.MkdirAll(filepath.Join(classes, "infiniband", "mlx5_0"), 0o755))
	const want = "data may go over mlx5_0 of host b"
	for hosts, fault := range map[string]bool{"ab": true, "bb": false} { // with one host nothing is measured
		ends, errs := syncgroup.Local(2), make([]error, 2)
		var ranks sync.WaitGroup
		for r := range 2 {
			m := Measuring{Exchange: ends[r].Exchange, Rank: r, Size: 2, Host: hosts[r : r+1]}
			if r == 1 {
				m.Fabric = fabricIn(classes)
			}
			ranks.Go(func() { _, errs[r] = m.Measure(t.Context()) })
		}
		ranks.Wait()
		for r, err := range errs {
			if fault != (err != nil) || fault && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, rank %d: %v", hosts, r, err)
			}
		}
	}
}

// Every pair of hosts is measured in both directions, whatever the number of ranks on them, and all
// ranks get the same result.
func TestMeasureNetwork(t *testing.T) {
	all := must.Get(measured(t, "abaac"))(t)
	for r, n := range all {
		if strings.Join(n.Hosts, "") != "abc" || n.Machines != 1 || len(n.Pairs) != 6 || len(n.AtOnce) != 3 ||
			n.Ranks[4] != 2 {
			t.Fatalf("rank %d: %+v", r, n)
		}
		seen := map[[2]int]bool{}
		for i, p := range n.Pairs {
			seen[[2]int{p.From, p.To}] = p.From != p.To
			if !(p.LatencyUS > 0) || !(p.GBps > 0) || !(p.BothGBps > 0) || p != all[0].Pairs[i] {
				t.Errorf("rank %d: %+v", r, p)
			}
		}
		if len(seen) != 6 {
			t.Errorf("rank %d: pairs %v", r, seen)
		}
		for h, at := range n.AtOnce {
			if best := n.Best(h); !(at.InGBps > 0) || !(at.OutGBps > 0) || best.InGBps < at.InGBps || best.OutGBps < at.OutGBps {
				t.Errorf("rank %d, host %d: %+v of %+v", r, h, at, best)
			}
		}
	}
	if one, err := measured(t, "aa"); err != nil || len(one[0].Hosts) != 1 || len(one[1].Pairs) != 0 {
		t.Errorf("on one host: %+v, %v", one, err)
	}
}

// A failure on one rank ends the measurement on all ranks, with the reason.
func TestMeasureNetworkFails(t *testing.T) {
	_, err := measured(t, "abc", "", "nowhere0")
	if got := strings.Count(err.Error(), `rank 1 (host b): no network interface "nowhere0"`); got != 3 {
		t.Errorf("%d of 3 ranks say why: %v", got, err)
	}
}

// Connections use only the allowed ports. They are accepted on the chosen interface only, and dialled
// from it.
func TestPlace(t *testing.T) {
	ends := syncgroup.Local(2)
	ports := connection.PortRange{First: 41_400, Last: 41_499}
	var ranks sync.WaitGroup
	for r := range 2 {
		ranks.Go(func() {
			mesh, err := Place{Host: "here", Interface: "lo", Alone: true, Ports: ports}.Open(t.Context(), ends[r].Exchange, 2,
				[]byte("key"))
			if err != nil {
				t.Error(err)
				return
			}
			defer mesh.Close()
			conn, err := mesh.Connect(t.Context(), [16]byte{}, r, 1-r, 1-r, ForProgram)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			// The second rank has dialled.
			local, remote := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
			listening := []*net.TCPAddr{local, remote}[r]
			if at := mesh.listener.Addr().(*net.TCPAddr); listening.Port < ports.First || listening.Port > ports.Last ||
				at.IP.String() != "127.0.0.1" || mesh.from.String() != "127.0.0.1" || local.IP.String() != "127.0.0.1" {
				t.Errorf("rank %d: %v, from %v to %v", r, at, local, remote)
			}
		})
	}
	ranks.Wait()
}

// If the interface does not exist, the error lists the existing ones. A failed dial lists the
// addresses that were tried.
func TestWrongInterface(t *testing.T) {
	_, _, e := Place{Host: "here", Interface: "lo"}.openListener([]byte("key"))
	if !strings.Contains(e.Fault, `"lo" is loopback, which no other host reaches; this host has `) ||
		!strings.Contains(e.Fault, "lo 127.0.0.1") {
		t.Errorf("loopback between hosts: %q", e.Fault)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := gone.Addr().(*net.TCPAddr).Port
	gone.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = Dial(ctx, netip.Addr{}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, port, []byte("key"), Ticket{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("127.0.0.1:%d", port)) ||
		!strings.Contains(err.Error(), "this host has lo 127.0.0.1") {
		t.Errorf("where nobody listens: %v", err)
	}
}

// The latency is the shortest of all round trips. A peer that loses its core once must not make it longer: the time of
// a mean round trip is no limit for other messages.
func TestPingPongTakesShortest(t *testing.T) {
	const stall = time.Second
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	replied := make(chan error, 1)
	go func() {
		p := &prober{ctx: t.Context()}
		err := p.barrier(b)
		for k := 0; k < probePings && err == nil; k++ {
			b.In.ExpectHeader(Header{Call: uint64(k)})
			if err = p.moveAll(b.Idle, b); err == nil {
				if k == 3 {
					time.Sleep(stall)
				}
				b.Out.PostHeader(Header{Call: uint64(k)})
				err = p.moveAll(b.Idle, b)
			}
		}
		replied <- err
	}()
	us := must.Get((&prober{ctx: t.Context()}).pingPong(0, a))(t)
	must.Do(t, <-replied)
	if us <= 0 || us >= us64(stall)/probePings {
		t.Errorf("a round trip takes %v µs at best", us)
	}
}

// Over all rounds every two hosts meet exactly once, and no host has two partners in one round.
func TestPairsOf(t *testing.T) {
	for hosts := 1; hosts < 12; hosts++ {
		met := map[[2]int]int{}
		for round := range hosts | 1 {
			busy := map[int]bool{}
			for _, p := range pairsOf(hosts, round) {
				if busy[p[0]] || busy[p[1]] {
					t.Errorf("%d hosts: one is twice in round %d", hosts, round)
				}
				busy[p[0]], busy[p[1]] = true, true
				met[p]++
			}
		}
		if len(met) != hosts*(hosts-1)/2 {
			t.Errorf("of %d hosts %d pairs have met", hosts, len(met))
		}
	}
}

// TestRates computes rates from times. Hosts a and c have two ranks, b has one. Every connection sends
// 1,000 bytes.
func TestRates(t *testing.T) {
	p := &prober{byHost: [][]int{{0, 1}, {2}, {3, 4}}, Network: Network{Hosts: []string{"a", "b", "c"}}}
	all := p.rates(func(int, int) bool { return true }, 1000, []float64{2, 1, 4, 2, 5})
	// Host a receives over one connection from b and two from c. Its slower rank is done after 2 µs.
	want := []Rates{{InGBps: 3. / 2, OutGBps: 3. / 5}, {InGBps: 2. / 4, OutGBps: 2. / 2},
		{InGBps: 3. / 5, OutGBps: 3. / 4}}
	for h, r := range all {
		if math.Abs(r.InGBps-want[h].InGBps) > 1e-12 || math.Abs(r.OutGBps-want[h].OutGBps) > 1e-12 {
			t.Errorf("host %d: %+v, want %+v", h, r, want[h])
		}
	}
	one := p.rates(func(from, to int) bool { return from == 1 && to == 0 }, 1000, []float64{2, 0, 0, 0, 0})
	if one[0].InGBps != 0.5 || one[1].OutGBps != 0.5 || one[0].OutGBps != 0 || one[2] != (Rates{}) {
		t.Errorf("from b to a: %+v", one)
	}
}
