package gemmallreduce

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// joinLimit is how long a rank waits for the others to join the group, including their set-up.
const joinLimit = time.Minute

// runOnHost measures a point on CPUs.
func runOnHost(ctx context.Context, s *bench.State, plan fused.Plan) error {
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
	if err := w.choose(ctx, s, plan); err != nil {
		return err
	}
	s.SampleAtMost(s.Float(bench.SecondsOption))
	proof.Spoil(w.whole.Part(0))
	s.Verify(w.verify)
	if err := s.Time(ctx, w.op.Run, bench.Preamble(func() error { return w.baselines.timeNext(ctx, s) })); err != nil {
		return err
	}
	return w.baselines.finish(ctx, s, w.op.Plan())
}

// threadsOf returns the number of threads of each rank: the value of --threads, or the rank's share of
// the cores that it may use.
func threadsOf(ctx context.Context, s *bench.State) (int, error) {
	if n := s.Int(threadsOption); n > 0 {
		return n, nil
	}
	all, err := bench.Gather(ctx, s, lists.Map(cores.Allowed(), func(c int) int64 { return int64(c) }))
	if err != nil {
		return 0, err
	}
	threads := gemm.MaxThreads // all ranks use the same number, because they have the same amount of work
	for _, own := range all {
		sharers := 0
		for _, theirs := range all {
			if len(own) > 0 && slices.Contains(theirs, own[0]) {
				sharers++
			}
		}
		threads = min(threads, max(1, len(own)/max(sharers, 1)))
	}
	return threads, nil
}

// join creates the group of this point. Its name is unique among all points and launches.
func join(ctx context.Context, s *bench.State) (*dist.Group, error) {
	return dist.Init(ctx, dist.Config{
		Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit,
		ID: strings.Join([]string{s.Session(), "gemm-allreduce", s.Point().String()}, "/"),
	})
}

// work is one rank's part of a point on CPUs.
type work struct {
	rank  *fused.Rank
	a, b  gemm.Matrix
	c     dist.Buffer
	op    *fused.Op // the point
	whole *fused.Op // the sequential baseline, with C in one partition
	want  []int64   // product of C and a random vector; see expected
	seed  uint64

	baselines baselines
}

// newWork fills the operands, computes the expected result and prepares the sequential baseline.
func newWork(ctx context.Context, s *bench.State, rank *fused.Rank, plan fused.Plan) (*work, error) {
	d := s.DType(dtypeAxis)
	w := &work{rank: rank, a: gemm.New(d, plan.M, plan.K), b: gemm.New(d, plan.K, plan.N), seed: s.Seed()}
	fused.Operands(w.a, w.b, s.Rank(), w.seed)
	var err error
	if w.want, err = expected(ctx, s, plan, w.a, w.b, w.seed); err != nil {
		return nil, err
	}
	if w.c, err = rank.Alloc(d, plan.M, plan.N); err != nil {
		return nil, err
	}
	one := plan
	one.Partitions, one.Overlap = 1, false
	w.whole, err = rank.Prepare(one, w.c, w.a, w.b)
	return w, err
}

// expected returns the product of C and a random vector: the sum of the terms of all ranks. The ranks
// exchange them through the harness, because the all-reduce is under test.
func expected(ctx context.Context, s *bench.State, plan fused.Plan, a, b gemm.Matrix, seed uint64) ([]int64, error) {
	own, err := fused.Term(plan, s.Size(), a, b, seed)
	if err != nil {
		return nil, err
	}
	all, err := bench.Gather(ctx, s, own)
	if err != nil {
		return nil, err
	}
	want := make([]int64, plan.M)
	for _, term := range all {
		for i, v := range term {
			want[i] += v
		}
	}
	return want, nil
}

// choose prepares the point. For auto it tries several numbers of partitions first.
func (w *work) choose(ctx context.Context, s *bench.State, plan fused.Plan) error {
	counts := []int{plan.Partitions}
	if plan.Partitions == 0 {
		counts = fused.Candidates(plan, w.c.DType().Size())
	}
	var ops []*fused.Op
	for _, n := range counts {
		plan.Partitions = n
		op, err := w.rank.Prepare(plan, w.c, w.a, w.b)
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	chosen, err := tune(ctx, s, counts, func(i int) (float64, error) { return timedOp(ops[i]).run() })
	if err != nil {
		return err
	}
	w.op = ops[chosen]
	parts := w.op
	if w.op.Plan().Partitions < 2 {
		w.op, parts = w.whole, nil // one partition is the sequential operation
	}
	w.baselines = newBaselines(timedOp(w.whole), timedOp(parts))
	return nil
}

// timedOp times an operation with the host's clock. It returns nil for nil.
func timedOp(o *fused.Op) *operation {
	if o == nil {
		return nil
	}
	timed := func(run func() error) func() (float64, error) {
		return func() (float64, error) {
			start := time.Now()
			err := run()
			return float64(time.Since(start).Nanoseconds()) / 1e3, err
		}
	}
	return &operation{run: timed(o.Run), multiply: timed(o.Multiply), reduce: timed(o.Reduce)}
}

func (w *work) verify() error { return w.op.Verify(w.want, w.seed) }
