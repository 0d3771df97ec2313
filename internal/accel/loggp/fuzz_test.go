package loggp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Any network file is read or refused. One that is read has a name.
func FuzzParse(f *testing.F) {
	f.Add(must.Get(os.ReadFile("network.yaml"))(f))
	f.Add([]byte("{name: f, latency_ns: 1000, overhead_ns: 100, gap_ns: 10, bandwidth_gbs: 7.3}"))
	for _, name := range must.Get(filepath.Glob("../../../examples/networks/*.yaml"))(f) {
		f.Add(must.Get(os.ReadFile(name))(f))
	}
	f.Add([]byte("topology: [Ring, Switch]\nnpus_count: [4, 2]\nbandwidth: [50, 25]\nlatency: [500, 700]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := Parse("n.yaml", data); err == nil && n.Name == "" {
			t.Error("a network without a name")
		}
	})
}

// Faults that are read are written so that they are read again, and are within their limits.
func FuzzParseFaultList(f *testing.F) {
	for _, text := range []string{"slow-rank=3:2x+5:1.5x;dead-link=a-b", "start-offset=3:10us;slow-link=leaf0:x:4x",
		"slow-rank=0:NaNx", "slow-rank=1:0x2p1x", "slow-rank=1:1.0004x", "start-offset=1:0.4ns", "slow-rank=-0:2x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaultList(text)
		if err != nil {
			return
		}
		var again []string
		for _, x := range faults {
			if x.Kind == SlowRank || x.Kind == SlowLink {
				if x.Factor < 1000 || x.Factor > 1e9 {
					t.Errorf("%q has the factor %d", text, x.Factor)
				}
			}
			again = append(again, strings.Replace(x.String(), " ", "=", 1))
		}
		if list, err := ParseFaultList(strings.Join(again, ";")); err != nil || !slices.Equal(list, faults) {
			t.Errorf("%q is %v, written as %q, and read as %v, %v", text, faults, again, list, err)
		}
	})
}
