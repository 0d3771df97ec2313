package replay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// match joins communication nodes of different ranks to operations.
func (w *Workload) match() error {
	names, err := w.memberships()
	if err != nil {
		return err
	}
	type pair struct {
		src, dst int
		tag      int64
	}
	sends, receives := map[pair][]int32{}, map[pair][]int32{}
	byGroup := make([]map[int32]int32, len(w.groups)) // from a rank to its queue
	for _, i := range w.order {
		rank, n := w.origin(i)
		switch n.Type {
		case chakra.Send:
			key := pair{n.Src, n.Dst, n.Tag}
			sends[key] = append(sends[key], i)
		case chakra.Recv:
			key := pair{n.Src, n.Dst, n.Tag}
			receives[key] = append(receives[key], i)
		case chakra.Coll:
			g := names[rank][n.Group]
			if byGroup[g] == nil {
				byGroup[g] = map[int32]int32{}
			}
			q, ok := byGroup[g][int32(rank)]
			if !ok {
				q = int32(len(w.queues))
				byGroup[g][int32(rank)] = q
				w.queues = append(w.queues, queue{group: g})
			}
			w.nodes[i].queue = q
			w.queues[q].nodes = append(w.queues[q].nodes, i)
		}
	}
	for g, queues := range byGroup {
		if err := w.matchGroup(int32(g), queues); err != nil {
			return err
		}
	}
	for _, i := range w.order { // not over the maps, whose order is random: the same traces give the same error
		if _, n := w.origin(i); n.Type == chakra.Send || n.Type == chakra.Recv {
			key := pair{n.Src, n.Dst, n.Tag}
			if err := w.matchMessages(sends[key], receives[key]); err != nil {
				return err
			}
			delete(sends, key)
			delete(receives, key)
		}
	}
	return nil
}

// matchMessages pairs the sends and receives between two ranks with one tag.
func (w *Workload) matchMessages(sends, receives []int32) error {
	for k := range max(len(sends), len(receives)) {
		switch {
		case k >= len(receives):
			_, n := w.origin(sends[k])
			return fmt.Errorf("%s: no receive matches this send to rank %d with tag %d: rank %d has %d of them, and "+
				"rank %d sends %d", w.describe(sends[k]), n.Dst, n.Tag, n.Dst, len(receives), n.Src, len(sends))
		case k >= len(sends):
			_, n := w.origin(receives[k])
			return fmt.Errorf("%s: no send matches this receive from rank %d with tag %d: rank %d has %d of them, and "+
				"rank %d receives %d", w.describe(receives[k]), n.Src, n.Tag, n.Src, len(sends), n.Dst, len(receives))
		}
		_, s := w.origin(sends[k])
		if _, r := w.origin(receives[k]); s.Bytes != r.Bytes {
			return fmt.Errorf("%s sends %d bytes, but the matching receive expects %d: %s", w.describe(sends[k]), s.Bytes,
				r.Bytes, w.describe(receives[k]))
		}
		w.add(operation{group: -1, call: Call{Bytes: s.Bytes}, nodes: []int32{sends[k], receives[k]}})
	}
	return nil
}

// add adds an operation and records it in its nodes.
func (w *Workload) add(o operation) {
	for member, i := range o.nodes {
		w.nodes[i].operation, w.nodes[i].member = int32(len(w.operations)), int32(member)
	}
	w.operations = append(w.operations, o)
}

// matchGroup matches the k-th collectives of all members of a group. queues maps a rank to the index of its queue.
func (w *Workload) matchGroup(id int32, queues map[int32]int32) error {
	g := &w.groups[id]
	if len(queues) == 0 {
		return nil
	}
	all := make([][]int32, len(g.members))
	longest := 0
	for i, rank := range g.members {
		if q, ok := queues[rank]; ok {
			all[i] = w.queues[q].nodes
		}
		if len(all[i]) > len(all[longest]) {
			longest = i
		}
	}
	for i, nodes := range all {
		if len(nodes) < len(all[longest]) {
			return fmt.Errorf("%s: rank %d takes no part in this %s: it issues %d collectives in process group %s, and "+
				"rank %d issues %d", w.describe(all[longest][len(nodes)]), g.members[i], kindOf(w, all[longest][len(nodes)]),
				len(nodes), label(g.name), g.members[longest], len(all[longest]))
		}
	}
	for k, first := range all[0] {
		_, a := w.origin(first)
		o := operation{group: id, call: callOf(a, len(g.members)), nodes: make([]int32, len(all))}
		for i := range all {
			_, b := w.origin(all[i][k])
			if callOf(b, len(g.members)) != o.call {
				return fmt.Errorf("%s is %s, but the matching collective of process group %s is %s: %s", w.describe(first),
					callText(a), label(g.name), callText(b), w.describe(all[i][k]))
			}
			o.nodes[i] = all[i][k]
		}
		if o.call.Root >= len(g.members) {
			return fmt.Errorf("%s: comm_root is %d, but process group %s has %d ranks", w.describe(first), o.call.Root,
				label(g.name), len(g.members))
		}
		w.add(o)
	}
	return nil
}

func kindOf(w *Workload, i int32) string {
	_, n := w.origin(i)
	return n.Kind()
}

// callText describes a collective node for messages.
func callText(n *chakra.Node) string {
	text := fmt.Sprintf("%s of %d bytes", n.Kind(), n.Bytes)
	if n.Collective.Rooted() {
		text += fmt.Sprintf(" with root %d", n.Root)
	}
	return text
}

// callOf returns the call of a collective node. A node counts the bytes of one rank's input, and a call the bytes of
// the whole vector, which in a gather consists of the inputs of all ranks.
func callOf(n *chakra.Node, ranks int) Call {
	c := Call{Collective: n.Collective.String(), Bytes: n.Bytes}
	switch n.Collective {
	case chakra.AllGather, chakra.Gather:
		c.Bytes *= int64(ranks)
	case chakra.Barrier:
		c.Bytes = 0
	}
	if n.Collective.Rooted() {
		c.Root = n.Root
	}
	return c
}

// label returns the name of a process group for messages and tables.
func label(name string) string {
	if name == "" {
		return "all"
	}
	return name
}

// memberships finds the members of the process groups. It returns, for each rank, the index of the group of each name.
// Members come from the options, or else from the trace's metadata, or else they are the ranks whose nodes name the
// group. The group "" has all ranks.
func (w *Workload) memberships() ([]map[string]int32, error) {
	users := map[string][]int32{}
	names := make([]map[string]int32, len(w.traces))
	for rank, t := range w.traces {
		names[rank] = map[string]int32{}
		for i := range t.Nodes {
			if n := &t.Nodes[i]; n.Type == chakra.Coll {
				if _, seen := names[rank][n.Group]; !seen {
					names[rank][n.Group] = -1
					users[n.Group] = append(users[n.Group], int32(rank))
				}
			}
		}
	}
	ids := map[string]int32{}
	for rank, t := range w.traces {
		declared, err := t.Groups(len(w.traces))
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(names[rank])) {
			members := users[name]
			if name == "" {
				members = lists.Range[int32](len(w.traces))
			}
			if i := slices.IndexFunc(declared, func(g chakra.Group) bool { return g.Name == name }); i >= 0 {
				members = int32s(declared[i].Ranks)
			}
			if given, ok := w.options.Groups[name]; ok {
				members = int32s(given)
			}
			if !slices.Contains(members, int32(rank)) {
				return nil, fmt.Errorf("%s has collectives of process group %s, but its rank %d is not a member: %v", t.Path(),
					label(name), rank, members)
			}
			names[rank][name] = w.groupOf(ids, name, members)
		}
	}
	return names, nil
}

// groupOf returns the group of a name and members. Groups of one name with different members are different.
func (w *Workload) groupOf(ids map[string]int32, name string, members []int32) int32 {
	key := name + fmt.Sprint(members)
	id, ok := ids[key]
	if !ok {
		id = int32(len(w.groups))
		ids[key] = id
		w.groups = append(w.groups, group{name, members})
	}
	return id
}

func int32s(list []int) []int32 {
	return lists.Map(list, func(v int) int32 { return int32(v) })
}
