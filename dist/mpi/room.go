package mpi

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// room is where the notes of all groups of this process arrive. It has a
// communicator of its own that lives as long as MPI: one that is given back
// must have no message left in it, and nobody may be there any more to read a
// note.
type room struct {
	mu     sync.Mutex
	box    *mailbox
	groups map[uint64]*post
	early  []note // to groups that this rank has not made yet
}

// note is what a rank tells the others of a group.
type note struct {
	Group   uint64
	From    int
	Failure *shm.Failure `json:",omitempty"` // of the group
	Waiting string       `json:",omitempty"` // "": the sender leaves
	Calls   int          // that the sender has begun
}

// keptNotes bounds the early ones, among which are those to groups that are no more.
const keptNotes = 1000

func newRoom(box *mailbox) *room { return &room{box: box, groups: map[uint64]*post{}} }

func (r *room) enter(p *post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[p.token] = p
	r.early = slices.DeleteFunc(r.early, func(n note) bool {
		if n.Group == p.token {
			p.hear(n)
		}
		return n.Group == p.token
	})
}

func (r *room) exit(p *post) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, p.token)
}

// read hands out the notes that have come.
func (r *room) read() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		_, _, body, ok, err := r.box.receive()
		if err != nil || !ok {
			return err
		}
		var n note
		if err := json.Unmarshal(body, &n); err != nil {
			return err
		}
		if p := r.groups[n.Group]; p != nil {
			p.hear(n)
			continue
		}
		if len(r.early) == keptNotes {
			r.early = r.early[1:]
		}
		r.early = append(r.early, n)
	}
}

// send sends a note. One that does not go has nobody to hear it.
func (r *room) send(to int, n note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if body, err := json.Marshal(n); err == nil {
		_ = r.box.send(to, 0, body)
	}
}
