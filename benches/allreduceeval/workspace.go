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
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// callTimeout is how long a rank waits for the others in a cell that should pass.
const callTimeout = 30 * time.Second

// workspace is the state that one rank keeps between the cells of a launch: the group,
// its memory, and the inputs and expectations that cells share.
type workspace struct {
	g            *dist.Group
	memory       [2][2]dist.Buffer // bytes for inputs and outputs, by kind of memory
	streamed     *workspace        // streams every call as if it were far larger than the caches; nil until needed
	preparations uint64            // number of prepared operations; varies the inputs from one to the next
	seed         uint64
	d            dist.DType
	refs         *reference.Store // inputs and expectations of type d
}

// workspaces holds the workspaces of this process by workspaceKey.
var workspaces sync.Map

func workspaceKey(s *bench.State) string { return fmt.Sprintf("%s/%d", s.Session(), s.Rank()) }

// openWorkspace returns this rank's workspace, creating it on first use. It is a
// collective: all ranks must call it.
func openWorkspace(ctx context.Context, s *bench.State, d dist.DType) (*workspace, error) {
	kept, _ := workspaces.Load(workspaceKey(s))
	w, _ := kept.(*workspace)
	if w == nil {
		g, err := join(ctx, s, "/eval", dist.Config{Timeout: callTimeout})
		if err != nil {
			return nil, collectives.JoinError(err)
		}
		w = &workspace{g: g, seed: s.Seed()}
		workspaces.Store(workspaceKey(s), w)
	}
	collectives.Describe(s, w.g)
	if w.refs == nil || w.d != d {
		w.d, w.refs = d, reference.NewStore(d, w.g.Rank())
	}
	return w, nil
}

// openStreamed returns the workspace for streamed sizes, which has a group of its own and shares the references.
func (w *workspace) openStreamed(ctx context.Context, s *bench.State) (*workspace, error) {
	if w.streamed == nil {
		g, err := join(ctx, s, "/streamed", dist.Config{Timeout: callTimeout, StreamFrom: 1})
		if err != nil {
			return nil, err
		}
		w.streamed = &workspace{g: g, seed: w.seed}
	}
	w.streamed.d, w.streamed.refs = w.d, w.refs
	return w.streamed, nil
}

// join joins a group of all ranks of the launch.
func join(ctx context.Context, s *bench.State, name string, c dist.Config) (*dist.Group, error) {
	c.Backend, c.Rank, c.Size, c.ID = s.Backend(), s.Rank(), s.Size(), s.Session()+name
	return dist.Init(ctx, c)
}

// closeWorkspace closes both groups of a launch. A group cannot be used after one of
// its calls has failed.
func closeWorkspace(s *bench.State) {
	if kept, ok := workspaces.LoadAndDelete(workspaceKey(s)); ok {
		w := kept.(*workspace)
		w.g.Close()
		if w.streamed != nil {
			w.streamed.g.Close()
		}
	}
}

// The kinds of memory.
const (
	privateMemory = iota
	symmetricMemory
)

var memoryNames = []string{"private", "symmetric"}

// memoryKinds returns the kinds of memory that the backend has.
func (w *workspace) memoryKinds() []int {
	if w.g.Capabilities().Has(dist.SymmetricMemory) {
		return []int{privateMemory, symmetricMemory}
	}
	return []int{privateMemory}
}

// alloc allocates a vector. In symmetric memory it is a collective.
func (w *workspace) alloc(kind int, d dist.DType, count int) (dist.Buffer, error) {
	if kind == symmetricMemory {
		return w.g.Alloc(d, count)
	}
	return dist.Make(d, count), nil
}

func (w *workspace) free(kind int, b dist.Buffer) error {
	if kind != symmetricMemory || b.Count() == 0 {
		return nil
	}
	return w.g.Free(b)
}

// reserve makes all buffers at least that many bytes long. It is a collective.
func (w *workspace) reserve(bytes int) error {
	if w.memory[privateMemory][0].Count() >= bytes {
		return nil
	}
	bytes += 512 // the next size often has a few elements more
	for _, kind := range w.memoryKinds() {
		for i, old := range w.memory[kind] {
			err := w.free(kind, old)
			if err == nil {
				w.memory[kind][i], err = w.alloc(kind, dist.U8, bytes)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// buffers returns an input and an output in a kind of memory.
func (w *workspace) buffers(count, kind int) (in, out dist.Buffer) {
	return view(w.memory[kind][0], w.d, count), view(w.memory[kind][1], w.d, count)
}

// view returns the first elements of a buffer's memory as elements of a type.
func view(b dist.Buffer, d dist.DType, count int) dist.Buffer {
	if data := b.Bytes(); data != nil && count > 0 {
		return dist.NewBuffer(d, count, unsafe.Pointer(&data[0]), b.Memory())
	}
	return dist.NewBuffer(d, count, nil, b.Memory())
}

// argument returns elements of the workspace's type in host memory as a buffer.
func (w *workspace) argument(elements []byte) dist.Buffer {
	return dist.NewBuffer(w.d, len(elements)/w.d.Size(), unsafe.Pointer(unsafe.SliceData(elements)), nil)
}

// runInput is the input of one run.
type runInput struct {
	in     reference.Inputs
	window reference.Window
}

func (c runInput) String() string { return c.in.Kind() + " inputs" }

// exactInput returns the i-th input with exact values. Each run begins at another element.
func (w *workspace) exactInput(i, count int) runInput {
	first := (int(w.preparations%reference.RunStarts) + i) % reference.RunStarts * reference.RunStride
	return runInput{w.inputs(reference.Exact), reference.Window{First: first, Count: count}}
}

func (w *workspace) inputs(kind string) reference.Inputs {
	return reference.NewInputs(kind, w.d, w.g.Size(), w.seed)
}

// setUp overwrites an output with the guard and writes an input, in this order because both may be the same memory.
func setUp(out, in dist.Buffer, input []byte) error {
	return errors.Join(
		instrument.Overwrite(out, func(piece dist.Buffer, _ int) { fillGuard(piece.Bytes()) }),
		instrument.Overwrite(in, func(piece dist.Buffer, first int) {
			copy(piece.Bytes(), input[first*in.DType().Size():])
		}))
}

// unsupported returns an error if the backend cannot run a row. It is a skip if the row
// does not apply, and "not executed" if it applies but the backend lacks something.
func (w *workspace) unsupported(algorithm string, d dist.DType, epilogue bool) error {
	caps, info, codec := w.g.Capabilities(), matrix.Find(algorithm), matrix.Codec(algorithm)
	offered, backend := caps.Algorithms[dist.AllReduce], w.g.Backend()
	switch {
	case caps.Missing[algorithm] != "":
		return bench.NotExecuted(false, "no %s: %s", algorithm, caps.Missing[algorithm])
	case info.Hardware != "" && !slices.Contains(offered, algorithm):
		return bench.NotExecuted(false, "%s needs %s; backend %s has none", algorithm, info.Hardware, backend)
	case !slices.Contains(caps.DTypes, d):
		return bench.NotExecuted(false, "backend %s has no %v (it has %s)", backend, d, joinNames(caps.DTypes))
	case epilogue && !caps.Has(dist.FusedEpilogue):
		return bench.NotExecuted(false, "backend %s has no epilogue", backend)
	case codec != nil && !caps.Takes(*codec):
		return bench.NotExecuted(false, "backend %s does not move elements encoded as %s", backend, codec.Name())
	case codec != nil || algorithm == matrix.Auto || slices.Contains(offered, algorithm):
		return nil
	}
	if slices.Contains(schedule.Names(schedule.AllReduce), algorithm) {
		if err := schedule.Fits(schedule.AllReduce, algorithm, w.g.Size()); err != nil {
			return bench.Skip("%v", err)
		}
	}
	return bench.NotExecuted(false, "backend %s has no %s (it has %s)", backend, algorithm, strings.Join(offered, ", "))
}

// newCall returns an all-reduce by an algorithm of the matrix, still without buffers.
func newCall(algorithm string) dist.Call {
	call := dist.Call{Op: dist.AllReduce, Reduction: dist.Sum, Algorithm: algorithm}
	if codec := matrix.Codec(algorithm); codec != nil { // the codec implies the algorithm
		call.Algorithm, call.Codec = "", *codec
	}
	return call
}

// knownSchedule returns the algorithm if its order of additions is known: the backend
// must execute the registered steps, in the same order on all ranks. Otherwise it
// returns "".
func (w *workspace) knownSchedule(algorithm string) string {
	caps := w.g.Capabilities()
	if caps.Has(dist.RanksMayDiffer) || !slices.Contains(caps.Algorithms[dist.AllReduce], algorithm) ||
		!slices.Contains(schedule.Names(schedule.AllReduce), algorithm) {
		return ""
	}
	return algorithm
}
