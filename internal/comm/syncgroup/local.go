package syncgroup

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Solo returns a group of one rank, which never waits.
func Solo() Group { return Local(1)[0] }

// Local returns the ends of a group whose ranks are n goroutines of this
// process. It panics unless 1 <= n <= 65535.
func Local(n int) []Group {
	if n < 1 || n > maxRanks {
		panic(fmt.Sprintf("syncgroup.Local: %d ranks: must be 1 to %d", n, maxRanks))
	}
	// Allocate words, not bytes, so that the atomics in the board are aligned.
	memory := make([]uint64, boardBytes(n)/8)
	b := viewBoard(unsafe.Pointer(&memory[0]), n)
	parker := &goroutineParker{woken: make(chan struct{})}
	spin := n <= min(runtime.GOMAXPROCS(0), runtime.NumCPU())
	groups := make([]Group, n)
	for r := range groups {
		b.cells[r].state.Store(stateJoined)
		groups[r] = &member{board: b, parker: parker, rank: r, spin: spin}
	}
	return groups
}

// goroutineParker parks goroutines instead of threads, so any number of ranks works.
type goroutineParker struct {
	mu    sync.Mutex    // guards woken
	woken chan struct{} // closed and replaced by unpark
}

func (p *goroutineParker) park(ctx context.Context, word *atomic.Uint32, seen uint32) {
	p.mu.Lock()
	woken := p.woken
	p.mu.Unlock()
	// unpark runs after the word has changed. It therefore either closes this channel or has changed the word already.
	if word.Load() != seen {
		return
	}
	limit := time.NewTimer(maxSleep)
	defer limit.Stop()
	select {
	case <-woken:
	case <-ctx.Done():
	case <-limit.C:
	}
}

func (p *goroutineParker) unpark(*atomic.Uint32) {
	p.mu.Lock()
	close(p.woken)
	p.woken = make(chan struct{})
	p.mu.Unlock()
}

// alive: a goroutine cannot die without its process.
func (*goroutineParker) alive(int) bool { return true }
