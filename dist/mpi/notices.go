package mpi

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// noticeRouter is where the notices to all groups of this process arrive. It has a
// communicator of its own that lives as long as MPI: one that is given back
// must have no message left in it, and the rank that would read a notice may be
// gone.
type noticeRouter struct {
	mu     sync.Mutex
	box    *mailbox
	groups map[uint64]*remoteCoordinator
	early  []notice // to groups that this rank has not made yet
}

// notice is what a rank tells the others of a group.
type notice struct {
	Group   uint64
	From    int
	Failure *shm.Failure `json:",omitempty"` // of the group
	Waiting string       `json:",omitempty"` // "": the sender leaves
	Calls   int          // that the sender has started
}

// keptNotices bounds the early ones, among which are those to groups that are no more.
const keptNotices = 1000

func newNoticeRouter(box *mailbox) *noticeRouter {
	return &noticeRouter{box: box, groups: map[uint64]*remoteCoordinator{}}
}

func (r *noticeRouter) enter(p *remoteCoordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[p.token] = p
	r.early = slices.DeleteFunc(r.early, func(n notice) bool {
		if n.Group == p.token {
			p.receive(n)
		}
		return n.Group == p.token
	})
}

func (r *noticeRouter) exit(p *remoteCoordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, p.token)
}

// read hands out the notices that have arrived.
func (r *noticeRouter) read() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		_, body, ok, err := r.box.receive()
		if err != nil || !ok {
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
		if len(r.early) == keptNotices {
			r.early = r.early[1:]
		}
		r.early = append(r.early, n)
	}
}

// send sends a notice. One that cannot be sent has no reader.
func (r *noticeRouter) send(to int, n notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if body, err := json.Marshal(n); err == nil {
		_ = r.box.send(to, 0, body)
	}
}
