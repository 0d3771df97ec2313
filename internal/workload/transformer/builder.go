package transformer

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// names holds the names of nodes, which all ranks share.
type names struct {
	forward, backward, gradients []string
	joined                       map[[2]string]string
}

// join returns a name of two words. Equal names share their memory.
func (n *names) join(a, b string) string {
	key := [2]string{a, b}
	if n.joined[key] == "" {
		n.joined[key] = a + " " + b
	}
	return n.joined[key]
}

func (s Step) newNames() *names {
	n := &names{joined: map[[2]string]string{}}
	for l := range s.Model.Layers {
		n.forward = append(n.forward, fmt.Sprintf("forward %d", l))
		n.backward = append(n.backward, fmt.Sprintf("backward %d", l))
		n.gradients = append(n.gradients, fmt.Sprintf("gradients %d", l))
	}
	return n
}

// builder makes the trace of a rank.
type builder struct {
	Step
	names  *names
	first  int       // number of the stage's first layer
	layers [][2]half // of the stage
	rank   int
	tp, dp int // the rank's positions in its tensor-parallel and data-parallel groups
	stage  int
	nodes  []chakra.Node
	id     uint64   // of the last node
	last   uint64   // node that the next one of the program depends on; 0: none
	pieces []uint64 // collectives of gradients, for which the update waits
}

// next returns the id of a new node.
func (b *builder) next() uint64 {
	b.id++
	return b.id
}

// add adds a node that depends on the last one of the program and on others, and returns its id.
func (b *builder) add(n chakra.Node, others ...uint64) uint64 {
	n.ID = b.next()
	if b.last != 0 {
		n.CtrlDeps = []uint64{b.last}
	}
	n.DataDeps = others
	b.nodes = append(b.nodes, n)
	return n.ID
}

// groups returns the process groups of the rank.
func (b *builder) groups() []chakra.Group {
	group := func(name string, n int, member func(i int) int) chakra.Group {
		g := chakra.Group{Name: name}
		for i := range n {
			g.Ranks = append(g.Ranks, member(i))
		}
		return g
	}
	list := []chakra.Group{
		group(b.tensorGroup(), b.TP, func(i int) int { return b.at(i, b.dp, b.stage) }),
		group(b.dataGroup(), b.DP, func(i int) int { return b.at(b.tp, i, b.stage) })}
	if b.EP > 1 {
		list = append(list,
			group(b.expertGroup(), b.EP, func(i int) int { return b.at(b.tp, b.dp/b.EP*b.EP+i, b.stage) }),
			group(b.copiesGroup(), b.DP/b.EP, func(i int) int { return b.at(b.tp, i*b.EP+b.dp%b.EP, b.stage) }))
	}
	return list
}

func (b *builder) tensorGroup() string { return fmt.Sprint("tp", b.rank/b.TP) }
func (b *builder) dataGroup() string   { return fmt.Sprint("dp", b.stage*b.TP+b.tp) }

// expertGroup returns the name of the group that divides the experts, and copiesGroup the name of the group of ranks
// that have the same experts.
func (b *builder) expertGroup() string {
	return fmt.Sprint("ep", b.tp+b.TP*(b.dp/b.EP+b.DP/b.EP*b.stage))
}

func (b *builder) copiesGroup() string {
	return fmt.Sprint("edp", b.tp+b.TP*(b.dp%b.EP+b.EP*b.stage))
}

// at returns the rank at coordinates.
func (b *builder) at(tp, dp, stage int) int { return tp + b.TP*(dp+b.DP*stage) }

// collective adds a collective of a group.
func (b *builder) collective(name string, kind chakra.Collective, bytes int64, group string) uint64 {
	return b.add(chakra.Node{Name: name, Type: chakra.Coll, Collective: kind, Bytes: max(bytes, 1), Group: group})
}

// step adds a collective that the program waits for.
func (b *builder) step(pass, name string, kind chakra.Collective, bytes int64, group string) {
	b.last = b.collective(b.names.join(pass, name), kind, bytes, group)
}

// pass computes one layer. factor is 1 forward and 2 backward.
func (b *builder) pass(name string, factor int64, halves ...half) {
	for i, h := range halves {
		// Blocks in parallel share the communication of a layer.
		first, final := i == 0 || !b.Model.Parallel, i == len(halves)-1 || !b.Model.Parallel
		if first {
			b.gather(name, h)
		}
		b.last = b.add(chakra.Node{Name: b.names.join(name, h.name), Type: chakra.Comp, Ops: factor * h.ops,
			TensorBytes: factor * h.bytes})
		if final {
			b.reduce(name, h)
		}
	}
}

// gather adds the communication before a half of a layer.
func (b *builder) gather(pass string, h half) {
	sequence, part := b.SequenceParallel && b.TP > 1, b.activations()/int64(b.TP)
	if h.routed {
		part = b.dispatched()
		if sequence {
			part /= int64(b.TP)
		}
		b.step(pass, "dispatch", chakra.AllToAll, part, b.expertGroup())
	}
	if sequence {
		b.step(pass, "all-gather", chakra.AllGather, part, b.tensorGroup())
	}
}

// reduce adds the communication after a half of a layer.
func (b *builder) reduce(pass string, h half) {
	sequence, full, routed := b.SequenceParallel && b.TP > 1, b.activations(), b.combined()
	if h.routed && sequence {
		full, routed = routed, routed/int64(b.TP)
	}
	if sequence {
		b.step(pass, "reduce-scatter", chakra.ReduceScatter, full, b.tensorGroup())
	}
	if h.routed {
		b.step(pass, "combine", chakra.AllToAll, routed, b.expertGroup())
	}
	if b.TP > 1 && !sequence {
		b.step(pass, "all-reduce", chakra.AllReduce, full, b.tensorGroup())
	}
}

// message returns the bytes that a rank sends to the next stage. With sequence parallelism a rank has only its part of
// the activations.
func (b *builder) message() int64 {
	if b.SequenceParallel {
		return max(b.activations()/int64(b.TP), 1)
	}
	return b.activations()
}

// receive waits for another stage; tag identifies the micro-batch and the direction.
func (b *builder) receive(stage, tag int) {
	if stage < 0 || stage >= b.PP {
		return
	}
	b.last = b.add(chakra.Node{Name: "receive", Type: chakra.Recv, Src: b.at(b.tp, b.dp, stage), Dst: b.rank,
		Bytes: b.message(), Tag: int64(tag)})
}

// send sends to another stage while the program goes on.
func (b *builder) send(stage, tag int) {
	if stage < 0 || stage >= b.PP {
		return
	}
	b.add(chakra.Node{Name: "send", Type: chakra.Send, Src: b.rank, Dst: b.at(b.tp, b.dp, stage), Bytes: b.message(),
		Tag: int64(tag)})
}

// forward adds the forward pass of a micro-batch.
func (b *builder) forward(m int) {
	b.receive(b.stage-1, 2*m)
	for l, h := range b.layers {
		b.pass(b.names.forward[b.first+l], 1, h[0], h[1])
	}
	b.send(b.stage+1, 2*m)
}

// backward adds the backward pass of a micro-batch. In the last one the gradients of a layer are complete, so they are
// reduced while earlier layers compute.
func (b *builder) backward(m int) {
	b.receive(b.stage+1, 2*m+1)
	for l, h := range slices.Backward(b.layers) {
		b.pass(b.names.backward[b.first+l], 2, h[1], h[0])
		if m == b.MicroBatches-1 {
			b.gradients(b.names.gradients[b.first+l], h)
		}
	}
	b.send(b.stage-1, 2*m+1)
}

// gradients reduces the gradients of a layer between the replicas, while the program goes on.
func (b *builder) gradients(name string, layer [2]half) {
	kind := chakra.AllReduce
	if b.Sharded {
		kind = chakra.ReduceScatter
	}
	common, experts := weightsOf(layer)
	for _, part := range b.copies(common, experts) {
		b.pieces = append(b.pieces, b.collective(name+part.suffix, kind, part.weights*elemBytes, part.group))
	}
}

// weightsOf returns the weights of a layer that every replica has, and the weights of its experts.
func weightsOf(layer [2]half) (common, experts int64) {
	return layer[0].weights + layer[1].weights, layer[1].experts
}

// copies is a set of weights that every rank of a group has.
type copies struct {
	suffix  string // of names
	weights int64
	group   string
	ranks   int
}

// copies returns the weights of a rank that other ranks have too.
func (b *builder) copies(common, experts int64) (list []copies) {
	if b.EP == 1 { // every replica has all experts
		common, experts = common+experts, 0
	}
	if b.DP > 1 {
		list = append(list, copies{"", common, b.dataGroup(), b.DP})
	}
	if n := b.DP / b.EP; n > 1 && experts > 0 {
		list = append(list, copies{" of experts", experts, b.copiesGroup(), n})
	}
	return list
}

// updateBytes is the memory traffic of the optimizer for a weight: its weight, gradient and moments.
const updateBytes = 16

// train adds the passes in the order 1F1B, and the update. A stage begins with as many forward passes as there are
// stages after it. Then a forward and a backward pass alternate, so that a stage never stores the activations of more
// micro-batches than there are stages (Narayanan et al., 2021).
func (b *builder) train() {
	warmup := min(b.PP-1-b.stage, b.MicroBatches)
	for m := range warmup {
		b.forward(m)
	}
	for m := range b.MicroBatches {
		if warmup+m < b.MicroBatches {
			b.forward(warmup + m)
		}
		b.backward(m)
	}
	var common, experts int64
	for _, layer := range b.layers {
		c, e := weightsOf(layer)
		common, experts = common+c, experts+e
	}
	// own is the number of weights that this rank updates. With a sharded optimizer, each rank of a group that has the
	// same weights updates an equal part of them, and the group then gathers the parts.
	shared, own := b.copies(common, experts), common+experts
	if !b.Sharded {
		shared = nil
	}
	for i := range shared {
		part := shared[i].weights / int64(shared[i].ranks)
		own -= shared[i].weights - part
		shared[i].weights = part
	}
	b.last = b.add(chakra.Node{Name: "update", Type: chakra.Comp, Ops: 10 * own, TensorBytes: updateBytes * own},
		b.pieces...)
	for _, part := range shared {
		b.collective("weights"+part.suffix, chakra.AllGather, part.weights*elemBytes, part.group)
	}
}
