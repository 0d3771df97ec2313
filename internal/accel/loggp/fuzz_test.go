package loggp

import (
	"os"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Any network file is read or refused. One that is read has a name.
func FuzzParse(f *testing.F) {
	f.Add(must.Get(os.ReadFile("network.yaml"))(f))
	f.Add([]byte("{name: f, latency_ns: 1000, overhead_ns: 100, gap_ns: 10, bandwidth_gbs: 7.3}"))
	f.Add([]byte("topology: [Ring, Switch]\nnpus_count: [4, 2]\nbandwidth: [50, 25]\nlatency: [500, 700]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := Parse("n.yaml", data); err == nil && n.Name == "" {
			t.Error("a network without a name")
		}
	})
}
