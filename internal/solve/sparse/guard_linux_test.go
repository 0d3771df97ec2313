package sparse

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/must"
)

// No kernel reads or writes outside its vectors: vectors of every length end right before an unreadable page.
func TestEndOfMemory(t *testing.T) {
	const page = 1 << 16
	fenced := func() []float64 {
		room := must.Get(syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
		t.Cleanup(func() { _ = syscall.Munmap(room) })
		must.Do(t, syscall.Mprotect(room[page:], syscall.PROT_NONE))
		return unsafe.Slice((*float64)(unsafe.Pointer(&room[0])), page/8)
	}
	a, b, c, d := fenced(), fenced(), fenced(), fenced()
	for n := 1; n <= 300; n++ {
		x, y, z := a[len(a)-n:], b[len(b)-n:], c[len(c)-n:]
		Axpby(x, 2, y, 3, z)
		Times(x, y, z)
		Dot(x, y)
		var s Sweep
		s.Reset()
		s.Add(2, y, z)
		s.Add(3, x, nil)
		s.AddBlock(1)
		s.Store(x)
		s.Dot(y, x, z)
		s.Dot(z, z, nil)
		s.Run(0, n, d[len(d)-n:])
		for _, kind := range []string{"poisson", "variable", "mesh"} {
			p, m := wholeMatrix(t, kind, Params{Rows: n}, Compressed)
			if p.Size() <= n {
				m.Multiply(x[n-p.Size():], y[n-p.Size():], 0, p.Size())
			}
		}
	}
}
