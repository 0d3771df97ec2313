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
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// Values of the axis op. All but sendrecv are collectives of package dist.
const (
	allReduce = string(dist.AllReduce)
	barrier   = string(dist.Barrier)
	sendRecv  = "sendrecv"
)

// ops returns the values of the axis op.
func ops() []string {
	var names []string
	for _, c := range dist.Collectives() {
		if !c.PointToPoint() {
			names = append(names, string(c))
		}
	}
	return append(names, sendRecv)
}

// root is the root of the operations that have one.
const root = 0

// shape describes the operation of a point: everything about its data except the contents, and how it is done.
type shape struct {
	op        string
	dtype     dtype.DType
	reduction dist.Reduction
	count     int // elements of the whole vector
	ranks     int
	inPlace   bool
	buffers   string
	algorithm string
	choice    tuning.Choice     // the parts of algorithm
	knobs     map[string]string // of the backend
}

// shapeOf returns the operation of a point. Axes that the bench lacks have the values of a plain all-reduce of sums in
// symmetric memory.
func shapeOf(p point.Point) (sh shape, err error) {
	text := func(axis, plain string) string {
		if v, has := p.Get(axis); has {
			return v.String()
		}
		return plain
	}
	sh = shape{op: text("op", allReduce), ranks: int(p.At(bench.RanksAxis).Int()), inPlace: p.At("inplace").Bool(),
		buffers: text("buffers", symmetric), algorithm: text("algorithm", auto), knobs: knobValues(p)}
	if !slices.Contains(ops(), sh.op) {
		return sh, bench.Unknown("op", sh.op, ops())
	}
	if sh.buffers != symmetric && sh.buffers != private {
		return sh, bench.Unknown("kind of buffers", sh.buffers, []string{symmetric, private})
	}
	if sh.reduction, err = dtype.ParseReduction(text("reduction", dist.Sum.String())); err != nil {
		return sh, err
	}
	if sh.choice, err = knownAlgorithm(sh.op, sh.algorithm); err != nil {
		return sh, err
	}
	if sh.dtype, err = dtype.Parse(text("dtype", "")); err != nil {
		return sh, err
	}
	if sh.op != barrier {
		sh.count = int(p.At("size").Int()) / sh.dtype.Size()
	}
	return sh, nil
}

// calls returns the operations of package dist that the point uses.
func (sh shape) calls() []dist.Collective {
	if sh.op == sendRecv {
		return []dist.Collective{dist.Send, dist.Recv}
	}
	return []dist.Collective{dist.Collective(sh.op)}
}

// checkPoint returns why a point cannot run, or why it would repeat another, or nil.
func checkPoint(p point.Point) error {
	sh, err := shapeOf(p)
	if err != nil {
		return err
	}
	const smallest = 8 // bytes; a barrier runs only at these sizes of a sweep
	op, size, element, pieces := sh.op, p.At("size").Int(), int64(sh.dtype.Size()), int64(sh.choice.ChunkBytes)
	switch {
	case pieces > size:
		return fmt.Errorf("pieces of %d bytes are longer than the vector, which is the same as pieces of %d", pieces, size)
	case pieces > 0 && pieces < element:
		return fmt.Errorf("pieces of %d bytes hold no element of %s", pieces, sh.dtype)
	case op == barrier && size > smallest:
		return fmt.Errorf("a barrier moves no data: it runs only at sizes up to %d bytes", smallest)
	case sh.inPlace && slices.Contains([]string{barrier, sendRecv, string(dist.AllToAll)}, op):
		return fmt.Errorf("there is no %s in place", op)
	case op == sendRecv && sh.ranks < 2:
		return fmt.Errorf("a %s needs two ranks", op)
	case op != barrier && size > 0 && size < element:
		return fmt.Errorf("%d bytes hold no element of %s", size, sh.dtype)
	case sh.reduction != dist.Sum && !dist.Collective(op).Reduces():
		return fmt.Errorf("%s reduces nothing: only reduction=%s, which stands for none, is run", op, dist.Sum)
	case sh.buffers != symmetric:
		return nil
	case sh.inPlace: // input and output are one buffer
		return CheckMemory(p, size)
	}
	return CheckMemory(p, 2*size)
}

// CheckMemory returns an error if the devices of a point's backend are too small for the buffers of its ranks.
func CheckMemory(p point.Point, bytesPerRank int64) error {
	backend, _ := p.Get(bench.BackendName)
	if check := dist.Describe(backend.String()).CheckMemory; check != nil {
		return check(int(p.At(bench.RanksAxis).Int()), bytesPerRank)
	}
	return nil
}

// tooLarge leaves out calls that a simulated backend cannot simulate.
func tooLarge(p bench.Point) error {
	_, err := estimate(p, p.At(bench.BackendName))
	return err
}

// noteSlow returns a decl.Note for calls that take a simulated backend long.
func noteSlow(p, options bench.Point) error {
	if note, err := estimate(p, options.At(bench.BackendName)); err == nil && note != "" {
		return decl.Note(note)
	}
	return nil
}

// estimate describes what it costs to simulate a call on a simulated backend. It returns "" if that is
// little, and an error if it is too much.
func estimate(p bench.Point, name point.Value) (string, error) {
	backend, estimates := dist.As[instrument.Estimator](name.String())
	sh, err := shapeOf(p)
	if !estimates || err != nil {
		return "", nil // checkPoint reports the error
	}
	algorithm := sh.choice.Algorithm
	if algorithm == auto {
		algorithm = ""
	}
	return backend.Estimate(dist.Collective(sh.op), algorithm, sh.ranks, sh.count)
}

// knownAlgorithm returns the parts of an algorithm's name. It refuses a name that no backend has for the operation.
func knownAlgorithm(op, name string) (tuning.Choice, error) {
	choice, err := tuning.ParseChoice(name)
	if err != nil {
		return choice, err
	}
	known := []string{auto}
	for _, backend := range dist.Backends(nil) {
		known = append(known, dist.Describe(backend).Algorithms[dist.Collective(op)]...)
	}
	if !slices.Contains(known, choice.Algorithm) {
		return choice, bench.Unknown(op+" algorithm", choice.Algorithm, lists.Distinct(known))
	}
	return choice, nil
}

// counts returns how many elements a rank passes in and gets out.
func (sh shape) counts(rank int) (in, out int) {
	p := sh.params()
	return p.Len(sh.op, schedule.Input, rank), p.Len(sh.op, schedule.Output, rank)
}

// params returns the parameters of a schedule of the operation.
func (sh shape) params() schedule.Params {
	return schedule.Params{Ranks: sh.ranks, Count: sh.count, Root: root, InPlace: sh.inPlace}
}

// bufferElements returns the largest number of elements in the buffers of a rank. It is the root's,
// which also has the longest block.
func (sh shape) bufferElements() int {
	in, out := sh.counts(root)
	if sh.inPlace {
		return max(in, out)
	}
	return in + out
}

// inputOffset returns the position of a rank's first input element in the whole vector.
func (sh shape) inputOffset(rank int) int {
	switch dist.Collective(sh.op) {
	case dist.AllGather, dist.Gather:
		off, _ := dist.Block(sh.count, sh.ranks, rank)
		return off
	}
	return 0
}

// allRanks is the origin of an element that is a reduction over all ranks.
const allRanks = -1

// origin returns the expected i-th output element of a rank: the element at a position of the vector
// of rank from, or of the reduction if from is allRanks.
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

// contiguous returns the origin of the i-th output element, and how many of the n elements from there
// on are contiguous at the origin too.
func (sh shape) contiguous(rank, i, n int) (from, position, length int) {
	from, position = sh.origin(rank, i)
	follows := func(k int) bool {
		f, p := sh.origin(rank, i+k)
		return f == from && p == position+k
	}
	if follows(n - 1) { // blocks are contiguous, so all in between follow too
		return from, position, n
	}
	return from, position, sort.Search(n, func(k int) bool { return !follows(k) })
}

// owner returns the rank whose block contains a position. It is the inverse of dist.Block.
func owner(count, ranks, position int) int {
	short, longer := count/ranks, count%ranks // the first blocks have one more element
	if position < longer*(short+1) {
		return position / (short + 1)
	}
	return longer + (position-longer*(short+1))/short
}
