package bandwidth

import "testing"

// Calls on an array that is larger than what a call loads go on through all its lines before they come to a line again.
// Otherwise the latency of a cache would be measured.
func TestChainGoesOn(t *testing.T) {
	for _, size := range []int64{4096, 128 * maxHops, 128 * (maxHops + 32), 64 << 20} {
		c, _ := newChain(size, 1)
		n := int(size / lineBytes)
		if c.long != (n > maxHops) {
			t.Errorf("%d lines: long %v", n, c.long)
		}
		seen := map[int]bool{}
		for range (n - 1) / c.hops {
			first := c.entry
			c.count()
			for k := range c.hops - 1 {
				line := c.cycle[(first+k)%len(c.cycle)]
				if seen[line] && c.long {
					t.Fatalf("%d lines: line %d is loaded again after %d others", n, line, len(seen))
				}
				seen[line] = true
			}
		}
	}
	w := chaseOnHost(8<<20, 1)
	for range 5 {
		if err := w.call(); err != nil {
			t.Fatal(err)
		}
		if err := w.check(); err != nil {
			t.Error(err)
		}
		if w.check() == nil {
			t.Error("a call that did nothing is not found")
		}
	}
}
