package allreduceeval

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// The expectations that the cells of a launch share. Exact inputs give the same
// sums in any order and at any count, so one vector serves all algorithms and,
// as its parts, all sizes; the others depend on both.

// vectorKey names a vector whose parts are used.
type vectorKey struct {
	what  string // "input", "expected", "epilogue" or "residual"
	kind  string
	seed  uint64
	codec string
	window
}

// part gives the elements of a window of a vector, which it makes longer if it
// must: build makes the elements of a window that begins where the vector ends.
func (l *lab) part(key vectorKey, w window, build func(window) ([]byte, error)) ([]byte, error) {
	size := l.d.Size()
	v, _ := l.cache[key].([]byte)
	from, to := w.first*size, (w.first+w.count)*size
	if len(v) < to {
		// Room for what is likely to come next: the same with some elements more,
		// beginning elsewhere. All are whole groups of the codecs.
		have := len(v) / size
		rest, err := build(window{have, w.first + w.count + 2*quant.Group + otherStart - have})
		if err != nil {
			return nil, err
		}
		longer := aligned(len(v) + len(rest))
		copy(longer[copy(longer, v):], rest)
		v = longer
		l.cache[key] = v
	}
	return v[from:to:to], nil
}

// input is this rank's own elements of a window.
func (l *lab) input(in inputs, w window) ([]byte, error) {
	return l.part(vectorKey{what: "input", kind: in.kind, seed: in.seed}, w, func(w window) ([]byte, error) {
		return l.elements(w, func(to []float64, first int) { in.fill(to, l.g.Rank(), first) }), nil
	})
}

// expected is what a call must leave on this rank.
func (l *lab) expected(in inputs, w window, algorithm string, epilogue bool) (*expectation, error) {
	codec := codecOf(algorithm)
	if in.kind == exactInput {
		return l.exactly(in, w, codec, epilogue)
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
func (l *lab) exactly(in inputs, w window, codec *quant.Codec, epilogue bool) (*expectation, error) {
	key := vectorKey{what: "expected", kind: in.kind, seed: in.seed}
	whole := window{w.first, w.count}
	if codec != nil {
		key.codec = codec.Name()
		whole.count -= w.count % quant.Group
	}
	build := func(w window) ([]byte, error) {
		e, err := expect(in, w, []stretch{{n: w.count, sum: rankOrder(in.ranks)}}, codec)
		if err != nil {
			return nil, err
		}
		return e.bits, nil
	}
	bits, err := l.part(key, whole, build)
	if err != nil {
		return nil, err
	}
	plain := &expectation{d: l.d, kind: in.kind, bits: bits}
	if whole.count < w.count {
		if plain.tail, err = build(window{w.first + whole.count, w.count - whole.count}); err != nil {
			return nil, err
		}
	}
	if !epilogue {
		return plain, nil
	}
	if w.count <= patternUpTo { // the bias depends on the count
		key.what, key.window = "epilogue of a count", w
		return cached(l, key, func() (*expectation, error) { return plain.withEpilogue(l.g.Rank(), w.count), nil })
	}
	out := plain.withEpilogueFrom(l.g.Rank(), w.count, whole.count) // of the tail alone
	of := key
	key.what = "epilogue"
	out.bits, err = l.part(key, whole, func(more window) ([]byte, error) {
		bits, err := l.part(of, more, build)
		if err != nil {
			return nil, err
		}
		return plain.epilogue(bits, l.g.Rank(), w.count, more.first), nil
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
	bias, err := cached(l, vectorKey{what: "bias", window: window{0, count}}, func() ([]byte, error) {
		return l.elements(window{0, period}, func(to []float64, first int) {
			for i := range to {
				to[i] = biasAt(first+i, count, period)
			}
		}), nil
	})
	if err != nil {
		return nil, err
	}
	residual, err := l.part(vectorKey{what: "residual"}, window{0, count}, func(w window) ([]byte, error) {
		return l.elements(w, func(to []float64, first int) {
			for i := range to {
				to[i] = residualAt(first+i, l.g.Rank())
			}
		}), nil
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

// elements are those of a window, of which fill writes some from a position on.
func (l *lab) elements(w window, fill func(to []float64, first int)) []byte {
	size := l.d.Size()
	b, chunk := aligned(w.count*size), make([]float64, oracleChunk)
	for off := 0; off < w.count; off += oracleChunk {
		n := min(oracleChunk, w.count-off)
		fill(chunk[:n], w.first+off)
		l.d.Encode(b[off*size:(off+n)*size], chunk[:n])
	}
	return b
}
