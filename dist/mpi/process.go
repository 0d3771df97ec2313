package mpi

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

type comm = mpi.Comm

// process is MPI in this process.
type process struct {
	lib       *mpi.Library
	rank      int
	size      int
	hosts     []uint64      // by rank; equal for ranks that share memory
	bootstrap comm          // where ranks of different hosts find each other
	notices   *noticeRouter // and where they tell each other what goes wrong
	heap      heap
}

// lifetime is the process's only start and end of MPI. A goroutine keeps the
// thread of the start for the end.
var lifetime struct {
	sync.Mutex
	started bool
	ready   chan struct{} // closed when p or err is set
	p       *process
	err     error
	quit    chan struct{}
	over    chan error
}

// world starts MPI, if that has not been done, and returns once all ranks have.
func world(ctx context.Context) (*process, error) {
	lifetime.Lock()
	if !lifetime.started {
		lifetime.started = true
		lifetime.ready, lifetime.quit, lifetime.over = make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go keep(os.Environ(), lifetime.quit)
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
		return nil, fmt.Errorf("MPI does not start, which it does once all ranks of the job ask for it: %w", ctx.Err())
	}
}

// keep starts and ends MPI, on one thread.
func keep(environ []string, quit chan struct{}) {
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

// endLimit bounds the waiting for ranks that do not end.
const endLimit = 20 * time.Second

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
		return nil // it never started, and cannot be ended
	}
	close(lifetime.quit)
	lifetime.quit = nil
	select {
	case err := <-lifetime.over:
		return err
	case <-time.After(endLimit):
		return fmt.Errorf("ending MPI: other ranks did not end within %v", endLimit)
	}
}

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
	if p.hosts, err = p.gather(p.lib.World, hostID(), p.size); err != nil {
		return nil, err
	}
	if p.bootstrap, err = p.lib.Dup(p.lib.World); err != nil {
		return nil, err
	}
	own, err := p.lib.Dup(p.lib.World)
	p.notices = newNoticeRouter(newMailbox(p.lib, own, anyTag))
	return p, err
}

// end reads what no rank waited for, and ends MPI.
func (p *process) end() error {
	p.notices.box.flush(flushTime)
	return errors.Join(p.lib.Barrier(p.bootstrap).Run(), p.notices.read(), p.lib.Finalize())
}

// gather lets every rank of a communicator know a number of each. All are known
// to make this call.
func (p *process) gather(c comm, mine uint64, size int) ([]uint64, error) {
	all := slices.Repeat([]uint64{mine}, size+1)
	out, in := all[:size], all[size:]
	return out, p.lib.Allgather(mpi.Memory(in), mpi.Memory(out), 1, p.lib.Type(dtype.I64), c).Run()
}

// hostID is equal for processes that find each other's sockets and share memory:
// those of one boot of a kernel and one network namespace. Tests put every
// rank on a host of its own.
var hostID = func() uint64 {
	h := fnv.New64a()
	machine, err := tcp.Machine()
	if err != nil {
		machine = fmt.Sprint(os.Getpid()) // alone, as far as anybody knows
	}
	fmt.Fprintf(h, "%s %d", machine, os.Getuid())
	return h.Sum64()
}
