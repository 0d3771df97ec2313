package reference

import "github.com/kernbench/kernbench/dist"

// Store keeps the inputs and expectations of one rank and element type that
// calls have in common. Exact inputs give the same sums in any order and at any
// count, so one vector serves all algorithms and, as its parts, all sizes; the
// others depend on both.
type Store struct {
	d     dist.DType
	rank  int
	cache map[any]any
}

// NewStore is an empty one.
func NewStore(d dist.DType, rank int) *Store { return &Store{d, rank, map[any]any{}} }

// cached gives what was made for the key, or makes it.
func cached[K comparable, V any](s *Store, key K, build func() (V, error)) (V, error) {
	if v, ok := s.cache[key]; ok {
		return v.(V), nil
	}
	v, err := build()
	if err == nil {
		s.cache[key] = v
	}
	return v, err
}

// vectorKey names a vector whose parts are used.
type vectorKey struct {
	what string // "input", "expected", "epilogue" or "residual"
	kind string
	seed uint64
	bits int // of the format
	Window
}

// part gives the elements of a window of a vector, which it makes longer if it
// must: build makes the elements of a window that begins where the vector ends.
func (s *Store) part(key vectorKey, w Window, build func(Window) ([]byte, error)) ([]byte, error) {
	size := s.d.Size()
	v, _ := s.cache[key].([]byte)
	from, to := w.First*size, (w.First+w.Count)*size
	if len(v) < to {
		// Room for what is likely to come next: the same with some elements more,
		// beginning elsewhere. All are whole groups of the codecs.
		have := len(v) / size
		rest, err := build(Window{have, w.First + w.Count + 2*Group + (Beginnings-1)*Alternate - have})
		if err != nil {
			return nil, err
		}
		longer := Aligned(len(v) + len(rest))
		copy(longer[copy(longer, v):], rest)
		v = longer
		s.cache[key] = v
	}
	return v[from:to:to], nil
}

// Input is this rank's own elements of a window.
func (s *Store) Input(in Inputs, w Window) ([]byte, error) {
	return s.part(vectorKey{what: "input", kind: in.kind, seed: in.seed}, w, func(w Window) ([]byte, error) {
		return s.elements(w, func(to []float64, first int) { in.fill(to, s.rank, first) }), nil
	})
}

// Call is what an expectation depends on besides the inputs.
type Call struct {
	Schedule string  // whose steps are executed; "": the order of additions is not known
	Format   *Format // of the encodings; nil: elements move as they are
	Epilogue bool
}

// Expected is what a call must leave on this rank.
func (s *Store) Expected(in Inputs, w Window, c Call) (*Expectation, error) {
	if in.kind == Exact {
		return s.exactly(in, w, c.Format, c.Epilogue)
	}
	type key struct {
		Window
		kind, schedule string
		bits           int
		seed           uint64
		epilogue       bool
	}
	k := key{Window: w, kind: in.kind, schedule: c.Schedule, seed: in.seed}
	if c.Format != nil {
		k.bits = c.Format.bits
	}
	plain, err := cached(s, k, func() (*Expectation, error) {
		var order []segment
		if c.Schedule != "" && c.Format == nil && w.Count > 0 {
			var err error
			if order, err = orderOf(c.Schedule, in.ranks, w.Count); err != nil {
				return nil, err
			}
		}
		return expect(in, w, order, c.Format)
	})
	if err != nil || !c.Epilogue {
		return plain, err
	}
	k.epilogue = true
	return cached(s, k, func() (*Expectation, error) { return plain.withEpilogue(s.rank, w.Count), nil })
}

// exactly is the expectation of exact inputs. What an element becomes does not
// depend on the count, except in a last group of a codec that is short: it is
// computed by itself.
func (s *Store) exactly(in Inputs, w Window, format *Format, epilogue bool) (*Expectation, error) {
	key := vectorKey{what: "expected", kind: in.kind, seed: in.seed}
	whole := Window{w.First, w.Count}
	if format != nil {
		key.bits = format.bits
		whole.Count -= w.Count % Group
	}
	build := func(w Window) ([]byte, error) {
		e, err := ExpectExact(in, w, format)
		if err != nil {
			return nil, err
		}
		return e.bits, nil
	}
	bits, err := s.part(key, whole, build)
	if err != nil {
		return nil, err
	}
	plain := &Expectation{d: s.d, kind: in.kind, bits: bits}
	if whole.Count < w.Count {
		if plain.tail, err = build(Window{w.First + whole.Count, w.Count - whole.Count}); err != nil {
			return nil, err
		}
	}
	if !epilogue {
		return plain, nil
	}
	if w.Count <= patternUpTo { // the bias depends on the count
		key.what, key.Window = "epilogue of a count", w
		return cached(s, key, func() (*Expectation, error) { return plain.withEpilogue(s.rank, w.Count), nil })
	}
	out := plain.withEpilogueFrom(s.rank, w.Count, whole.Count) // of the tail alone
	of := key
	key.what = "epilogue"
	out.bits, err = s.part(key, whole, func(more Window) ([]byte, error) {
		bits, err := s.part(of, more, build)
		if err != nil {
			return nil, err
		}
		return plain.epilogue(bits, s.rank, w.Count, more.First), nil
	})
	return out, err
}

// ExpectExact is the expectation of exact inputs, for which every order of
// additions gives the same bits.
func ExpectExact(in Inputs, w Window, format *Format) (*Expectation, error) {
	return expect(in, w, []segment{{n: w.Count, sum: rankOrder(in.ranks)}}, format)
}

// rankOrder adds up all ranks' inputs one after the other.
func rankOrder(ranks int) *sum {
	all := &sum{wide: true}
	for r := range ranks {
		all.terms = append(all.terms, &sum{rank: r})
	}
	return all
}

// Epilogue is the arguments of the epilogue for a call: a bias that is repeated,
// and this rank's residual.
func (s *Store) Epilogue(count int) (bias, residual []byte, err error) {
	period := periodOf(count)
	bias, err = cached(s, vectorKey{what: "bias", Window: Window{0, count}}, func() ([]byte, error) {
		return s.elements(Window{0, period}, func(to []float64, first int) {
			for i := range to {
				to[i] = biasAt(first+i, count, period)
			}
		}), nil
	})
	if err != nil {
		return nil, nil, err
	}
	residual, err = s.part(vectorKey{what: "residual"}, Window{0, count}, func(w Window) ([]byte, error) {
		return s.elements(w, func(to []float64, first int) {
			for i := range to {
				to[i] = residualAt(first+i, s.rank)
			}
		}), nil
	})
	return bias, residual, err
}

// elements are those of a window, of which fill writes some from a position on.
func (s *Store) elements(w Window, fill func(to []float64, first int)) []byte {
	size := s.d.Size()
	b, chunk := Aligned(w.Count*size), make([]float64, chunkElems)
	for off := 0; off < w.Count; off += chunkElems {
		n := min(chunkElems, w.Count-off)
		fill(chunk[:n], w.First+off)
		s.d.Encode(b[off*size:(off+n)*size], chunk[:n])
	}
	return b
}

// Exact inputs begin Alternate elements later from run to run, at one of so many
// Beginnings, so that no result can stand for another of the runs of a cell. It is whole
// groups of the codecs and whole periods of the residual: expectations are parts of one
// vector, wherever a run begins.
const (
	Alternate  = 4096
	Beginnings = 5
)
