package accel

import (
	"fmt"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

func TestZZ(t *testing.T) {
	m, _ := topo.Default().WithSIPs(topo.Ring, 4, 1)
	c, _ := ccl.Default().With(ccl.LRAB, func(s *ccl.Settings) { s.SlotBytes = 64 << 10 })
	for _, fab := range []topo.Fabric{topo.Whole, topo.Flits} {
		m.Fabric = fab
		for _, mn := range []int{1024, 2048} {
			for _, n := range []int{1, 2, 4, 8} {
				parts := make([]FusedPart, n)
				for i := range parts {
					parts[i] = FusedPart{mn / n, mn}
				}
				b := time.Now()
				times, _, err := GemmAllReduce(m, c, Fused{K: 256, Parts: parts})
				fmt.Println(fab, mn, n, times, err, time.Since(b))
				if fab == topo.Flits && n == 2 { break }
			}
		}
	}
}
