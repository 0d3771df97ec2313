package mpi

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// notice is a message of the backend itself about a group: the sender has posted a call, has failed the group, or
// leaves it.
type notice struct {
	Group   uint64       // token
	From    int          // rank in the group
	Calls   int          `json:",omitempty"` // how many calls the sender has posted
	Text    string       `json:",omitempty"` // the last of these calls
	Failure *shm.Failure `json:",omitempty"`
	Left    bool         `json:",omitempty"`
}

// noticeRouter sends and receives the notices for all groups of this process. It uses one communicator that
// lives as long as MPI. A communicator per group would not do: it could be freed only after every
// notice in it was received, and the receiver of a notice may have left.
type noticeRouter struct {
	mu     sync.Mutex // guards the fields below, and the coordinators
	lib    *mpi.Library
	comm   comm
	slot   *mpi.Slot
	probe  *mpi.Call
	sent   []*mpi.Slot             // requests of sends that may not be complete yet
	groups map[uint64]*coordinator // by token
	early  []notice                // for groups that this rank has not joined yet
}

// maxEarlyNotices limits noticeRouter.early, which also collects late notices for groups that this
// rank has left.
const maxEarlyNotices = 1000

// flushTimeout is how long to wait for notices to be sent.
const flushTimeout = time.Second

func newNoticeRouter(lib *mpi.Library, c comm) *noticeRouter {
	r := &noticeRouter{lib: lib, comm: c, slot: new(mpi.Slot), groups: map[uint64]*coordinator{}}
	r.probe = lib.IprobeAny(c, r.slot)
	return r
}

// enter registers a group and delivers the notices that arrived before.
func (r *noticeRouter) enter(token uint64, m membership) *coordinator {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &coordinator{router: r, token: token, members: m, peers: make([]posted, len(m.world))}
	r.groups[token] = p
	r.early = slices.DeleteFunc(r.early, func(n notice) bool {
		if n.Group == token {
			p.receive(n)
		}
		return n.Group == token
	})
	return p
}

func (r *noticeRouter) exit(p *coordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, p.token)
}

// read delivers the notices that have arrived. It does not block. The caller holds the lock.
func (r *noticeRouter) read() error {
	for {
		body, err := r.receive()
		if err != nil || body == nil {
			return err
		}
		var n notice
		if err := json.Unmarshal(body, &n); err != nil {
			return err
		}
		if p := r.groups[n.Group]; p != nil {
			p.receive(n)
			continue
		}
		if len(r.early) == maxEarlyNotices {
			r.early = r.early[1:]
		}
		r.early = append(r.early, n)
	}
}

// receive returns the next message that has arrived, or nil.
func (r *noticeRouter) receive() ([]byte, error) {
	if err := r.probe.Run(); err != nil || !r.slot.Done() {
		return nil, err
	}
	if err := r.lib.Count(r.slot).Run(); err != nil {
		return nil, err
	}
	body := make([]byte, r.slot.Bytes())
	from := r.lib.Source(r.slot)
	return body, r.lib.Recv(mpi.Memory(body), len(body), r.lib.Type(dtype.U8), from, 0, r.comm, r.slot).Run()
}

// send sends a notice to a rank of MPI_COMM_WORLD without blocking. Errors are ignored: the receiver has a
// timeout. The caller holds the lock.
func (r *noticeRouter) send(to int, n notice) {
	r.sweep()
	body, err := json.Marshal(n)
	s := new(mpi.Slot)
	if err == nil && r.lib.Isend(mpi.Memory(body), len(body), r.lib.Type(dtype.U8), to, 0, r.comm, s).Run() == nil {
		r.sent = append(r.sent, s)
	}
}

// sweep forgets sends that are complete.
func (r *noticeRouter) sweep() {
	r.sent = slices.DeleteFunc(r.sent, func(s *mpi.Slot) bool { return r.lib.Test(s).Run() == nil && s.Done() })
}

// flush waits for all sends to complete, at most for limit.
func (r *noticeRouter) flush(limit time.Duration) {
	_ = pace.Until(func() (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sweep()
		return len(r.sent) == 0, nil
	}, func(waited time.Duration) error {
		if waited > limit {
			return errMissing
		}
		return nil
	})
}
