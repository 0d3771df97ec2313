package vec

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Copies of every length and address copy every byte and no other, below and above the lengths where the method
// changes.
func TestCopy(t *testing.T) {
	lengths := []int{streamsItself - 1, streamsItself, streamsItself + 67}
	for n := range 2 * cacheLine {
		lengths = append(lengths, n, 1000+n)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, streamsItself+67)
	fill(noise, dtype.U8, rnd)
	for _, level := range levels() {
		for _, n := range lengths {
			for _, stream := range []bool{false, true} {
				src := aligned(n, rnd.IntN(cacheLine))
				copy(src, noise[len(noise)-n:])
				room := aligned(n+2, rnd.IntN(cacheLine-2))
				copyAt(level, room[1:n+1], src, stream)
				if !bytes.Equal(room[1:n+1], src) || room[0] != 0 || room[n+1] != 0 {
					t.Fatalf("%v, %d bytes, streaming %v: not the source", level, n, stream)
				}
			}
		}
	}
	dst, src := make([]byte, 5), []byte("other")
	if Copy(dst, src); string(dst) != "other" {
		t.Errorf("Copy gives %q", dst)
	}
}

// Long streaming reductions use the streaming stores of every type.
func TestStreamingReduce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, level := range levels() {
		for _, d := range dtype.All() {
			srcs := [][]byte{aligned(4<<10, 0), aligned(4<<10, 8), aligned(4<<10, 24)}
			for _, src := range srcs {
				fill(src, d, rnd)
			}
			dst, want := aligned(4<<10, 32), make([]byte, 4<<10)
			lookup(level, d, Max).ReduceNT(dst, srcs)
			lookup(Portable, d, Max).Reduce(want, srcs)
			bits := make([]uint64, len(want)/d.Size())
			for i := range bits {
				bits[i] = element(want, d, i)
			}
			compare(t, d, dst, bits)
		}
	}
}

// Pause and Fence have no effect that one thread could observe, so the test only calls them.
func TestPauseAndFence(t *testing.T) {
	Pause()
	Fence()
}

// Own is a hint and must not change memory, whatever the range.
func TestOwnChangesNothing(t *testing.T) {
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(i * 7)
	}
	want := bytes.Clone(data)
	for _, n := range []int{0, 1, 63, 64, 65, 4000} {
		for _, off := range []int{0, 1, 63, 90} {
			Own(&data[off], n)
		}
	}
	if !bytes.Equal(data, want) {
		t.Error("the memory has changed")
	}
}
