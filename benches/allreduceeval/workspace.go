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
)

// callTimeout is how long a rank waits for the others in a cell that should pass.
const callTimeout = 30 * time.Second

// workspace is the state that one rank keeps between the cells of a launch: the group,
// its memory, and the inputs and expectations that cells share.
type workspace struct {
	g            *dist.Group
	host         [2]struct{ in, out []byte } // host view of each kind of memory; a copy if device is set
	handle       [2]any                      // dist.Buffer.Memory of each kind of memory
	device       [2]dist.DeviceMemory        // symmetric input and output, if the host cannot access them
	preparations uint64                      // number of prepared operations; varies the inputs from one to the next
	d            dist.DType
	refs         *reference.Store // inputs and expectations of type d
}

// workspaces holds the workspaces of this process by workspaceKey.
var workspaces sync.Map

// A launch has two groups: one with the default configuration, and one that streams
// every call as if it were far larger than the caches.
const (
	defaultGroup  = "/eval"
	streamedGroup = "/streamed"
)

func workspaceKey(s *bench.State, group string) string {
	return fmt.Sprintf("%s/%d%s", s.Session(), s.Rank(), group)
}

// openWorkspace returns this rank's workspace, creating it on first use. It is a
// collective: all ranks must call it.
func openWorkspace(ctx context.Context, s *bench.State, d dist.DType) (*workspace, error) {
	w, err := joinWorkspace(ctx, s, defaultGroup, dist.Config{})
	if err != nil {
		return nil, collectives.JoinError(err)
	}
	collectives.Describe(s, w.g)
	if w.refs == nil || w.d != d {
		w.d, w.refs = d, reference.NewStore(d, w.g.Rank())
	}
	return w, nil
}

// openStreamed returns the workspace for streamed sizes, which shares the references
// of another.
func openStreamed(ctx context.Context, s *bench.State, with *workspace) (*workspace, error) {
	w, err := joinWorkspace(ctx, s, streamedGroup, dist.Config{StreamFrom: 1})
	if err == nil {
		w.d, w.refs = with.d, with.refs
	}
	return w, err
}

// joinWorkspace returns an existing workspace, or creates one with a new group.
func joinWorkspace(ctx context.Context, s *bench.State, group string, c dist.Config) (*workspace, error) {
	key := workspaceKey(s, group)
	if w, ok := workspaces.Load(key); ok {
		return w.(*workspace), nil
	}
	c.Backend, c.Rank, c.Size, c.Timeout, c.ID = s.Backend(), s.Rank(), s.Size(), callTimeout, s.Session()+group
	g, err := dist.Init(ctx, c)
	if err != nil {
		return nil, err
	}
	w := &workspace{g: g}
	workspaces.Store(key, w)
	return w, nil
}

// closeWorkspace closes both groups of a launch. A group cannot be used after one of
// its calls has failed.
func closeWorkspace(s *bench.State) {
	for _, group := range []string{defaultGroup, streamedGroup} {
		if w, ok := workspaces.LoadAndDelete(workspaceKey(s, group)); ok {
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

// memoryKinds returns the kinds of memory that the backend has.
func (w *workspace) memoryKinds() []int {
	if w.g.Capabilities().Has(dist.SymmetricMemory) {
		return []int{privateMemory, symmetricMemory}
	}
	return []int{privateMemory}
}

// reserve makes all buffers at least that many bytes long. It is a collective, because
// symmetric memory is allocated by all ranks together.
func (w *workspace) reserve(bytes int) error {
	if len(w.host[privateMemory].in) >= bytes {
		return nil
	}
	bytes += 512 // the next size often has a few elements more
	w.host[privateMemory].in, w.host[privateMemory].out = reference.Aligned(bytes), reference.Aligned(bytes)
	if !w.g.Capabilities().Has(dist.SymmetricMemory) {
		return nil
	}
	for i, b := range []*[]byte{&w.host[symmetricMemory].in, &w.host[symmetricMemory].out} {
		if len(*b) > 0 {
			if err := w.g.Free(w.symmetricBuffer(i, *b, dist.U8, len(*b))); err != nil {
				return err
			}
		}
		got, err := w.g.Alloc(dist.U8, bytes)
		if err != nil {
			return err
		}
		*b, w.handle[symmetricMemory] = got.Bytes(), got.Memory()
		if device, is := got.Memory().(dist.DeviceMemory); is {
			*b, w.device[i] = reference.Aligned(bytes), device
		}
	}
	return nil
}

// symmetricBuffer returns the first count elements of the symmetric input (0) or
// output (1), whose host view is b.
func (w *workspace) symmetricBuffer(which int, b []byte, d dist.DType, count int) dist.Buffer {
	if w.device[which] != nil && count > 0 {
		return dist.NewBuffer(d, count, nil, w.device[which])
	}
	return w.buffer(b, d, count, symmetricMemory)
}

// buffers returns an input and an output in a kind of memory.
func (w *workspace) buffers(count, memory int) (in, out dist.Buffer) {
	host := w.host[memory]
	if memory == symmetricMemory {
		return w.symmetricBuffer(0, host.in, w.d, count), w.symmetricBuffer(1, host.out, w.d, count)
	}
	return w.buffer(host.in, w.d, count, memory), w.buffer(host.out, w.d, count, memory)
}

// runStaged calls run. If the memory is on a device, it copies that many bytes of input
// and output from the host view to the device before, and back afterwards.
func (w *workspace) runStaged(memory, bytes int, run func() error) error {
	if memory != symmetricMemory || w.device[0] == nil {
		return run()
	}
	host := w.host[memory]
	if err := errors.Join(w.device[0].Write(0, host.in[:bytes]), w.device[1].Write(0, host.out[:bytes])); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return errors.Join(w.device[0].Read(host.in[:bytes], 0), w.device[1].Read(host.out[:bytes], 0))
}

// buffer returns the first count elements of b as a buffer in a kind of memory.
func (w *workspace) buffer(b []byte, d dist.DType, count, memory int) dist.Buffer {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, w.handle[memory])
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&b[0]), w.handle[memory])
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
	case !slices.Contains(caps.Ops, dist.AllReduce) || !slices.Contains(caps.Reductions, dist.Sum):
		return bench.NotExecuted(true, "backend %s has no all-reduce of sums", backend)
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
