package reference

import (
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Store caches the inputs and expectations of one rank and element type, which calls
// share. Exact inputs have the same sums in any order and at any count, so one vector
// serves all algorithms and, by slicing it, all sizes. The expectations of other
// inputs depend on algorithm and count, and are cached for each.
//
// A Store must not be used concurrently.
type Store struct {
	d     dist.DType
	rank  int
	cache map[any]any
}

// NewStore returns an empty store.
func NewStore(d dist.DType, rank int) *Store { return &Store{d, rank, map[any]any{}} }

// loadOrBuild returns the cached value of a key, building it on first use.
func loadOrBuild[K comparable, V any](s *Store, key K, build func() (V, error)) (V, error) {
	if v, ok := s.cache[key]; ok {
		return v.(V), nil
	}
	v, err := build()
	if err == nil {
		s.cache[key] = v
	}
	return v, err
}

// vectorKey identifies a cached vector.
type vectorKey struct {
	what     string // "input", "expected", "epilogue" or "residual"
	kind     string
	schedule string // algorithm whose order of additions counts; "" if it does not
	seed     uint64
	bits     int // bits per element of the format, 0 without one
	Window
}

// vectorPart returns a window of a cached vector. If the vector is too short, build
// computes the window that follows its end.
func (s *Store) vectorPart(key vectorKey, w Window, build func(Window) ([]byte, error)) ([]byte, error) {
	size := s.d.Size()
	v, _ := s.cache[key].([]byte)
	from, to := w.First*size, (w.First+w.Count)*size
	if len(v) < to {
		// Leave room for the next requests, which are likely to have a few elements more
		// and another start. The length stays a multiple of the codecs' group.
		have := len(v) / size
		rest, err := build(Window{have, w.First + w.Count + 2*Group + (RunStarts-1)*RunStride - have})
		if err != nil {
			return nil, err
		}
		longer := zeros(len(v) + len(rest))
		copy(longer[copy(longer, v):], rest)
		v = longer
		s.cache[key] = v
	}
	return v[from:to:to], nil
}

// Input returns this rank's elements of a window.
func (s *Store) Input(in Inputs, w Window) ([]byte, error) {
	return s.vectorPart(vectorKey{what: "input", kind: in.kind, seed: in.seed}, w, func(w Window) ([]byte, error) {
		return s.elements(w, func(to []float64, first int) { in.fill(to, s.rank, first) }), nil
	})
}

// Call describes a call as far as its expectation depends on it.
type Call struct {
	Schedule string  // algorithm whose steps are executed; "" if the order of additions is not known
	Format   *Format // encoding of the moved elements; nil if they move unencoded
	Epilogue bool
}

// Expected returns the required result of a call on this rank.
func (s *Store) Expected(in Inputs, w Window, c Call) (*Expectation, error) {
	key := vectorKey{what: "expected", kind: in.kind, seed: in.seed}
	if c.Format != nil {
		key.bits = c.Format.bits
	}
	if in.kind == Exact {
		return s.expectedExact(in, w, c, key)
	}
	key.schedule, key.Window = c.Schedule, w
	plain, err := loadOrBuild(s, key, func() (_ *Expectation, err error) {
		var order []schedule.SumRange
		if c.Schedule != "" && c.Format == nil && w.Count > 0 {
			if order, err = additionOrder(c.Schedule, in.ranks, w.Count); err != nil {
				return nil, err
			}
		}
		return expect(in, w, order, c.Format)
	})
	if err != nil || !c.Epilogue {
		return plain, err
	}
	return s.withEpilogue(plain, key)
}

func (s *Store) withEpilogue(plain *Expectation, key vectorKey) (*Expectation, error) {
	key.what = "epilogue of a window"
	return loadOrBuild(s, key, func() (*Expectation, error) { return plain.withEpilogue(s.rank, key.Count), nil })
}

// expectedExact is Expected for exact inputs. Their results do not depend on the count, except in an incomplete last
// group of a codec, and in an epilogue whose bias depends on the count.
func (s *Store) expectedExact(in Inputs, w Window, c Call, key vectorKey) (*Expectation, error) {
	constant := c.Epilogue && w.Count > patternUpTo // the bias does not depend on the count
	if constant {
		key.what = "epilogue"
	}
	build := func(part Window) ([]byte, error) {
		e, err := ExpectExact(in, part, c.Format)
		switch {
		case err != nil:
			return nil, err
		case constant:
			return e.epilogue(s.rank, w.Count, part.First), nil
		}
		return e.bits, nil
	}
	whole := w
	if c.Format != nil {
		whole.Count -= w.Count % Group
	}
	bits, err := s.vectorPart(key, whole, build)
	if rest := w.Count - whole.Count; rest > 0 && err == nil {
		var last []byte
		last, err = build(Window{w.First + whole.Count, rest})
		bits = slices.Concat(bits, last)
	}
	plain := &Expectation{d: s.d, kind: in.kind, bits: bits}
	if err != nil || !c.Epilogue || constant {
		return plain, err
	}
	key.Window = w
	return s.withEpilogue(plain, key)
}

// ExpectExact returns the expectation of exact inputs, for which every order of
// additions gives the same bits.
func ExpectExact(in Inputs, w Window, format *Format) (*Expectation, error) {
	return expect(in, w, []schedule.SumRange{{N: w.Count}}, format)
}

// zeros allocates bytes with the alignment that every element type needs.
func zeros(bytes int) []byte { return dist.Make(dist.U8, bytes).Bytes() }

// elements encodes the elements of a window, which fill computes chunk by chunk.
func (s *Store) elements(w Window, fill func(to []float64, first int)) []byte {
	size := s.d.Size()
	b, chunk := zeros(w.Count*size), make([]float64, chunkElems)
	for off := 0; off < w.Count; off += chunkElems {
		n := min(chunkElems, w.Count-off)
		fill(chunk[:n], w.First+off)
		s.d.Encode(b[off*size:(off+n)*size], chunk[:n])
	}
	return b
}

// pointwise turns a function of the position into an argument for elements.
func pointwise(at func(i int) float64) func(to []float64, first int) {
	return func(to []float64, first int) {
		for i := range to {
			to[i] = at(first + i)
		}
	}
}

// The runs of a cell begin at different elements of the exact inputs, so that no
// result can be mistaken for another run's. There are RunStarts starts, RunStride
// elements apart. The stride is a multiple of the codecs' group and of the residual's
// period, so expectations remain slices of one vector wherever a run begins.
const (
	RunStride = 4096
	RunStarts = 5
)
