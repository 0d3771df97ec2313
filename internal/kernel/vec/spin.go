package vec

// Pause tells the processor that the caller spins on a memory location. That saves power, and avoids a penalty when the
// loop ends.
func Pause()

// Fence makes every earlier store, including streaming stores, visible to other processors before any later store. Go's
// atomics order ordinary stores but not streaming stores.
func Fence()

// Own prefetches the cache lines of the n bytes at p for writing, in the background. Later stores then need not wait
// until other processors give up the lines. It is a hint and changes no data.
//
//go:noescape
func Own(p *byte, n int)
