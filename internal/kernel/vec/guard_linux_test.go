package vec

import (
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

// No kernel reads or writes outside its arrays, at any length. The arrays end right before an unreadable page or start
// right after one, like the end of a shared-memory segment.
func TestEndOfMemory(t *testing.T) {
	const page = 1 << 16 // a multiple of every page size in use
	between := func() []byte {
		room := must.Get(syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
		t.Cleanup(func() { _ = syscall.Munmap(room) })
		for _, fence := range [][]byte{room[:page], room[2*page:]} {
			must.Do(t, syscall.Mprotect(fence, syscall.PROT_NONE))
		}
		return room[page : 2*page]
	}
	a, b, c := between(), between(), between()
	for _, level := range levels() {
		for _, d := range dtype.All() {
			for op := Sum; op <= Max; op++ {
				k := lookup(level, d, op)
				for n := 0; n <= 600; n += d.Size() {
					if n == 136 { // all tails are covered; continue with whole blocks
						n = 496
					}
					k.ReduceNT(a[page-n:], [][]byte{b[page-n:], c[page-n:]})
					k.Reduce(a[page-n:], [][]byte{b[page-n:], c[page-n:]})
					k.Reduce(a[:n], [][]byte{b[:n], c[:n]})
				}
			}
		}
	}
}
