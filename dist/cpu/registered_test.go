package cpu

import (
	"iter"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// relay is an algorithm that only its registration makes known. The conformance suite of this package
// must run it like the built-in ones.
const relay = "relay"

func init() {
	schedule.Register(schedule.Algorithm{
		Info: schedule.Info{Collective: schedule.AllReduce, Name: relay, Help: "ring by another name",
			Takes: []string{"InPlace"}},
		Steps: func(p schedule.Params, rank int) iter.Seq[schedule.Step] {
			s, err := schedule.New(schedule.AllReduce, "ring", p)
			if err != nil {
				panic(err)
			}
			return s.Steps(rank)
		},
	})
}

func TestRegisteredAlgorithmIsOffered(t *testing.T) {
	for name, c := range map[string]dist.Capabilities{"on one host": capabilities(),
		"across hosts": acrossHosts(capabilities())} {
		if !slices.Contains(c.Algorithms[dist.AllReduce], relay) {
			t.Errorf("%s: %v", name, c.Algorithms[dist.AllReduce])
		}
	}
}
