package allreduceeval

import (
	"sync/atomic"

	"github.com/kernbench/kernbench/dist"
)

// meter counts what a codec really encodes, which is what the ranks move.
type meter struct{ bytes, elements atomic.Int64 }

// metered is a codec that is watched.
type metered struct {
	dist.Codec
	meter *meter
}

func (m metered) Encode(dst, src []byte, d dist.DType) {
	n := len(src) / d.Size()
	m.meter.bytes.Add(int64(m.Size(d, n)))
	m.meter.elements.Add(int64(n))
	m.Codec.Encode(dst, src, d)
}
