package allreduceeval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// callTimeout is how long a rank waits for another in a cell that should pass.
const callTimeout = 30 * time.Second

// workspace is what one rank keeps from cell to cell of a launch: the group,
// memory, and the inputs and expectations that cells share.
type workspace struct {
	g     *dist.Group
	space [2]struct{ in, out []byte } // private and symmetric memory
	place [2]any
	far   [2]dist.DeviceMemory // symmetric memory that the host cannot reach, in and out: space has copies then
	calls uint64               // so far; every second one has other inputs, so that no result stands for the next
	d     dist.DType
	refs  *reference.Store // of this element type
}

var workspaces sync.Map // those of this process, by workspaceKey

// The groups of a launch: one that calls as anybody does, and one whose calls all take
// the ways that are made for those far larger than the caches.
const (
	usual    = "/eval"
	streamed = "/streamed"
)

func workspaceKey(s *bench.State, which string) string {
	return fmt.Sprintf("%s/%d%s", s.Session(), s.Rank(), which)
}

// openWorkspace gives this rank's workspace of the launch. All ranks of it call it alike.
func openWorkspace(ctx context.Context, s *bench.State, d dist.DType) (*workspace, error) {
	w, err := joinedWorkspace(ctx, s, usual, dist.Config{})
	if err != nil {
		return nil, collectives.JoinError(err)
	}
	collectives.Describe(s, w.g)
	if w.refs == nil || w.d != d {
		w.d, w.refs = d, reference.NewStore(d, w.g.Rank())
	}
	return w, nil
}

// streamedWorkspace is the one for streamed sizes; it shares inputs and expectations.
func streamedWorkspace(ctx context.Context, s *bench.State, with *workspace) (*workspace, error) {
	w, err := joinedWorkspace(ctx, s, streamed, dist.Config{StreamFrom: 1})
	if err == nil {
		w.d, w.refs = with.d, with.refs
	}
	return w, err
}

// joinedWorkspace is one that is kept, or one with a new group.
func joinedWorkspace(ctx context.Context, s *bench.State, which string, c dist.Config) (*workspace, error) {
	key := workspaceKey(s, which)
	if w, kept := workspaces.Load(key); kept {
		return w.(*workspace), nil
	}
	c.Backend, c.Rank, c.Size, c.Timeout, c.ID = s.Backend(), s.Rank(), s.Size(), callTimeout, s.Session()+which
	g, err := dist.Init(ctx, c)
	if err != nil {
		return nil, err
	}
	w := &workspace{g: g}
	workspaces.Store(key, w)
	return w, nil
}

// closeWorkspace drops the workspaces of a launch of which a group has failed, or that
// nobody needs any more.
func closeWorkspace(s *bench.State) {
	for _, which := range []string{usual, streamed} {
		if w, kept := workspaces.LoadAndDelete(workspaceKey(s, which)); kept {
			w.(*workspace).g.Close()
		}
	}
}

// The kinds of memory.
const (
	privateMemory = iota
	symmetricMemory
)

var memoryNames = []string{"private", "symmetric"}

// memories are the kinds that the backend has.
func (w *workspace) memories() []int {
	if w.g.Capabilities().Has(dist.SymmetricMemory) {
		return []int{privateMemory, symmetricMemory}
	}
	return []int{privateMemory}
}

// reserve makes both kinds of memory large enough for a vector and a guard
// behind it. It is a collective.
func (w *workspace) reserve(bytes int) error {
	if len(w.space[privateMemory].in) >= bytes {
		return nil
	}
	bytes += 512 // the next size has a few elements more
	w.space[privateMemory].in, w.space[privateMemory].out = reference.Aligned(bytes), reference.Aligned(bytes)
	if !w.g.Capabilities().Has(dist.SymmetricMemory) {
		return nil
	}
	for i, b := range []*[]byte{&w.space[symmetricMemory].in, &w.space[symmetricMemory].out} {
		if len(*b) > 0 {
			if err := w.g.Free(w.symmetric(i, *b, dist.U8, len(*b))); err != nil {
				return err
			}
		}
		got, err := w.g.Alloc(dist.U8, bytes)
		if err != nil {
			return err
		}
		*b, w.place[symmetricMemory] = got.Bytes(), got.Memory()
		if far, unreachable := got.Memory().(dist.DeviceMemory); unreachable {
			*b, w.far[i] = reference.Aligned(bytes), far
		}
	}
	return nil
}

// symmetric is elements at the start of the input's (0) or the output's symmetric memory.
func (w *workspace) symmetric(which int, b []byte, d dist.DType, count int) dist.Buffer {
	if w.far[which] != nil && count > 0 {
		return dist.NewBuffer(d, count, nil, w.far[which])
	}
	return w.buffer(b, d, count, symmetricMemory)
}

// ends are an input and an output in a kind of memory.
func (w *workspace) ends(count, memory int) (in, out dist.Buffer) {
	space := w.space[memory]
	if memory == symmetricMemory {
		return w.symmetric(0, space.in, w.d, count), w.symmetric(1, space.out, w.d, count)
	}
	return w.buffer(space.in, w.d, count, memory), w.buffer(space.out, w.d, count, memory)
}

// around makes a run. To memory that the host cannot reach it brings what the host has
// of it, so many bytes, and back what the run has left there.
func (w *workspace) around(memory, bytes int, run func() error) error {
	if memory != symmetricMemory || w.far[0] == nil {
		return run()
	}
	space := w.space[memory]
	if err := errors.Join(w.far[0].Write(0, space.in[:bytes]), w.far[1].Write(0, space.out[:bytes])); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return errors.Join(w.far[0].Read(space.in[:bytes], 0), w.far[1].Read(space.out[:bytes], 0))
}

// buffer is elements at the start of memory.
func (w *workspace) buffer(b []byte, d dist.DType, count, memory int) dist.Buffer {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, w.place[memory])
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&b[0]), w.place[memory])
}

// unsupported says why the backend cannot run the row: skipped is for what makes
// no sense, not executed for what should run and cannot.
func (w *workspace) unsupported(algorithm string, d dist.DType, epilogue bool) error {
	caps, info := w.g.Capabilities(), matrix.Find(algorithm)
	offered := caps.Algorithms[dist.AllReduce]
	name, codec := planned(algorithm)
	switch {
	case caps.Missing[algorithm] != "":
		return bench.NotExecuted(false, "no %s: %s", algorithm, caps.Missing[algorithm])
	case info.Hardware != "" && !slices.Contains(offered, algorithm):
		return bench.NotExecuted(false, "%s needs %s; backend %s has none", algorithm, info.Hardware, w.g.Backend())
	case !slices.Contains(caps.Ops, dist.AllReduce) || !slices.Contains(caps.Reductions, dist.Sum):
		return bench.NotExecuted(true, "backend %s has no all-reduce of sums", w.g.Backend())
	case !slices.Contains(caps.DTypes, d):
		return bench.NotExecuted(false, "backend %s has no %v (it has %s)", w.g.Backend(), d, list(caps.DTypes))
	case epilogue && !caps.Has(dist.FusedEpilogue):
		return bench.NotExecuted(false, "backend %s has no epilogue", w.g.Backend())
	case codec != nil && !caps.Takes(*codec):
		return bench.NotExecuted(false, "backend %s moves no elements encoded as %s", w.g.Backend(), codec.Name())
	}
	if codec != nil || name == matrix.Auto || slices.Contains(offered, name) {
		return nil
	}
	if slices.Contains(schedule.Names(schedule.AllReduce), name) {
		if err := schedule.Fits(schedule.AllReduce, name, w.g.Size()); err != nil {
			return bench.Skip("%v", err)
		}
	}
	return bench.NotExecuted(false, "backend %s has no %s (it has %s)", w.g.Backend(), algorithm,
		strings.Join(offered, ", "))
}

// planned is how a call asks for an algorithm of the matrix.
func planned(algorithm string) (name string, codec *quant.Codec) {
	if c := matrix.Codec(algorithm); c != nil {
		return "", c
	}
	return algorithm, nil
}

// schedule is the algorithm whose order of additions a call of it has, "" where
// that is not known: a backend may add up in other orders than the steps that are
// registered.
func (w *workspace) schedule(algorithm string) string {
	caps := w.g.Capabilities()
	if caps.Has(dist.RanksMayDiffer) || !slices.Contains(caps.Algorithms[dist.AllReduce], algorithm) ||
		!slices.Contains(schedule.Names(schedule.AllReduce), algorithm) {
		return ""
	}
	return algorithm
}

func list[T fmt.Stringer](values []T) string {
	names := lists.Map(values, func(v T) string { return v.String() })
	return strings.Join(names, ", ")
}
