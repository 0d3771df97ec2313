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

// Local returns the ends of a group whose ranks are n goroutines of this
// process. It panics unless 1 <= n <= 65535.
func Local(n int) []Group {
	if n < 1 || n > maxRanks {
		panic(fmt.Sprintf("agree.Local: %d ranks: must be 1 to %d", n, maxRanks))
	}
	// Words, not bytes, so that the atomics in the board are aligned.
	memory := make([]uint64, boardBytes(n)/8)
	b := viewBoard(unsafe.Pointer(&memory[0]), n)
	lot := &localLot{woken: make(chan struct{})}
	spin := n <= min(runtime.GOMAXPROCS(0), runtime.NumCPU())
	groups := make([]Group, n)
	for r := range groups {
		b.cells[r].state.Store(stateJoined)
		groups[r] = &member{board: b, lot: lot, rank: r, spin: spin}
	}
	return groups
}

// localLot parks goroutines rather than threads, so any number of ranks does.
type localLot struct {
	mu    sync.Mutex
	woken chan struct{} // closed and replaced by wake
}

func (l *localLot) wait(ctx context.Context, word *atomic.Uint32, old uint32) {
	l.mu.Lock()
	woken := l.woken
	l.mu.Unlock()
	if word.Load() != old {
		return
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-woken:
	case <-ctx.Done():
	case <-limit.C:
	}
}

func (l *localLot) wake(*atomic.Uint32) {
	l.mu.Lock()
	close(l.woken)
	l.woken = make(chan struct{})
	l.mu.Unlock()
}

// alive: a goroutine cannot die without its process.
func (*localLot) alive(int) bool { return true }
