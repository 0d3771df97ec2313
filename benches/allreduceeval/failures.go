package allreduceeval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// failure is a mistake or failure of the last rank. Whatever it is, every rank
// must get an error that says what, in time.
type failure struct {
	name   string
	naming []string // all of these stand in the error of every rank; T and U are the element types
	peer   bool     // a PeerError that names the culprit; otherwise a mistake
}

var failures = map[string]failure{
	matrix.DuplicateRank: {},
	matrix.OtherCount:    {naming: []string{"1000 T", "1001 T"}},
	matrix.OtherDType:    {naming: []string{"1000 T", "1000 U"}},
	matrix.SmallBuffer:   {naming: []string{"out has 900 elements"}},
	matrix.Leaves:        {peer: true},
	matrix.Stalls:        {peer: true},
	matrix.Dies:          {peer: true},
}

func failureNames() []string {
	return lists.Map(matrix.Failures, func(f matrix.Failure) string { return f.Name })
}

// The time that ranks have in these cells: stallTimeout is the group's time-out,
// failureLimit what all of it may take, also on a busy machine.
const (
	stallTimeout = 2 * time.Second
	failureLimit = 20 * time.Second
)

// failureCells is the body: a row is a failure, and its cell is whether all
// ranks noticed.
func failureCells(ctx context.Context, s *bench.State) error {
	f, known := failures[s.Str("mistake")]
	if f.name = s.Str("mistake"); !known {
		return bench.Unknown("mistake", f.name, failureNames())
	}
	if why := f.unsupported(s.Backend()); why != "" {
		return bench.NotExecuted(false, "%s", why)
	}
	s.Phase(f.name)
	began := time.Now()
	got := f.commit(ctx, s)
	took := time.Since(began)
	v := verdict{others: -1}
	if err := v.collect(ctx, s, f.name, within(f.name, f.judge(got, s, took))); err != nil {
		return err
	}
	if got != nil {
		s.Detail("error", got.Error())
	}
	s.Detail("cells", matrix.FormatOutcomes(v.outcomes))
	s.Report("wall_ms", float64(took.Microseconds())/1e3, "ms", "")
	return v.err(nil)
}

// unsupported says what the backend lacks for the cell.
func (f failure) unsupported(backend string) string {
	d := dist.Describe(backend)
	switch {
	case f.name == matrix.Dies && d.InProcess:
		return "the ranks of backend " + backend + " are all in one process: none can die alone"
	case f.name == matrix.OtherDType && len(d.DTypes) == 1:
		return "backend " + backend + " has one element type"
	case (f.name == matrix.Dies || f.name == matrix.Stalls) && !d.Has(dist.AnyCodec):
		return "stopping half-way takes a codec that stops, which backend " + backend + " does not run"
	}
	return ""
}

// commit joins a group of its own, so that its end spoils no other cell, and
// makes the mistake. It gives this rank's error.
func (f failure) commit(ctx context.Context, s *bench.State) error {
	last := s.Size() - 1
	cfg := dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: stallTimeout,
		ID: s.Session() + "/" + f.name}
	switch f.name {
	case matrix.DuplicateRank:
		if s.Rank() == last {
			cfg.Rank = last - 1
		}
	case matrix.Dies:
		cfg.Size++ // the one that dies comes in addition
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
		cfg.Timeout = failureLimit // its death must be noticed, not its silence
	}
	g, err := dist.Init(ctx, cfg)
	if err != nil {
		return err
	}
	if f.name == matrix.Stalls {
		return f.stall(ctx, s, g)
	}
	defer g.Close()
	culprit := s.Rank() == last
	d, other := failureTypes(s.Backend())
	in, out := zeros(d, 1000), zeros(d, 1000)
	switch {
	case f.name == matrix.Dies:
		return halfWay(g, quant.Int8)
	case culprit && f.name == matrix.Leaves:
		return nil
	case culprit && f.name == matrix.OtherCount:
		in, out = zeros(d, 1001), zeros(d, 1001)
	case culprit && f.name == matrix.OtherDType:
		in, out = zeros(other, 1000), zeros(other, 1000)
	case culprit && f.name == matrix.SmallBuffer:
		out = zeros(d, 900)
	}
	return g.AllReduce(out, in, dist.Sum)
}

// failureTypes are two element types that the backend has.
func failureTypes(backend string) (first, other dist.DType) {
	has := dist.Describe(backend).DTypes
	choose := func(best dist.DType, i int) dist.DType {
		if slices.Contains(has, best) {
			return best
		}
		return has[min(i, len(has)-1)]
	}
	return choose(dist.F32, 0), choose(dist.I32, 1)
}

func zeros(d dist.DType, count int) dist.Buffer {
	return dist.NewBuffer(d, count, unsafe.Pointer(&reference.Aligned(count * d.Size())[0]), nil)
}

// halfWay is an all-reduce of several pieces, in the second of which a codec may
// stop.
func halfWay(g *dist.Group, c dist.Codec) error {
	const pieces, piece = 4, 1024
	b := dist.Of(make([]float32, pieces*piece*g.Size()))
	return g.Do(dist.Call{Op: dist.AllReduce, In: b, Out: b, Codec: c, Chunk: piece * g.Size()})
}

// stopping is a codec that does something else than encode after some calls.
type stopping struct {
	quant.Codec
	left *atomic.Int64
	stop func()
}

func (c stopping) Encode(dst, src []byte, d dist.DType) {
	if c.left.Add(-1) < 0 {
		c.stop()
	}
	c.Codec.Encode(dst, src, d)
}

// after is a codec that stops in the second piece of halfWay.
func after(g *dist.Group, stop func()) stopping {
	left := &atomic.Int64{}
	left.Store(int64(g.Size() + 2))
	return stopping{quant.Int8, left, stop}
}

// stall lets the last rank stop half-way until the others have their error.
func (f failure) stall(ctx context.Context, s *bench.State, g *dist.Group) error {
	defer g.Close()
	if s.Rank() != s.Size()-1 {
		err := halfWay(g, quant.Int8)
		return errors.Join(err, s.Barrier(ctx))
	}
	wake, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- halfWay(g, after(g, func() { <-wake })) }()
	err := s.Barrier(ctx)
	close(wake)
	return errors.Join(<-done, err)
}

// dyingHelper is the process that is killed half-way.
const dyingHelper = "dying-rank"

func dyingRank(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want the backend, the group's name and its size, not %q", args)
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
	return halfWay(g, after(g, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }))
}

// judge says what is wrong with a rank's error.
func (f failure) judge(got error, s *bench.State, took time.Duration) error {
	rank, culprit := s.Rank(), s.Size()-1
	if f.name == matrix.Dies {
		culprit = s.Size()
	}
	var peer *dist.PeerError
	switch {
	case f.name == matrix.Leaves && rank == culprit:
		if got != nil {
			return fmt.Errorf("leaving gave %v", got)
		}
		return nil
	case got == nil:
		return errors.New("it went unnoticed: no error")
	case took > failureLimit:
		return fmt.Errorf("noticed after %v only (%v)", took.Round(time.Millisecond), got)
	case f.peer && rank != culprit && (!errors.As(got, &peer) || peer.Rank != culprit):
		return fmt.Errorf("the error does not name rank %d as the culprit: %v", culprit, got)
	case f.name == matrix.Dies && !peer.Dead:
		return fmt.Errorf("the error does not say that rank %d is dead: %v", culprit, got)
	}
	first, other := failureTypes(s.Backend())
	types := strings.NewReplacer("T", first.String(), "U", other.String())
	for _, part := range f.naming {
		part = types.Replace(part)
		if !strings.Contains(got.Error(), part) {
			return fmt.Errorf("the error does not mention %q: %v", part, got)
		}
	}
	return nil
}
