package cpu

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

// padded is a codec that copies elements unchanged and adds padding bytes of 0xff.
type padded struct {
	bytes int           // length of the padding
	late  time.Duration // delay before a sum is decoded
}

func (c padded) Name() string                 { return fmt.Sprintf("padded by %d", c.bytes) }
func (padded) Group() int                     { return 1 }
func (c padded) Size(d dist.DType, n int) int { return n*d.Size() + c.bytes }

func (c padded) Encode(dst, src []byte, _ dist.DType) {
	for i := copy(dst, src); i < len(dst); i++ {
		dst[i] = 0xff
	}
}

func (c padded) DecodeReduce(dst []byte, srcs [][]byte, _ dist.DType, _ dist.Reduction) {
	if len(srcs) == 1 {
		time.Sleep(c.late)
	}
	sum := dtype.View[float32](dst)
	clear(sum)
	for _, src := range srcs {
		for i, v := range dtype.View[float32](src[:len(dst)]) {
			sum[i] += v
		}
	}
}

// A rank that reads the encoded sums of a call late must still find them. The others must not
// overwrite them in their next call, neither with longer encodings nor with the pieces of a call
// without a codec.
func TestSumsStayUntilAllHaveThem(t *testing.T) {
	for name, next := range map[string]dist.Call{
		"longer encodings": {Codec: padded{bytes: 128 << 10}},
		"pieces":           {Algorithm: "two-stage"},
	} {
		t.Run(name, func(t *testing.T) {
			gs := must.Get(open(2, 5*time.Second))(t)
			err := errors.Join(disttest.Each(gs, func(g *dist.Group) error {
				codec := padded{bytes: 40 << 10, late: time.Duration(g.Rank()) * 50 * time.Millisecond}
				in, out := slices.Repeat([]float32{1}, 64), make([]float32, 64)
				if err := g.Do(dist.Call{Op: dist.AllReduce, In: dist.Of(in), Out: dist.Of(out), Codec: codec}); err != nil {
					return err
				}
				if i := slices.IndexFunc(out, func(v float32) bool { return v != 2 }); i >= 0 {
					return fmt.Errorf("rank %d: element %d is %v, want 2", g.Rank(), i, out[i])
				}
				long := dist.Of(slices.Repeat([]float32{9}, 1<<18))
				call := next // a copy, because ranks are goroutines
				call.Op, call.In, call.Out = dist.AllReduce, long, long
				return g.Do(call)
			})...)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
