// Package collector changes the target of Go's garbage collector for a while. The target belongs to the whole process,
// and several callers may change it at the same time.
package collector

import (
	"runtime/debug"
	"slices"
	"sync"
)

// state is the target that the program had, and the targets that are held.
var state struct {
	sync.Mutex
	before int
	held   []int
}

// Hold makes percent the target until release is called. Among several targets that are held, the least counts: -1
// turns the collector off. The last release restores the target of the program. first reports whether no other was
// held.
func Hold(percent int) (release func(), first bool) {
	state.Lock()
	defer state.Unlock()
	if first = len(state.held) == 0; first {
		state.before = debug.SetGCPercent(percent)
	}
	state.held = append(state.held, percent)
	debug.SetGCPercent(slices.Min(state.held))
	return sync.OnceFunc(func() { drop(percent) }), first
}

func drop(percent int) {
	state.Lock()
	defer state.Unlock()
	i := slices.Index(state.held, percent)
	state.held = slices.Delete(state.held, i, i+1)
	if len(state.held) == 0 {
		debug.SetGCPercent(state.before)
		return
	}
	debug.SetGCPercent(slices.Min(state.held))
}
