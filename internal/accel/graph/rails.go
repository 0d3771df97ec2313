package graph

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// readRails reads a rail-optimised network. The ranks of a node are connected to the switch of its island. Rank i of
// every node is also connected to a leaf switch of rail i, which serves nodes_per_leaf nodes. Every leaf is connected
// to every spine. Without spines, rails are connected only through the islands, and ranks forward messages.
func readRails(f *file, n yamlfile.Node, what string) *builder {
	var nodes, per, leafNodes, spines int
	var island, rail, spine Spec
	var over int64
	given := false
	up := yamlfile.Field{Key: "spine", Read: func(n yamlfile.Node, what string) {
		f.Struct(n, what, f.rate("bandwidth_gbs", &spine.Rate).Opt(), NS(f.Reader, "latency_ns", &spine.Latency),
			f.energy(&spine), f.share(&over))
		if given = true; spine.Rate > 0 && over > 0 {
			f.Fault(n, "%s: bandwidth_gbs and oversubscription exclude each other", what)
		}
	}}
	f.Struct(n, what, f.IntField("nodes", &nodes, 1, maxRanks), f.IntField("ranks_per_node", &per, 1, 1024),
		f.IntField("nodes_per_leaf", &leafNodes, 1, maxRanks).Opt(), f.IntField("spines", &spines, 0, 4096).Opt(),
		f.link("island", &island), f.link("rail", &rail), up.Opt())
	if !f.fits(n, what, maxRanks, max(nodes, 1), max(per, 1)) {
		return nil
	}
	if leafNodes == 0 {
		leafNodes = nodes
	}
	leaves := (nodes + leafNodes - 1) / leafNodes
	switch {
	case given != (spines > 0):
		f.Fault(n, `%s: the keys "spines" (how many) and "spine" (the links to them) belong together`, what)
		return nil
	case spines == 0 && leaves > 1:
		f.Fault(n, "%s: %d leaves of a rail need spines", what, leaves)
		return nil
	case spines > 0 && spine.Rate == 0:
		spine.Rate = divided(float64(rail.Rate)*float64(leafNodes), over, spines)
	}
	b := newBuilder(nodes * per)
	islands, leaf := b.switches("island", nodes), b.switches("leaf", per*leaves)
	spine0 := b.switches("spine", spines)
	b.attach("island", 0, b.Ranks, islands, per, island)
	for rank := range b.Ranks {
		node, i := rank/per, rank%per
		b.connect("rail", int32(rank), leaf+int32(i*leaves+node/leafNodes), rail)
	}
	for i := range per * leaves {
		for j := range spines {
			b.connect("spine", leaf+int32(i), spine0+int32(j), spine)
		}
	}
	b.Text = fmt.Sprintf("%d nodes of %d ranks on rails with %d leaves and %d spines", nodes, per, per*leaves, spines)
	return b
}
