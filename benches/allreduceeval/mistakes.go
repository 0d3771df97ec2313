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
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// The mistakes and failures, each made by the last rank. Whatever it is, every
// rank must get an error that says what, in time.
const (
	duplicateRank = "duplicate-rank"
	otherCount    = "other-count"
	otherDType    = "other-dtype"
	smallBuffer   = "small-buffer"
	leaves        = "leaves"
	stalls        = "stalls"
	dies          = "dies"
)

// mistake is one of them: what to do, and what the error must say.
type mistake struct {
	name   string
	help   string
	naming []string // all of these stand in the error of every rank; T is the element type
	peer   bool     // a PeerError that names the culprit; otherwise a mistake
}

var mistakes = []mistake{
	{duplicateRank, "two processes claim the same rank", nil, false},
	{otherCount, "one rank has one element more", []string{"1000 T", "1001 T"}, false},
	{otherDType, "one rank has another element type", []string{"1000 T", "1000 i32"}, false},
	{smallBuffer, "one rank's output is too small", []string{"out has 900 elements"}, false},
	{leaves, "one rank leaves the group instead", nil, true},
	{stalls, "one rank stops half-way and stays alive", nil, true},
	{dies, "one rank's process is killed half-way", nil, true},
}

func mistakeNames() (names []string) {
	for _, m := range mistakes {
		names = append(names, m.name)
	}
	return names
}

// The time that ranks have in these cells: stallLimit is the group's time-out,
// mistakeLimit what all of it may take, also on a busy machine.
const (
	stallLimit   = 2 * time.Second
	mistakeLimit = 20 * time.Second
)

// mistakeCells is the body: a row is a mistake, and its cell is whether all
// ranks noticed.
func mistakeCells(ctx context.Context, s *bench.State) error {
	i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.name == s.Str("mistake") })
	if i < 0 {
		return fmt.Errorf("no mistake is called %s (there are %s)", s.Str("mistake"), strings.Join(mistakeNames(), ", "))
	}
	m := mistakes[i]
	if why := m.lacking(s.Backend()); why != "" {
		return bench.NotExecuted(false, "%s", why)
	}
	s.Phase(m.name)
	began := time.Now()
	got := m.commit(ctx, s)
	took := time.Since(began)
	fault := m.judge(got, s, took)
	var wrong int64
	if fault != nil {
		wrong = 1
	}
	all, err := s.Group().Exchange(ctx, []int64{wrong})
	if err != nil {
		return err
	}
	v := verdict{others: -1}
	v.addNamed(m.name, fault, all)
	if got != nil {
		s.Detail("error", got.Error())
	}
	s.Detail("cells", formatOutcomes(v.outcomes))
	s.Report("wall_ms", float64(took.Microseconds())/1e3, "ms", "")
	return v.err(nil)
}

// lacking says what the backend lacks for the cell.
func (m mistake) lacking(backend string) string {
	shape := dist.ShapeOf(backend)
	switch {
	case m.name == dies && shape.InProcess:
		return "the ranks of backend " + backend + " are all in one process: none can die alone"
	case m.name == otherDType && backend == ahbm.Name:
		return "backend " + backend + " has one element type"
	case (m.name == dies || m.name == stalls) && backend != "cpu":
		return "stopping half-way takes a codec that stops, which backend " + backend + " does not run"
	}
	return ""
}

// commit joins a group of its own, so that its end spoils no other cell, and
// makes the mistake. It gives this rank's error.
func (m mistake) commit(ctx context.Context, s *bench.State) error {
	last := s.Size() - 1
	cfg := dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: stallLimit,
		ID: s.Session() + "/" + m.name}
	switch m.name {
	case duplicateRank:
		if s.Rank() == last {
			cfg.Rank = last - 1
		}
	case dies:
		cfg.Size++ // the one that dies comes in addition
		if s.Rank() == 0 {
			helper, err := bench.HelperCommand(ctx, Name, dyingHelper, cfg.ID, strconv.Itoa(cfg.Size))
			if err != nil {
				return err
			}
			if err := helper.Start(); err != nil {
				return err
			}
			defer helper.Wait()
		}
		cfg.Timeout = mistakeLimit // its death must be noticed, not its silence
	}
	g, err := dist.Init(ctx, cfg)
	if err != nil {
		return err
	}
	if m.name == stalls {
		return m.stall(ctx, s, g)
	}
	defer g.Close()
	culprit, d := s.Rank() == last, mistakeType(s.Backend())
	in, out := zeros(d, 1000), zeros(d, 1000)
	switch {
	case m.name == dies:
		return halfWay(g, quant.Int8)
	case culprit && m.name == leaves:
		return nil
	case culprit && m.name == otherCount:
		in, out = zeros(d, 1001), zeros(d, 1001)
	case culprit && m.name == otherDType:
		in, out = zeros(dist.I32, 1000), zeros(dist.I32, 1000)
	case culprit && m.name == smallBuffer:
		out = zeros(d, 900)
	}
	return g.AllReduce(out, in, dist.Sum)
}

// mistakeType is an element type that the backend has.
func mistakeType(backend string) dist.DType {
	if backend == ahbm.Name {
		return dist.F16
	}
	return dist.F32
}

func zeros(d dist.DType, count int) dist.Buffer {
	return dist.NewBuffer(d, count, unsafe.Pointer(&aligned(count * d.Size())[0]), nil)
}

// halfWay is an all-reduce of several pieces, in the second of which a codec may
// stop.
func halfWay(g *dist.Group, c dist.Codec) error {
	const pieces, piece = 4, 1024
	b := dist.Of(make([]float32, pieces*piece*g.Size()))
	return g.AllReduce(b, b, dist.Sum, dist.WithCodec(c), dist.Chunk(piece*g.Size()))
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
func (m mistake) stall(ctx context.Context, s *bench.State, g *dist.Group) error {
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
	if len(args) != 2 {
		return fmt.Errorf("want the group's name and size, not %q", args)
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	g, err := dist.Init(context.Background(), dist.Config{Backend: "cpu", Rank: size - 1, Size: size, ID: args[0], Timeout: mistakeLimit})
	if err != nil {
		return err
	}
	return halfWay(g, after(g, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }))
}

// judge says what is wrong with a rank's error.
func (m mistake) judge(got error, s *bench.State, took time.Duration) error {
	rank, culprit := s.Rank(), s.Size()-1
	if m.name == dies {
		culprit = s.Size()
	}
	var peer *dist.PeerError
	switch {
	case m.name == leaves && rank == culprit:
		if got != nil {
			return fmt.Errorf("leaving gave %v", got)
		}
		return nil
	case got == nil:
		return errors.New("it went unnoticed: no error")
	case took > mistakeLimit:
		return fmt.Errorf("noticed after %v only (%v)", took.Round(time.Millisecond), got)
	case m.peer && rank != culprit && (!errors.As(got, &peer) || peer.Rank != culprit):
		return fmt.Errorf("the error does not name rank %d as the culprit: %v", culprit, got)
	case m.name == dies && !peer.Dead:
		return fmt.Errorf("the error does not say that rank %d is dead: %v", culprit, got)
	}
	for _, part := range m.naming {
		part = strings.ReplaceAll(part, "T", mistakeType(s.Backend()).String())
		if !strings.Contains(got.Error(), part) {
			return fmt.Errorf("the error does not mention %q: %v", part, got)
		}
	}
	return nil
}
