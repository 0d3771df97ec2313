package cpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// openHosts returns a group of goroutines that behave as if rank r were on host hosts[r].
func openHosts(hosts string, timeout time.Duration) ([]*dist.Group, error) {
	ends := syncgroup.Local(len(hosts))
	return disttest.Join(len(hosts), dist.Config{Backend: Name, Timeout: timeout}, func(c *dist.Config) {
		c.Host, c.Exchange = "host "+hosts[c.Rank:c.Rank+1], ends[c.Rank].Exchange
	})
}

// layouts list the hosts of the ranks, one letter per rank. The suite needs groups of the listed
// sizes, and of 2 and 3 ranks for its tests of misuse.
var layouts = []struct {
	name  string
	sizes []int
	hosts map[int]string
	short bool // run with -short too
}{
	{"two hosts", []int{2, 4}, map[int]string{2: "ab", 3: "aab", 4: "aabb"}, false},
	{"three hosts", []int{4}, map[int]string{2: "ab", 3: "abb", 4: "abbc"}, false},
	{"taking turns", []int{3}, map[int]string{2: "ab", 3: "aba"}, true},
	{"a host each", []int{4}, map[int]string{2: "ab", 3: "abc", 4: "abcd"}, false},
	{"many and one", []int{5}, map[int]string{2: "ab", 3: "bba", 5: "aaaab"}, false},
}

func TestConformanceOverHosts(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			if testing.Short() && !l.short {
				t.Skip("one layout is enough for now")
			}
			t.Parallel() // each layout waits some seconds for a rank that never joins
			open := func(size int, timeout time.Duration) ([]*dist.Group, error) { return openHosts(l.hosts[size], timeout) }
			disttest.Run(t, disttest.Suite{Open: open, Sizes: l.sizes, Short: true})
		})
	}
}

// A message of another type or length than the receiver expects fails the group, and every rank gets
// an error that names both sides.
func TestHostsMisuseOfMessages(t *testing.T) {
	gs := must.Get(openHosts("abb", 20*time.Second))(t)
	defer closeAll(gs)
	got := make([]error, len(gs))
	onEach(gs, func(g *dist.Group) error {
		switch g.Rank() {
		case 0:
			got[0] = errors.Join(g.Send(dist.Of(make([]float32, 8)), 1), g.Barrier())
		case 1:
			got[1] = g.Recv(dist.Of(make([]int32, 9)), 0)
		case 2:
			got[2] = g.Barrier()
		}
		return nil
	})
	for r, err := range got {
		var misuse *dist.MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(err.Error(), "rank 0 sends 8 f32 to rank 1, which receives 9 i32") {
			t.Errorf("rank %d got %v, want a MisuseError naming both sides", r, err)
		}
	}
}

// Ranks with different secrets, or without a port to listen on, all fail to join.
func TestHostsRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(rank int, c *dist.Config)
		want   []string // expected error, by rank
	}{
		{"secret", func(rank int, c *dist.Config) { c.Secret = fmt.Sprint("secret", rank/2) },
			[]string{"rank 2 (pid ", "rank 2 (pid ", "rank 0 (pid "}},
		{"interface", func(rank int, c *dist.Config) { c.Interface = []string{"", "", "nowhere0"}[rank] },
			[]string{`rank 2 (host c): no network interface "nowhere0"`, `rank 2 (host c): no network interface "nowhere0"`,
				`no network interface "nowhere0"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ends := syncgroup.Local(3)
			var ranks sync.WaitGroup
			id := fmt.Sprintf("cpu-refuse-%d", time.Now().UnixNano())
			for r := range 3 {
				ranks.Go(func() {
					cfg := dist.Config{Backend: Name, Rank: r, Size: 3, ID: id, Timeout: 20 * time.Second, Host: "abc"[r : r+1],
						Exchange: ends[r].Exchange}
					c.change(r, &cfg)
					if _, err := dist.Init(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), c.want[r]) {
						t.Errorf("rank %d got %v, want %q", r, err, c.want[r])
					}
				})
			}
			ranks.Wait()
		})
	}
}

// Data connections use only the allowed ports.
func TestHostsPorts(t *testing.T) {
	t.Setenv("KERNBENCH_PORT_RANGE", "41300-41399")
	ends := syncgroup.Local(2)
	engines := make([]*engine, 2)
	var ranks sync.WaitGroup
	id := fmt.Sprintf("cpu-ports-%d", time.Now().UnixNano())
	for r := range 2 {
		ranks.Go(func() {
			e, err := backend{}.Join(t.Context(),
				dist.Config{Backend: Name, Rank: r, Size: 2, ID: id, Timeout: time.Minute, Host: "ab"[r : r+1],
					Interface: "lo", Exchange: ends[r].Exchange, Tuning: tuning.Default()})
			if err != nil {
				t.Error(err)
				return
			}
			engines[r] = e.(hostsEngine).engine
		})
	}
	ranks.Wait()
	for r, e := range engines {
		if e == nil {
			continue
		}
		defer e.Close()
		if port := e.hosts.mesh.Port(); port < 41300 || port > 41399 {
			t.Errorf("rank %d listens on port %d", r, port)
		}
	}
}

// If rank 0 waits for rank 1, which waits for rank 2, the error must blame rank 2, even if rank 0
// times out first.
func TestHostsBlameWhoIsBehind(t *testing.T) {
	gs := must.Get(openHosts("aab", 4*time.Second))(t)
	defer closeAll(gs)
	got := make([]error, len(gs))
	onEach(gs, func(g *dist.Group) error {
		switch g.Rank() {
		case 0: // rank 2 waits for it
			time.Sleep(1500 * time.Millisecond)
			got[0] = g.Barrier()
		case 2:
			got[2] = g.Barrier()
		}
		return nil
	})
	for _, r := range []int{0, 2} {
		var peer *dist.PeerError
		if !errors.As(got[r], &peer) || peer.Rank != 1 {
			t.Errorf("rank %d got %v, want a PeerError about rank 1", r, got[r])
		}
	}
}
