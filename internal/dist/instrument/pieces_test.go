package instrument

import (
	"testing"

	"github.com/kernbench/kernbench/dist"
)

// card is memory that the host cannot reach.
type card struct{ bytes []byte }

func (c *card) Read(dst []byte, off int) error {
	copy(dst, c.bytes[off:])
	return nil
}

func (c *card) Write(off int, src []byte) error {
	copy(c.bytes[off:], src)
	return nil
}

// TestPieces writes device memory of several lengths around pieceBytes, reads it back, and checks that the elements
// before and after the buffer are untouched. Host memory must be one piece: the buffer itself.
func TestPieces(t *testing.T) {
	for _, count := range []int{0, 1, pieceBytes / 4, pieceBytes/4 + 1, 2*pieceBytes/4 + 3} {
		c := &card{make([]byte, 4*(count+2))}
		all := dist.NewBuffer(dist.F32, count+2, nil, c)
		for _, b := range []dist.Buffer{all.Slice(1, count), dist.Make(dist.F32, count)} {
			written := Overwrite(b, func(piece dist.Buffer, first int) {
				for i := range piece.Count() {
					dist.Slice[float32](piece)[i] = float32(first+i) + 1
				}
			})
			next := 0
			read := Inspect(b, func(piece dist.Buffer, first int) error {
				for i, v := range dist.Slice[float32](piece) {
					if first != next || v != float32(first+i)+1 {
						t.Fatalf("%v: element %d of the piece at %d, after %d, is %v", b, i, first, next, v)
					}
				}
				next = first + piece.Count()
				return nil
			})
			if written != nil || read != nil || next != count {
				t.Errorf("%v: %d elements seen, %v, %v", b, next, written, read)
			}
		}
		if mirror, _ := all.Mirror(); dist.Slice[float32](mirror)[0] != 0 || dist.Slice[float32](mirror)[count+1] != 0 {
			t.Errorf("%d elements: written beyond them", count)
		}
	}
}
