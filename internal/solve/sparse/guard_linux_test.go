package sparse

import (
	"syscall"
	"testing"
	"unsafe"
)

// Vectors that end right before an unreadable page can be used at every length:
// no kernel touches anything outside.
func TestEndOfMemory(t *testing.T) {
	const page = 1 << 16
	fenced := func() []float64 {
		room, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Munmap(room) })
		if err := syscall.Mprotect(room[page:], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		return unsafe.Slice((*float64)(unsafe.Pointer(&room[0])), page/8)
	}
	a, b, c := fenced(), fenced(), fenced()
	for n := 1; n <= 90; n++ {
		x, y, z := a[len(a)-n:], b[len(b)-n:], c[len(c)-n:]
		Axpby(x, 2, y, 3, z)
		Times(x, y, z)
		Dot(x, y)
		for _, kind := range []string{"poisson", "variable", "mesh"} {
			p, m := wholeMatrix(t, kind, Params{Rows: n}, Compressed)
			if p.Size() <= n {
				m.Multiply(x[n-p.Size():], y[n-p.Size():], 0, p.Size())
			}
		}
	}
}
