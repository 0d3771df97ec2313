package cpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/agree"
	"github.com/kernbench/kernbench/internal/wire"
)

// openHosts makes a group of goroutines that count as on several hosts: rank r
// is on hosts[r].
func openHosts(hosts string, timeout time.Duration) ([]*dist.Group, error) {
	size := len(hosts)
	gs, errs := make([]*dist.Group, size), make([]error, size)
	id := fmt.Sprintf("cpu-hosts-%d-%d", time.Now().UnixNano(), groups.Add(1))
	ends := agree.Local(size)
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			gs[r], errs[r] = dist.Init(context.Background(), dist.Config{Backend: Name, Rank: r, Size: size, ID: id, Timeout: timeout,
				Host: "host " + hosts[r:r+1], Exchange: wire.Through(ends[r])})
		})
	}
	ranks.Wait()
	return gs, errors.Join(errs...)
}

// layouts are the hosts of the ranks, of groups of all sizes the suite asks for.
var layouts = map[string]map[int]string{
	"two hosts":      {1: "a", 2: "ab", 3: "aab", 4: "aabb"},
	"three hosts":    {1: "a", 2: "ab", 3: "abb", 4: "abbc"},
	"taking turns":   {1: "a", 2: "ab", 3: "aba", 4: "abab"},
	"a host each":    {1: "a", 2: "ab", 3: "abc", 4: "abcd"},
	"many and a few": {1: "a", 2: "ab", 3: "bba", 5: "aaaab"},
}

func TestConformanceOverHosts(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sizes := []int{2, 4}
			if layout[4] == "" {
				sizes = []int{5}
			}
			open := func(size int, timeout time.Duration) ([]*dist.Group, error) { return openHosts(layout[size], timeout) }
			disttest.Run(t, disttest.Suite{Open: open, Sizes: sizes, Short: true})
		})
	}
}
