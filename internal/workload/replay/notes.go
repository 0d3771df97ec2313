package replay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// note records which parts of the traces have no effect on the times.
func (w *Workload) note() {
	counts := map[string]int{}
	for rank, t := range w.traces {
		for what, n := range t.Unused() {
			counts[what+" is not used"] += n
		}
		for i := range t.Nodes {
			n := &t.Nodes[i]
			if n.Priority != 0 {
				counts["attribute comm_priority is not used"]++
			}
			if what := w.remark(n, &w.nodes[w.base[rank]+int32(i)]); what != "" {
				counts[what]++
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		w.notes = append(w.notes, fmt.Sprintf("%s (%d times)", what, counts[what]))
	}
}

// remark returns a note about a node that has an unknown type, or that takes no time although it should, and "" for all
// other nodes.
func (w *Workload) remark(n *chakra.Node, state *node) string {
	switch {
	case n.Type > chakra.Coll || n.Type < 0:
		if state.lane != noLane {
			return fmt.Sprintf("%v node counts as work of the host", n.Type)
		}
	case state.lane != noLane || n.Type == chakra.Metadata:
		return ""
	case n.Type == chakra.MemLoad || n.Type == chakra.MemStore:
		return fmt.Sprintf("%v node without duration and --memory-bandwidth takes no time", n.Type)
	case n.Type == chakra.Comp:
		return "COMP node without duration and num_ops takes no time"
	}
	return fmt.Sprintf("%v node takes no time", n.Type)
}
