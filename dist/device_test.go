package dist

import (
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// card is device memory of the test, which the host reaches only through Read and Write.
type card struct{ bytes []byte }

func (c *card) Read(dst []byte, off int) error {
	copy(dst, c.bytes[off:])
	return nil
}
func (c *card) Write(off int, src []byte) error {
	copy(c.bytes[off:], src)
	return nil
}

// TestDeviceMemory checks buffers in device memory: Mirror and Update copy the right bytes, Slice
// keeps track of the offset, and distance compares only buffers of the same memory.
func TestDeviceMemory(t *testing.T) {
	c := &card{make([]byte, 64)}
	b := NewBuffer(F32, 16, nil, c).Slice(4, 8)
	if b.Bytes() != nil || b.Offset() != 16 {
		t.Errorf("bytes %v, offset %d", b.Bytes(), b.Offset())
	}
	m := must.Get(b.Mirror())(t)
	Slice[float32](m)[1] = 1.5
	must.Do(t, b.Update(m))
	if again, _ := NewBuffer(F32, 16, nil, c).Mirror(); Slice[float32](again)[5] != 1.5 {
		t.Errorf("the card holds %v", c.bytes)
	}
	if b.Update(m.Slice(0, 3)) == nil {
		t.Error("a mirror of other length was taken")
	}
	for _, test := range []struct {
		other    Buffer
		distance int
		one      bool
	}{
		{b, 0, true}, {b.Slice(2, 2), -8, true}, {NewBuffer(F32, 4, nil, c), 0, false},
		{NewBuffer(F32, 5, nil, c), 16, true},
		{NewBuffer(F32, 16, nil, &card{make([]byte, 64)}), 0, false}, {Of(make([]float32, 8)), 0, false},
	} {
		if d, one := b.distance(test.other); one != test.one || one && d != test.distance {
			t.Errorf("%v and %v: distance %d, one memory %v", b, test.other, d, one)
		}
	}
}
