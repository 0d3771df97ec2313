package graph

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// readFatTree reads the three-level fat tree of Al-Fares et al. (2008): with switches of k ports there are k pods of
// k/2 edge and k/2 aggregation switches, (k/2)² core switches and k³/4 ranks. Over-subscription divides the
// bandwidth of the links between switches.
func readFatTree(f *file, n yamlfile.Node, what string) *builder {
	var radix int
	var over int64
	var host Spec
	f.Struct(n, what, append(f.spec(&host), f.IntField("radix", &radix, 2, 128), f.share(&over))...)
	if f.Err() != nil {
		return nil
	}
	if radix%2 != 0 {
		f.Fault(n, "%s: radix must be even, have %d", what, radix)
		return nil
	}
	half := radix / 2
	b := newBuilder(radix * half * half)
	between := host
	between.Rate = host.Rate * 1000 / Rate(max(over, 1000))
	edge, aggregation := b.switches("edge", radix*half), b.switches("agg", radix*half)
	core := b.switches("core", half*half)
	b.attach("host", 0, b.Ranks, edge, half, host)
	for pod := range radix {
		for i := range half {
			for j := range half {
				b.connect("edge", edge+int32(pod*half+i), aggregation+int32(pod*half+j), between)
				b.connect("core", aggregation+int32(pod*half+i), core+int32(i*half+j), between)
			}
		}
	}
	b.Text = fmt.Sprintf("fat tree of %d ranks with switches of %d ports", b.Ranks, radix)
	return b
}
