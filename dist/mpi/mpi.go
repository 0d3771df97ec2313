// Package mpi is the dist backend over an MPI library: Open MPI or MPICH. The library is opened at
// run time, and is the one that the process's launcher belongs to (mpirun, mpiexec, or srun with
// either's plug-in). Importing the package enables the backend "mpi". The variable
// KERNBENCH_MPI_LIB names another file to open. Libraries other than these two are refused; the
// error quotes the version string of the library.
//
//	mpirun -n 4 program   // in which every rank joins with its rank and size
//
// A process is one rank of MPI_COMM_WORLD, and a group contains all of them; Split makes smaller
// groups. MPI starts at the first Join. It cannot start twice, so it ends only when the program
// calls dist.End, shortly before it exits. A launcher treats a rank that exits without MPI_Finalize
// as failed.
//
// Every operation is the MPI call that a C program would make, on the caller's memory. MPI chooses
// the algorithms, so there are none to name. If blocks differ in length, the v-variants are used
// (MPI_Gatherv and so on). MPI has no 16-bit floats: a user-defined MPI_Op combines them in float32
// and rounds at every step. Alloc returns ordinary private memory. Counts above 2^31-1 are an error.
//
// # Mistakes
//
// If ranks issue different calls, MPI may hang or combine unrelated data. So before the first run of a
// prepared collective the ranks agree on it, and only then enter MPI. A mistake is therefore found
// beforehand, and every rank gets the error that package dist promises. Later runs are MPI's own call and
// nothing else, so that their time is the library's. The ranks compare what they have run in this way
// when they next agree. All ranks must run a prepared collective equally often: a rank that prepares it
// anew for every run would wait for an agreement with ranks that are in MPI already. They agree by small
// MPI messages from each rank to all others.
//
// Sends and receives are checked by the tag and length of the message itself. Waiting ends after
// Config.Timeout, and when a peer leaves. If a rank dies, its launcher ends the job. The only wait without a
// limit is MPI's own blocking collective once all ranks have agreed on it: if a rank stops, or calls
// something else, the others stop too, until the launcher ends the job.
package mpi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/mpi"
)

// Name is the backend's name.
const Name = "mpi"

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "Open MPI or MPICH, by the calls that a C program makes",
		Capabilities: capabilities(),
		Hints: hints.Hints{Network: true,
			Launcher: &hints.Launcher{Kind: "MPI", Command: "mpirun", Install: "Debian: openmpi-bin, or mpich"}},
	}, backend{})
}

// capabilities returns the same capabilities for every MPI library.
func capabilities() dist.Capabilities {
	return dist.Capabilities{Ops: dist.Collectives(), DTypes: dtype.All(), Reductions: dtype.Reductions(),
		Features: []dist.Feature{dist.FusedEpilogue, dist.UnevenBlocks}}
}

type backend struct{}

// Join starts MPI if needed, waits for the other ranks and creates the group's communicator.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	p, err := startWorld(ctx)
	if err != nil {
		return nil, err
	}
	if c.Rank != p.rank || c.Size != p.size {
		return nil, fmt.Errorf("this process is rank %d of %d in the world of %v: a group contains all ranks of the world, "+
			"with the same numbers (the world has one rank if the process was not started by %s's launcher)",
			p.rank, p.size, p.lib, p.lib.Family)
	}
	m := membership{id: c.ID, secret: c.Secret, rank: c.Rank, timeout: c.Timeout, world: lists.Range[int](c.Size)}
	// MPI_Comm_create_group blocks until every rank calls it. Meeting first makes sure that all do.
	if err := p.meet(ctx, m); err != nil {
		return nil, err
	}
	own, err := p.lib.Create(p.lib.World, groupTag(c.ID))
	if err != nil {
		return nil, err
	}
	return p.newEngine(m, own)
}

var _ io.Closer = backend{} // dist.End closes the backends that implement it

// Close finalizes MPI in this process.
func (backend) Close() error { return endWorld() }

// groupTag derives a message tag from a group's id, so that groups joined at the same time use
// different tags. MPI guarantees tags up to 32767.
func groupTag(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() & 0x7fff)
}

type comm = mpi.Comm

// process is the state of MPI in this process, shared by all groups.
type process struct {
	lib       *mpi.Library
	rank      int
	size      int
	bootstrap comm          // for the barrier at the end
	notices   *noticeRouter // for messages about failures
	heap      heap
}

// lifetime tracks the single start and end of MPI in this process. MPI requires that the thread
// that called MPI_Init also calls MPI_Finalize, so one goroutine holds that thread in between.
var lifetime struct {
	sync.Mutex
	started bool
	ready   chan struct{} // closed when p and err are set
	p       *process
	err     error
	quit    chan struct{} // closed to end MPI; nil afterwards
	over    chan error    // receives the result of MPI_Finalize
}

// startWorld starts MPI unless it is running already. MPI_Init returns when all ranks have called it.
func startWorld(ctx context.Context) (*process, error) {
	lifetime.Lock()
	if !lifetime.started {
		lifetime.started = true
		lifetime.ready, lifetime.quit, lifetime.over = make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go holdThread(os.Environ(), lifetime.quit)
	}
	over := lifetime.quit == nil
	lifetime.Unlock()
	if over {
		return nil, errors.New("MPI has ended in this process, and cannot start again")
	}
	select {
	case <-lifetime.ready:
		return lifetime.p, lifetime.err
	case <-ctx.Done():
		return nil, fmt.Errorf("MPI did not start: it waits until all ranks of the job call MPI_Init: %w", ctx.Err())
	}
}

// holdThread starts MPI, waits for quit and ends MPI, all on one thread.
func holdThread(environ []string, quit chan struct{}) {
	runtime.LockOSThread()
	p, err := start(environ)
	lifetime.p, lifetime.err = p, err
	close(lifetime.ready)
	<-quit
	if p == nil {
		lifetime.over <- nil
		return
	}
	lifetime.over <- p.end()
}

// endTimeout limits how long endWorld waits for the other ranks.
const endTimeout = 20 * time.Second

// endWorld ends MPI if it has started.
func endWorld() error {
	lifetime.Lock()
	defer lifetime.Unlock()
	if !lifetime.started || lifetime.quit == nil {
		return nil
	}
	select {
	case <-lifetime.ready:
	default:
		return nil // MPI_Init still blocks, and cannot be cancelled
	}
	close(lifetime.quit)
	lifetime.quit = nil
	select {
	case err := <-lifetime.over:
		return err
	case <-time.After(endTimeout):
		return fmt.Errorf("ending MPI: other ranks did not end within %v", endTimeout)
	}
}

// start opens and initializes the library.
func start(environ []string) (p *process, err error) {
	p = &process{}
	if p.lib, err = mpi.Open(environ); err != nil {
		return nil, err
	}
	if err := p.lib.Init(); err != nil {
		return nil, err
	}
	if p.rank, p.size, err = p.lib.RankSize(p.lib.World); err != nil {
		return nil, err
	}
	if p.bootstrap, err = p.lib.Dup(p.lib.World); err != nil {
		return nil, err
	}
	own, err := p.lib.Dup(p.lib.World)
	if err != nil {
		return nil, err
	}
	p.notices = newNoticeRouter(p.lib, own)
	return p, nil
}

// end receives all remaining notices, as MPI_Finalize requires, and ends MPI.
func (p *process) end() error {
	p.notices.flush(flushTimeout)
	return errors.Join(p.lib.Barrier(p.bootstrap).Run(), p.notices.read(), p.lib.Finalize())
}

// numbers returns the ranks in MPI_COMM_WORLD of the ranks of c, which has size ranks. It blocks inside MPI,
// so all ranks must be known to call it.
func (p *process) numbers(c comm, size int) ([]int, error) {
	all := slices.Repeat([]int{p.rank}, size+1) // one allocation for output and input
	out, in := all[:size], all[size:]
	return out, p.lib.Allgather(mpi.Memory(in), mpi.Memory(out), 1, p.lib.Type(dtype.I64), c).Run()
}
