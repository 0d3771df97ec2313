package collectives

import (
	"fmt"
	"slices"
	"sort"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// The values of the axis op. All but sendrecv are collectives of package dist.
const (
	allReduce = string(dist.AllReduce)
	barrier   = string(dist.Barrier)
	sendRecv  = "sendrecv"
)

// ops lists them, as nccl-tests would.
func ops() []string {
	var names []string
	for _, c := range dist.Collectives() {
		if !c.PointToPoint() {
			names = append(names, string(c))
		}
	}
	return append(names, sendRecv)
}

// root is the special rank of the operations that have one.
const root = 0

// shape is the operation of a point: everything about its data except the data.
type shape struct {
	op        string
	dtype     dtype.DType
	reduction dist.Reduction
	count     int // elements of the whole vector
	ranks     int
	inPlace   bool
	buffers   string
}

func shapeOf(s *bench.State) shape {
	red, err := dtype.ParseReduction(s.Str("reduction"))
	if err != nil {
		panic(err) // invalid has refused it when planning
	}
	sh := shape{op: s.Str("op"), dtype: s.DType("dtype"), reduction: red, ranks: s.Size(),
		inPlace: s.Bool("inplace"), buffers: s.Str("buffers")}
	if sh.op != barrier {
		sh.count = s.Int("size") / sh.dtype.Size()
	}
	return sh
}

// calls are the operations of dist that the point makes.
func (sh shape) calls() []dist.Collective {
	if sh.op == sendRecv {
		return []dist.Collective{dist.Send, dist.Recv}
	}
	return []dist.Collective{dist.Collective(sh.op)}
}

// checkPoint says why a point cannot be run, or is the same as another.
func checkPoint(p point.Point) error {
	op := p.At("op").String()
	if !slices.Contains(ops(), op) {
		return bench.Unknown("op", op, ops())
	}
	if b := p.At("buffers").String(); b != symmetric && b != private {
		return bench.Unknown("kind of buffers", b, []string{symmetric, private})
	}
	if _, err := dtype.ParseReduction(p.At("reduction").String()); err != nil {
		return err
	}
	if err := knownAlgorithm(op, p.At("algorithm").String()); err != nil {
		return err
	}
	d, err := dtype.Parse(p.At("dtype").String())
	if err != nil {
		return err
	}
	choice, _ := tuning.ParseChoice(p.At("algorithm").String()) // knownAlgorithm has accepted it
	if pieces := choice.ChunkBytes; pieces > 0 {
		switch size := p.At("size").Int(); {
		case int64(pieces) > size:
			return fmt.Errorf("pieces of %d bytes are more than the whole, which is the same as pieces of %d", pieces, size)
		case pieces < d.Size():
			return fmt.Errorf("pieces of %d bytes hold no element of %s", pieces, d)
		}
	}
	const smallest = 8 // bytes; of a sweep over sizes a barrier keeps only these
	inPlace := p.At("inplace").String() == "true"
	switch size := p.At("size").Int(); {
	case op == barrier && size > smallest:
		return fmt.Errorf("a barrier moves no data: sizes above %d would only repeat it", smallest)
	case op == barrier && inPlace, op == sendRecv && inPlace, op == string(dist.AllToAll) && inPlace:
		return fmt.Errorf("there is no %s in place", op)
	case op == sendRecv && p.At(bench.RanksAxis).Int() < 2:
		return fmt.Errorf("a %s needs two ranks", op)
	case op != barrier && size > 0 && size < int64(d.Size()):
		return fmt.Errorf("%d bytes hold no element of %s", size, d)
	}
	if p.At("reduction").String() != dist.Sum.String() && !dist.Collective(op).Reduces() {
		return fmt.Errorf("%s reduces nothing: only reduction=%s, which stands for none, is run", op, dist.Sum)
	}
	return nil
}

// knownAlgorithm refuses a name that no backend knows for the operation.
func knownAlgorithm(op, name string) error {
	known := []string{auto}
	for _, backend := range dist.Backends(nil) {
		known = append(known, dist.Describe(backend).Algorithms[dist.Collective(op)]...)
	}
	known = lists.Distinct(known)
	choice, err := tuning.ParseChoice(name)
	if err != nil {
		return err
	}
	if slices.Contains(known, choice.Algorithm) {
		return nil
	}
	return bench.Unknown(op+" algorithm", choice.Algorithm, known)
}

// counts are how many elements a rank gives and gets.
func (sh shape) counts(rank int) (in, out int) {
	_, block := dist.Block(sh.count, sh.ranks, rank)
	atRoot := 0
	if rank == root {
		atRoot = sh.count
	}
	switch dist.Collective(sh.op) {
	case dist.ReduceScatter:
		return sh.count, block
	case dist.AllGather:
		return block, sh.count
	case dist.Broadcast:
		return atRoot, sh.count
	case dist.Reduce:
		return sh.count, atRoot
	case dist.Gather:
		return block, atRoot
	case dist.Scatter:
		return atRoot, block
	case dist.AllToAll:
		return sh.count, sh.ranks * block
	}
	return sh.count, sh.count
}

// bufferElements is how many elements the buffers of a rank hold at most: the root, which
// also has the longest block.
func (sh shape) bufferElements() int {
	in, out := sh.counts(root)
	if sh.inPlace {
		return max(in, out)
	}
	return in + out
}

// inputOffset is the position in the whole vector of a rank's first input element.
func (sh shape) inputOffset(rank int) int {
	switch dist.Collective(sh.op) {
	case dist.AllGather, dist.Gather:
		off, _ := dist.Block(sh.count, sh.ranks, rank)
		return off
	}
	return 0
}

// allRanks as the origin of an element means the reduction over all ranks.
const allRanks = -1

// origin says what the i-th output element of a rank must be: the element at
// a position of the vector of one rank, or of everyone.
func (sh shape) origin(rank, i int) (from, position int) {
	off, block := dist.Block(sh.count, sh.ranks, rank)
	switch dist.Collective(sh.op) {
	case dist.AllReduce, dist.Reduce:
		return allRanks, i
	case dist.ReduceScatter:
		return allRanks, off + i
	case dist.AllGather, dist.Gather:
		return owner(sh.count, sh.ranks, i), i
	case dist.Broadcast:
		return root, i
	case dist.Scatter:
		return root, off + i
	case dist.AllToAll:
		return i / block, off + i%block
	}
	return (rank + sh.ranks - 1) % sh.ranks, i // sendrecv: the neighbour's
}

// contiguous is the origin of the i-th output element and how many of the next n, with it, follow
// each other there too.
func (sh shape) contiguous(rank, i, n int) (from, position, length int) {
	from, position = sh.origin(rank, i)
	follows := func(k int) bool {
		f, p := sh.origin(rank, i+k)
		return f == from && p == position+k
	}
	if follows(n - 1) { // blocks are whole: so do those between
		return from, position, n
	}
	return from, position, sort.Search(n, func(k int) bool { return !follows(k) })
}

// owner is the rank whose block holds a position: the inverse of dist.Block.
func owner(count, ranks, position int) int {
	short, longer := count/ranks, count%ranks // the first blocks have one more
	if position < longer*(short+1) {
		return position / (short + 1)
	}
	return longer + (position-longer*(short+1))/short
}
