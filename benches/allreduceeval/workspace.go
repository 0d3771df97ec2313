package allreduceeval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
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
	place [2]dist.Memory
	calls uint64 // so far; every second one has other inputs, so that no result stands for the next
	d     dist.DType
	refs  *reference.Store // of this element type
}

var workspaces = struct {
	sync.Mutex
	byRank map[string]*workspace
}{byRank: map[string]*workspace{}}

func workspaceKey(s *bench.State) string { return fmt.Sprintf("%s/%d", s.Session(), s.Rank()) }

// openWorkspace gives this rank's workspace of the launch. All ranks of it call it alike.
func openWorkspace(ctx context.Context, s *bench.State, d dist.DType) (*workspace, error) {
	workspaces.Lock()
	w := workspaces.byRank[workspaceKey(s)]
	workspaces.Unlock()
	if w == nil {
		g, err := dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: callTimeout, ID: s.Session() + "/eval"})
		if err != nil {
			return nil, err
		}
		w = &workspace{g: g}
		workspaces.Lock()
		workspaces.byRank[workspaceKey(s)] = w
		workspaces.Unlock()
	}
	if w.refs == nil || w.d != d {
		w.d, w.refs = d, reference.NewStore(d, w.g.Rank())
	}
	return w, nil
}

// closeWorkspace drops a workspace whose group has failed, or that nobody needs any more.
func closeWorkspace(s *bench.State) {
	workspaces.Lock()
	w := workspaces.byRank[workspaceKey(s)]
	delete(workspaces.byRank, workspaceKey(s))
	workspaces.Unlock()
	if w != nil {
		w.g.Close()
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
	if w.g.Capabilities().Symmetric {
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
	if !w.g.Capabilities().Symmetric {
		return nil
	}
	for _, b := range []*[]byte{&w.space[symmetricMemory].in, &w.space[symmetricMemory].out} {
		if len(*b) > 0 {
			if err := w.g.Free(w.buffer(*b, dist.U8, len(*b), symmetricMemory)); err != nil {
				return err
			}
		}
		got, err := w.g.Alloc(dist.U8, bytes)
		if err != nil {
			return err
		}
		*b, w.place[symmetricMemory] = got.Bytes(), got.Memory()
	}
	return nil
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
	case info.Hardware != "" && !slices.Contains(offered, algorithm):
		return bench.NotExecuted(false, "%s needs %s; backend %s has none", algorithm, info.Hardware, w.g.Backend())
	case !slices.Contains(caps.Ops, dist.AllReduce) || !slices.Contains(caps.Reductions, dist.Sum):
		return bench.NotExecuted(true, "backend %s has no all-reduce of sums", w.g.Backend())
	case !slices.Contains(caps.DTypes, d):
		return bench.NotExecuted(false, "backend %s has no %v (it has %s)", w.g.Backend(), d, list(caps.DTypes))
	case epilogue && !caps.Epilogue:
		return bench.NotExecuted(false, "backend %s has no epilogue", w.g.Backend())
	case codec != nil && !caps.Codec:
		return bench.NotExecuted(false, "backend %s moves no encoded elements", w.g.Backend())
	}
	if codec != nil || name == matrix.Auto || slices.Contains(offered, name) {
		return nil
	}
	if slices.Contains(dist.Algorithms(dist.AllReduce), name) {
		if err := schedule.Fits(schedule.AllReduce, name, w.g.Size()); err != nil {
			return bench.Skip("%v", err)
		}
	}
	return bench.NotExecuted(false, "backend %s has no %s (it has %s)", w.g.Backend(), algorithm, strings.Join(offered, ", "))
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
	if caps.RanksRound || !slices.Contains(caps.Algorithms[dist.AllReduce], algorithm) || !slices.Contains(dist.Algorithms(dist.AllReduce), algorithm) {
		return ""
	}
	return algorithm
}

func list[T fmt.Stringer](values []T) string {
	var names []string
	for _, v := range values {
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}
