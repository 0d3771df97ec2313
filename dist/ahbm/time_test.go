package ahbm

import (
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
)

// AllReduceTime is the time of the same call of a group. A smaller group takes the time of a machine of its size.
func TestAllReduceTime(t *testing.T) {
	const count = 3000
	for _, err := range each(t, time.Minute, func(g *dist.Group) error {
		if err := sum(g, count); err != nil || g.Rank() > 0 {
			return err
		}
		for _, sips := range []int{3, 5} {
			got := must.Get(backend{}.AllReduceTime("", "", sips, 3, count, ""))(t)
			if int64(got) != g.Clock().Now() {
				t.Errorf("on %d SIPs: %v, the group takes %d ps", sips, got, g.Clock().Now())
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := (backend{}).AllReduceTime("nowhere.yaml", "", 3, 3, count, ""); err == nil {
		t.Error("a missing file was accepted")
	}
}
