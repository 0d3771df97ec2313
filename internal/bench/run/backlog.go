package run

import (
	"sync"

	"github.com/kernbench/kernbench/internal/bench/plan"
)

// backlog holds the attempts of a launch group that no slot has taken yet. Several slots share it.
type backlog struct {
	group *plan.Group
	mu    sync.Mutex
	todo  []attempt
}

// take removes and returns the next n attempts, or as many as there are.
func (b *backlog) take(n int) []attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.todo))
	taken := b.todo[:n:n]
	b.todo = b.todo[n:]
	return taken
}

// putBack returns attempts to the front of the backlog, for another launch.
func (b *backlog) putBack(attempts []attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.todo = append(attempts, b.todo...)
}

func (b *backlog) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.todo)
}
