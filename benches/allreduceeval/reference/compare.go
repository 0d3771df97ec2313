package reference

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
)

// Compare holds the output of a call on a window against the expectation: every
// element of it. The share is the largest error as a share of its bound.
func (e *Expectation) Compare(got []byte, w Window) (share float64, err error) {
	share = e.worst
	if e.bits != nil && bytes.Equal(got[:len(e.bits)], e.bits) && bytes.Equal(got[len(e.bits):], e.tail) {
		return share, nil
	}
	bits := e.bits
	if len(e.tail) > 0 {
		bits = slices.Concat(e.bits, e.tail)
	}
	var wrong bench.Wrong
	have, should := make([]float64, chunkElems), make([]float64, chunkElems)
	for off := 0; off < w.Count; off += chunkElems {
		n := min(chunkElems, w.Count-off)
		from, to := off*e.d.Size(), (off+n)*e.d.Size()
		e.d.Decode(have[:n], got[from:to])
		if bits != nil {
			e.d.Decode(should[:n], bits[from:to])
		} else {
			copy(should[:n], e.exact[off:off+n])
		}
		for i, h := range have[:n] {
			bound := 0.0
			if bits == nil {
				bound = e.bound[off+i]
				if of, ok := within(h, should[i], bound); ok {
					share = max(share, of)
					continue
				}
			} else if same(h, should[i]) {
				continue
			}
			if wrong.Count++; wrong.Count == 1 {
				wrong.Detail = e.describe(off+i, w, h, should[i], bound)
			}
		}
	}
	return share, wrong.Err()
}

// describe says what is wrong with an element.
func (e *Expectation) describe(i int, w Window, got, want, bound float64) string {
	family := ""
	if e.kind != Exact {
		family = " (" + familyAt(w.First+i) + ")"
	}
	text := fmt.Sprintf("element %d%s is %v, want %v", i, family, got, want)
	if bound > 0 {
		text += fmt.Sprintf(" within %.3g", bound)
	}
	return text
}
