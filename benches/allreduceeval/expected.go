package allreduceeval

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/quant"
)

// The expectations that the cells of a launch share. Exact inputs give the same
// sums in any order and at any count, so one vector serves all algorithms and,
// as its prefixes, all sizes; the others depend on both.

// vectorKey names a vector whose prefixes are used.
type vectorKey struct {
	what  string // "input", "expected", "epilogue" or "residual"
	kind  string
	seed  uint64
	codec string
	count int // where it depends on it
}

// prefix gives the first count elements of a vector, which it makes longer if
// it must.
func (l *lab) prefix(key vectorKey, count int, build func(count int) ([]byte, error)) ([]byte, error) {
	bytes := count * l.d.Size()
	if v, ok := l.cache[key].([]byte); ok && len(v) >= bytes {
		return v[:bytes:bytes], nil
	}
	// Room for what is likely to come next: the same with some elements more.
	v, err := build(count + 64)
	if err != nil {
		return nil, err
	}
	l.cache[key] = v
	return v[:bytes:bytes], nil
}

// input is this rank's own elements of a window.
func (l *lab) input(in inputs, w window) ([]byte, error) {
	all, err := l.prefix(vectorKey{what: "input", kind: in.kind, seed: in.seed}, w.first+w.count, func(count int) ([]byte, error) {
		b := aligned(count * l.d.Size())
		chunk := make([]float64, oracleChunk)
		if in.kind == adversarialInput {
			n := min(count, adversarialPeriod)
			in.fill(chunk[:n], l.g.Rank(), 0)
			encode(b[:n*l.d.Size()], chunk[:n], l.d)
			tile(b, n*l.d.Size())
			return b, nil
		}
		for off := 0; off < count; off += oracleChunk {
			n := min(oracleChunk, count-off)
			in.fill(chunk[:n], l.g.Rank(), off)
			encode(b[off*l.d.Size():(off+n)*l.d.Size()], chunk[:n], l.d)
		}
		return b, nil
	})
	return all[min(len(all), w.first*l.d.Size()):], err
}

// expected is what a call must leave on this rank.
func (l *lab) expected(in inputs, w window, algorithm string, epilogue bool) (*expectation, error) {
	codec := codecOf(algorithm)
	if in.kind == exactInput {
		return l.exactly(in, w.count, codec, epilogue)
	}
	type key struct {
		window
		kind, algorithm string
		seed            uint64
		epilogue        bool
	}
	k := key{w, in.kind, algorithm, in.seed, false}
	plain, err := cached(l, k, func() (*expectation, error) {
		var order []stretch
		if l.orderKnown() && codec == nil && w.count > 0 {
			var err error
			if order, err = orderOf(algorithm, in.ranks, w.count); err != nil {
				return nil, err
			}
		}
		return expect(in, w, order, codec)
	})
	if err != nil || !epilogue {
		return plain, err
	}
	k.epilogue = true
	return cached(l, k, func() (*expectation, error) { return plain.withEpilogue(l.g.Rank(), w.count), nil })
}

// orderKnown tells whether the backend adds in the order of the schedules, as
// package dist documents it for the cpu backend.
func (l *lab) orderKnown() bool { return l.g.Backend() == "cpu" }

// exactly is the expectation of exact inputs. What an element becomes does not
// depend on the count, except in a last group of a codec that is short: it is
// computed by itself.
func (l *lab) exactly(in inputs, count int, codec *quant.Codec, epilogue bool) (*expectation, error) {
	key := vectorKey{what: "expected", kind: in.kind, seed: in.seed}
	whole := count
	if codec != nil {
		key.codec = codec.Name()
		whole -= count % quant.Group
	}
	bits, err := l.prefix(key, whole, func(count int) ([]byte, error) {
		e, err := expect(in, window{0, count}, []stretch{{n: count, sum: rankOrder(in.ranks)}}, codec)
		if err != nil {
			return nil, err
		}
		return e.bits, nil
	})
	if err != nil {
		return nil, err
	}
	plain := &expectation{d: l.d, bits: bits}
	if whole < count {
		last, err := expect(in, window{whole, count - whole}, nil, codec)
		if err != nil {
			return nil, err
		}
		plain.tail = last.bits
	}
	if !epilogue {
		return plain, nil
	}
	key.what = "epilogue"
	if count <= patternUpTo { // the bias depends on the count
		key.what, key.count = "epilogue of a count", count
		return cached(l, key, func() (*expectation, error) { return plain.withEpilogue(l.g.Rank(), count), nil })
	}
	out := plain.withEpilogueFrom(l.g.Rank(), count, whole) // of the tail alone
	out.bits, err = l.prefix(key, whole, func(count int) ([]byte, error) {
		all, err := l.exactly(in, count, codec, false)
		if err != nil {
			return nil, err
		}
		return all.withEpilogue(l.g.Rank(), count).bits, nil
	})
	return out, err
}

// rankOrder adds up all ranks' inputs one after the other.
func rankOrder(ranks int) *sum {
	s := &sum{wide: true}
	for r := range ranks {
		s.terms = append(s.terms, &sum{rank: r})
	}
	return s
}

// epilogue makes the arguments of the epilogue for a call.
func (l *lab) epilogue(count int) (*dist.Epilogue, error) {
	period := periodOf(count)
	bias, err := cached(l, vectorKey{what: "bias", count: count}, func() ([]byte, error) {
		return l.elements(period, func(i int) float64 { return biasAt(i, count, period) }), nil
	})
	if err != nil {
		return nil, err
	}
	residual, err := l.prefix(vectorKey{what: "residual"}, count, func(count int) ([]byte, error) {
		return l.elements(count, func(i int) float64 { return residualAt(i, l.g.Rank()) }), nil
	})
	if err != nil {
		return nil, err
	}
	e := &dist.Epilogue{Scale: epilogueScale, Residual: l.buffer(residual, l.d, count, privateMemory)}
	if count > 0 {
		e.Bias = l.buffer(bias, l.d, period, privateMemory)
	}
	return e, nil
}

func (l *lab) elements(count int, at func(i int) float64) []byte {
	b, v := aligned(count*l.d.Size()), make([]float64, count)
	for i := range v {
		v[i] = at(i)
	}
	encode(b, v, l.d)
	return b
}
