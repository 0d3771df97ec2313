package vec

// Pause tells the processor that the caller spins on a memory location, so that
// it saves power and leaves the loop without a penalty.
func Pause()

// Fence makes every store before it, streaming ones too, visible to other
// processors before any store after it. Go's atomics order ordinary stores but
// not streaming ones.
func Fence()

// Own fetches the cache lines of n bytes from p on for writing, in the
// background: stores that follow later need not wait until other processors have
// given the lines up. It is a hint and changes nothing.
//
//go:noescape
func Own(p *byte, n int)
