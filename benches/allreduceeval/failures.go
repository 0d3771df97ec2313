package allreduceeval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// failure is a mistake or failure that the last rank causes. Every rank must get an error that explains it,
// within a time limit.
type failure matrix.Failure

func failureNames() []string {
	return lists.Map(matrix.Failures, func(f matrix.Failure) string { return f.Name })
}

// stallTimeout is the timeout of the group. failureLimit is the time in which every rank
// must have noticed, which is generous because machines may be busy.
const (
	stallTimeout = 2 * time.Second
	failureLimit = 20 * time.Second
)

// failureCells is the body of the errors part. A row is a failure, and its only cell
// passes if all ranks notice it.
func failureCells(ctx context.Context, s *bench.State) error {
	name := s.Str("mistake")
	declared, known := lists.First(matrix.Failures, func(f matrix.Failure) bool { return f.Name == name })
	if !known {
		return bench.Unknown("mistake", name, failureNames())
	}
	f := failure(declared)
	if why := f.unsupported(s.Backend()); why != "" {
		return bench.NotExecuted(false, "%s", why)
	}
	s.Phase(name)
	began := time.Now()
	got := f.provoke(ctx, s)
	took := time.Since(began)
	v := verdict{failedRank: -1}
	if err := v.collect(ctx, s, name, wrap(name, f.check(got, s, took))); err != nil {
		return err
	}
	if got != nil {
		s.Detail("error", got.Error())
	}
	s.Detail("cells", matrix.FormatOutcomes(v.outcomes))
	s.Report("wall_ms", float64(took.Microseconds())/1e3, "ms", "")
	s.Phase(checkPhase)
	return v.err(nil)
}

// unsupported returns what the backend lacks for the failure, or "".
func (f failure) unsupported(backend string) string {
	d := dist.Describe(backend)
	switch {
	case f.Name == matrix.Dies && d.InProcess:
		return "all ranks of backend " + backend + " share one process, so none can die alone"
	case f.Name == matrix.OtherDType && len(d.DTypes) == 1:
		return "backend " + backend + " has only one element type"
	case (f.Name == matrix.Dies || f.Name == matrix.Stalls) && !d.Has(dist.AnyCodec):
		return "stopping half-way needs a test codec, which backend " + backend + " cannot run"
	}
	return ""
}

// provoke joins a new group, because the failure breaks it, and causes the failure. It
// returns this rank's error.
func (f failure) provoke(ctx context.Context, s *bench.State) error {
	last := s.Size() - 1
	cfg := dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: stallTimeout,
		ID: s.Session() + "/" + f.Name}
	switch f.Name {
	case matrix.DuplicateRank:
		if s.Rank() == last {
			cfg.Rank = last - 1
		}
	case matrix.Dies:
		cfg.Size++ // the helper process that dies is an additional rank
		if s.Rank() == 0 {
			helper, err := bench.HelperCommand(ctx, Name, dyingHelper, cfg.Backend, cfg.ID, strconv.Itoa(cfg.Size))
			if err != nil {
				return err
			}
			if err := helper.Start(); err != nil {
				return err
			}
			defer helper.Wait()
		}
		cfg.Timeout = failureLimit // ranks must notice the death itself, not run into the timeout
	}
	g, err := dist.Init(ctx, cfg)
	if err != nil {
		return err
	}
	if f.Name == matrix.Stalls {
		return f.stall(ctx, s, g)
	}
	defer g.Close()
	culprit := s.Rank() == last
	d, other := failureTypes(s.Backend())
	in, out := dist.Make(d, 1000), dist.Make(d, 1000)
	switch {
	case f.Name == matrix.Dies:
		return chunkedAllReduce(g, quant.Int8)
	case culprit && f.Name == matrix.Leaves:
		return nil
	case culprit && f.Name == matrix.OtherCount:
		in, out = dist.Make(d, 1001), dist.Make(d, 1001)
	case culprit && f.Name == matrix.OtherDType:
		in, out = dist.Make(other, 1000), dist.Make(other, 1000)
	case culprit && f.Name == matrix.SmallBuffer:
		out = dist.Make(d, 900)
	}
	return g.AllReduce(out, in, dist.Sum)
}

// failureTypes returns two element types of the backend, f32 and i32 if it has them.
func failureTypes(backend string) (first, other dist.DType) {
	has := dist.Describe(backend).DTypes
	has = lists.Distinct(append(intersect([]dist.DType{dist.F32, dist.I32}, has), has...))
	return has[0], has[min(1, len(has)-1)]
}

// chunkedAllReduce makes an all-reduce in several chunks, with a codec that may stop in
// one of them.
func chunkedAllReduce(g *dist.Group, c dist.Codec) error {
	const chunks, chunk = 4, 1024 // chunk: elements of each rank
	b := dist.Of(make([]float32, chunks*chunk*g.Size()))
	return g.Do(dist.Call{Op: dist.AllReduce, In: b, Out: b, Codec: c, Chunk: chunk * g.Size()})
}

// stoppingCodec calls stop before it encodes, once a number of calls have been made.
type stoppingCodec struct {
	quant.Codec
	remaining *atomic.Int64
	stop      func()
}

func (c stoppingCodec) Encode(dst, src []byte, d dist.DType) {
	if c.remaining.Add(-1) < 0 {
		c.stop()
	}
	c.Codec.Encode(dst, src, d)
}

// stopInSecondChunk returns a codec that calls stop in the second chunk of
// chunkedAllReduce: a chunk takes about one encoding for each rank and one for the sum.
func stopInSecondChunk(g *dist.Group, stop func()) stoppingCodec {
	remaining := &atomic.Int64{}
	remaining.Store(int64(g.Size() + 2))
	return stoppingCodec{quant.Int8, remaining, stop}
}

// stall makes an all-reduce in which the last rank stops half-way until the others have
// returned.
func (f failure) stall(ctx context.Context, s *bench.State, g *dist.Group) error {
	defer g.Close()
	if s.Rank() != s.Size()-1 {
		err := chunkedAllReduce(g, quant.Int8)
		return errors.Join(err, s.Barrier(ctx))
	}
	wake, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- chunkedAllReduce(g, stopInSecondChunk(g, func() { <-wake })) }()
	err := s.Barrier(ctx)
	close(wake)
	return errors.Join(<-done, err)
}

// dyingHelper is the name of the helper process that kills itself half-way.
const dyingHelper = "dying-rank"

func dyingRank(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want the backend, the group's ID and its size, got %q", args)
	}
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	g, err := dist.Init(context.Background(),
		dist.Config{Backend: args[0], Rank: size - 1, Size: size, ID: args[1], Timeout: failureLimit})
	if err != nil {
		return err
	}
	return chunkedAllReduce(g, stopInSecondChunk(g, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }))
}

// check returns what is wrong with a rank's error, or nil.
func (f failure) check(got error, s *bench.State, took time.Duration) error {
	rank, culprit := s.Rank(), s.Size()-1
	if f.Name == matrix.Dies {
		culprit = s.Size()
	}
	var peer *dist.PeerError
	switch {
	case f.Name == matrix.Leaves && rank == culprit:
		if got != nil {
			return fmt.Errorf("leaving the group failed: %v", got)
		}
		return nil
	case got == nil:
		return errors.New("not noticed: no error")
	case took > failureLimit:
		return fmt.Errorf("noticed only after %v (%v)", took.Round(time.Millisecond), got)
	case f.NamesPeer && rank != culprit && (!errors.As(got, &peer) || peer.Rank != culprit):
		return fmt.Errorf("the error does not name rank %d as the culprit: %v", culprit, got)
	case f.Name == matrix.Dies && !peer.Dead:
		return fmt.Errorf("the error does not say that rank %d is dead: %v", culprit, got)
	}
	first, other := failureTypes(s.Backend())
	types := strings.NewReplacer("T", first.String(), "U", other.String())
	for _, text := range f.Mentions {
		if text = types.Replace(text); !strings.Contains(got.Error(), text) {
			return fmt.Errorf("the error does not mention %q: %v", text, got)
		}
	}
	return nil
}
