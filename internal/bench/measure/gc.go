package measure

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// collector is the garbage collector of this process. Ranks that are goroutines
// of one process share it, so the last of them to end turns it on again.
var collector struct {
	sync.Mutex
	pauses  int
	percent int // to restore
}

// Percentages of the collector: off for what it would disturb, and often for simulated time, which does
// not notice it and whose machines are large.
const (
	gcOff   = -1
	gcOften = 60
)

// setGC collects, then sets the garbage collector's percentage until resume is called.
// A memory limit of the process stays in force.
func setGC(percent int) (resume func()) {
	collector.Lock()
	defer collector.Unlock()
	if collector.pauses++; collector.pauses == 1 {
		runtime.GC()
		collector.percent = debug.SetGCPercent(percent)
	}
	return func() {
		collector.Lock()
		defer collector.Unlock()
		if collector.pauses--; collector.pauses == 0 {
			debug.SetGCPercent(collector.percent)
		}
	}
}

// muchGarbage is the growth of the heap after which it is collected between blocks,
// although the collector is off: a body that allocates would fill the memory.
const muchGarbage = 512 << 20

// collectMuch collects if the heap has grown by muchGarbage over base, and returns
// the new base.
func collectMuch(base uint64) uint64 {
	heap := heapBytes()
	if heap < base+muchGarbage {
		return base
	}
	runtime.GC()
	return heapBytes()
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
