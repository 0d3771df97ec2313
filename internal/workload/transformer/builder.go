package transformer

import (
	"fmt"

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
	halves [2]half
	layers int // of the stage
	rank   int
	tp, dp int
	stage  int
	nodes  []chakra.Node
	id     uint64
	last   uint64   // node that the next one of the program depends on; 0: none
	pieces []uint64 // collectives of gradients
}

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
	tp := chakra.Group{Name: b.tensorGroup()}
	for t := range b.TP {
		tp.Ranks = append(tp.Ranks, b.at(t, b.dp, b.stage))
	}
	dp := chakra.Group{Name: b.dataGroup()}
	for d := range b.DP {
		dp.Ranks = append(dp.Ranks, b.at(b.tp, d, b.stage))
	}
	return []chakra.Group{tp, dp}
}

func (b *builder) tensorGroup() string { return fmt.Sprint("tp", b.rank/b.TP) }
func (b *builder) dataGroup() string   { return fmt.Sprint("dp", b.stage*b.TP+b.tp) }

// at returns the rank at coordinates.
func (b *builder) at(tp, dp, stage int) int { return tp + b.TP*(dp+b.DP*stage) }

// collective adds a collective of a group.
func (b *builder) collective(name string, kind chakra.Collective, bytes int64, group string) uint64 {
	return b.add(chakra.Node{Name: name, Type: chakra.Coll, Collective: kind, Bytes: max(bytes, 1), Group: group})
}

// pass computes one layer. factor is 1 forward and 2 backward.
func (b *builder) pass(name string, factor int64, halves ...half) {
	whole := b.activations()
	for i, h := range halves {
		// Blocks in parallel share the communication of a layer.
		first, final := i == 0 || !b.Model.Parallel, i == len(halves)-1 || !b.Model.Parallel
		if b.TP > 1 && b.SequenceParallel && first {
			b.last = b.collective(b.names.join(name, "all-gather"), chakra.AllGather, whole/int64(b.TP), b.tensorGroup())
		}
		b.last = b.add(chakra.Node{Name: b.names.join(name, h.name), Type: chakra.Comp, Ops: factor * h.ops,
			TensorBytes: factor * h.bytes})
		switch {
		case b.TP == 1 || !final:
		case b.SequenceParallel:
			b.last = b.collective(b.names.join(name, "reduce-scatter"), chakra.ReduceScatter, whole, b.tensorGroup())
		default:
			b.last = b.collective(b.names.join(name, "all-reduce"), chakra.AllReduce, whole, b.tensorGroup())
		}
	}
}

// message returns the bytes that a rank sends to the next stage. With sequence parallelism it has a part only.
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
	for l := range b.layers {
		b.pass(b.names.forward[l], 1, b.halves[0], b.halves[1])
	}
	b.send(b.stage+1, 2*m)
}

// backward adds the backward pass of a micro-batch. In the last one, gradients of layers are ready.
func (b *builder) backward(m int) {
	b.receive(b.stage+1, 2*m+1)
	for l := b.layers - 1; l >= 0; l-- {
		b.pass(b.names.backward[l], 2, b.halves[1], b.halves[0])
		if b.DP > 1 && m == b.MicroBatches-1 {
			kind := chakra.AllReduce
			if b.Sharded {
				kind = chakra.ReduceScatter
			}
			weights := b.halves[0].weights + b.halves[1].weights
			b.pieces = append(b.pieces, b.collective(b.names.gradients[l], kind, weights*elemBytes, b.dataGroup()))
		}
	}
	b.send(b.stage-1, 2*m+1)
}

// updateBytes is the memory traffic of the optimizer for a weight: its weight, gradient and moments.
const updateBytes = 16

// train adds the passes in the order 1F1B, and the update.
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
	weights := int64(b.layers) * (b.halves[0].weights + b.halves[1].weights)
	own := weights
	if b.Sharded {
		own = weights / int64(b.DP)
	}
	b.last = b.add(chakra.Node{Name: "update", Type: chakra.Comp, Ops: 10 * own, TensorBytes: updateBytes * own},
		b.pieces...)
	if b.Sharded && b.DP > 1 {
		b.collective("weights", chakra.AllGather, own*elemBytes, b.dataGroup())
	}
}
