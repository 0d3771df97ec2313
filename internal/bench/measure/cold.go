package measure

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// MaxColdBytes caps the buffer swept for a cold cache when its size is not
// given. Each rank has one, and sweeping it takes tens of milliseconds.
const MaxColdBytes = 256 << 20

// unknownCache is assumed where the system does not report the cache's size.
const unknownCache = 64 << 20

var lastLevelCache = sync.OnceValue(func() int64 {
	cpu := hostinfo.Local().CPU
	return max(cpu.L1d, cpu.L2, cpu.L3)
})

// coldBytes is the size of the buffer for a last-level cache of the given size
// (0: unknown), and a warning if that cannot evict all of it.
func coldBytes(given int, cache int64) (bytes int, warning string) {
	cache = cmp.Or(cache, unknownCache)
	bytes = given
	if bytes == 0 {
		bytes = int(min(cache+cache/4, MaxColdBytes))
	}
	if int64(bytes) <= cache {
		warning = fmt.Sprintf("cold cache: a buffer of %d MiB cannot evict all of the %d MiB last-level cache",
			bytes>>20, cache>>20)
	}
	return bytes, warning
}

// cacheLine is the smallest common size: longer lines are merely touched twice.
const cacheLine = 64

// sweep writes to every line of the buffer, which evicts everything else from the
// cache.
func sweep(buffer []uint64) {
	for i := 0; i < len(buffer); i += cacheLine / 8 {
		buffer[i]++
	}
}
