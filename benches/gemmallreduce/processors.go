package gemmallreduce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// joinLimit is how long a rank waits for another, set-up included.
const joinLimit = time.Minute

// onProcessors runs a point for real.
func onProcessors(ctx context.Context, s *bench.State, plan fused.Plan) error {
	s.Phase("set-up")
	threads, err := threadsOf(ctx, s)
	if err != nil {
		return err
	}
	g, err := join(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	rank, err := fused.Open(g, threads)
	if err != nil {
		return err
	}
	defer rank.Close()
	s.Detail("engine", rank.String())

	s.Phase("fill")
	w, err := newWork(ctx, s, rank, plan)
	if err != nil {
		return err
	}
	if err := w.choose(s, plan); err != nil {
		return err
	}
	s.SampleAtMost(s.Float(bench.SecondsOption))
	proof.Spoil(matrixOf(w.c, plan))
	s.Verify(w.verify)
	if err := s.Time(ctx, w.op.Run, bench.Preamble(func() error { return w.beside(ctx, s) })); err != nil {
		return err
	}
	for w.turn < len(w.order) { // each needs a time, however few calls there were
		if err := w.beside(ctx, s); err != nil {
			return err
		}
	}
	o, err := w.outcome(ctx, s)
	if err != nil {
		return err
	}
	o.report(s)
	return nil
}

// threadsOf is the number of threads of this rank: what the user says, or the
// cores that it may use, divided by the ranks that may use them too.
func threadsOf(ctx context.Context, s *bench.State) (int, error) {
	if n := s.Int(threadsOption); n > 0 {
		return n, nil
	}
	var mine []int64
	for _, c := range cores.Allowed() {
		mine = append(mine, int64(c))
	}
	all, err := s.Group().Exchange(ctx, mine)
	if err != nil {
		return 0, err
	}
	least := gemm.MaxThreads // all ranks have as many, since they share the work evenly
	for _, own := range all {
		sharers := 0
		for _, theirs := range all {
			if len(own) > 0 && slices.Contains(theirs, own[0]) {
				sharers++
			}
		}
		least = min(least, max(1, len(own)/max(sharers, 1)))
	}
	return least, nil
}

// join makes the group of this point. No other point of the launch, and no other
// launch, has its name.
func join(ctx context.Context, s *bench.State) (*dist.Group, error) {
	return dist.Init(ctx, dist.Config{
		Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit,
		ID: strings.Join([]string{s.Session(), "gemm-allreduce", s.Str(shapeAxis), s.Str(dtypeAxis), s.Str(splitAxis), s.Str(partitionsAxis), s.Str(overlapAxis)}, "/"),
	})
}

// work is one rank's part of a point.
type work struct {
	rank  *fused.Rank
	a, b  gemm.Matrix
	c     dist.Buffer
	op    *fused.Op // the point
	whole *fused.Op // in one partition: what it is held against
	want  []int64   // C times a vector
	seed  uint64

	// What is timed beside the point, in turn before a call of it. The point is
	// judged by its distance from one after the other, so that comes every other time.
	others []other
	order  []int // of a cycle
	turn   int
}

type other struct {
	run   func() error
	times []int64 // nanoseconds
}

// The others, by place.
const (
	gemmAlone = iota
	allReduceAlone
	sequential
	gemmParts
	allReduceParts
)

// newWork fills the operands and finds out what C must be, over the harness's
// own channel.
func newWork(ctx context.Context, s *bench.State, rank *fused.Rank, plan fused.Plan) (*work, error) {
	d := s.DType(dtypeAxis)
	w := &work{rank: rank, a: gemm.New(d, plan.M, plan.K), b: gemm.New(d, plan.K, plan.N), seed: s.Seed()}
	fused.Operands(w.a, w.b, s.Rank(), w.seed)
	own, err := fused.Term(plan, s.Size(), w.a, w.b, w.seed)
	if err != nil {
		return nil, err
	}
	all, err := s.Group().Exchange(ctx, own)
	if err != nil {
		return nil, err
	}
	w.want = make([]int64, plan.M)
	for _, term := range all {
		for i, v := range term {
			w.want[i] += v
		}
	}
	if w.c, err = rank.Alloc(d, plan.M, plan.N); err != nil {
		return nil, err
	}
	one := plan
	one.Partitions, one.Overlap = 1, false
	w.whole, err = rank.Prepare(one, w.c, w.a, w.b)
	return w, err
}

// choose prepares the point, whose partitions may have to be found.
func (w *work) choose(s *bench.State, plan fused.Plan) (err error) {
	if plan.Partitions > 0 {
		w.op, err = w.rank.Prepare(plan, w.c, w.a, w.b)
	} else {
		s.Phase("tuning")
		var trials []fused.Trial
		w.op, trials, err = w.rank.Tune(plan, w.c, w.a, w.b)
		if len(trials) > 0 {
			s.Detail("tried", tried(trials))
		}
	}
	if err != nil {
		return err
	}
	w.others = []other{gemmAlone: {run: w.whole.Multiply}, allReduceAlone: {run: w.whole.Reduce}}
	w.order = []int{gemmAlone, allReduceAlone}
	if w.op.Plan().Partitions > 1 {
		w.others = append(w.others, other{run: w.whole.Run}, other{run: w.op.Multiply}, other{run: w.op.Reduce})
		w.order = []int{sequential, gemmAlone, sequential, allReduceAlone, sequential, gemmParts, sequential, allReduceParts}
	} else {
		w.op = w.whole // one partition is one after the other, and the same code
	}
	return nil
}

// beside times one of the others, all ranks together. The order keeps the
// reduction alone from adding up what it has added up before: the product alone
// or a call of the point always comes in between.
func (w *work) beside(ctx context.Context, s *bench.State) error {
	o := &w.others[w.order[w.turn%len(w.order)]]
	w.turn++
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	start := time.Now()
	if err := o.run(); err != nil {
		return err
	}
	o.times = append(o.times, time.Since(start).Nanoseconds())
	return nil
}

func (w *work) verify() error {
	err := w.op.Wrong(w.want, w.seed)
	var m *proof.Mistake
	if errors.As(err, &m) {
		return &bench.Wrong{Count: m.Count, Detail: m.Detail}
	}
	return err
}

// outcome gathers the times of all ranks.
func (w *work) outcome(ctx context.Context, s *bench.State) (outcome, error) {
	us, in, known := make([]float64, allReduceParts+1), span{}, false
	for i, o := range w.others {
		all, err := s.Group().Exchange(ctx, o.times)
		if err != nil {
			return outcome{}, err
		}
		most, err := slowest(all)
		if err != nil {
			return outcome{}, err
		}
		us[i] = stats.Median(most) / 1e3
		if i == sequential {
			in.low, in.high, known = stats.MedianInterval(most)
		}
	}
	o := outcome{plan: w.op.Plan(), gemm: us[gemmAlone], allReduce: us[allReduceAlone], sequential: us[sequential],
		gemmParts: us[gemmParts], allReduceParts: us[allReduceParts], time: s.Metric("time_us"), sequentialIn: span{in.low / 1e3, in.high / 1e3}}
	o.timeIn.low, o.timeIn.high, o.known = s.Interval("time_us")
	if o.sequential == 0 { // the point itself
		o.sequential, o.sequentialIn, known = o.time, o.timeIn, o.known
	}
	o.known = o.known && known
	return o, nil
}

// slowest are, of the times taken, the slowest rank's, in order, in nanoseconds.
func slowest(all [][]int64) ([]int64, error) {
	var most []int64
	for rank, times := range all {
		if len(times) == 0 || len(times) != len(all[0]) {
			return nil, fmt.Errorf("rank %d has %d times, rank 0 %d: want as many, and some", rank, len(times), len(all[0]))
		}
		if rank == 0 {
			most = slices.Clone(times)
		}
		for i, t := range times {
			most[i] = max(most[i], t)
		}
	}
	slices.Sort(most)
	return most, nil
}

// matrixOf views all of C row by row, whatever lies there.
func matrixOf(c dist.Buffer, p fused.Plan) gemm.Matrix {
	if c.DType() == dtype.F64 {
		return gemm.Of(dist.Slice[float64](c), p.M, p.N, p.N)
	}
	return gemm.Of(dist.Slice[float32](c), p.M, p.N, p.N)
}
