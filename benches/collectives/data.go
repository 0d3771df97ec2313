package collectives

import (
	"bytes"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/verify"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// inputs fill the ranks' vectors and say what must come out. Long vectors repeat the
// elements of a table, which is made once: they are filled and checked at the speed of
// memory, however often that is.
type inputs struct {
	verify.Inputs
	dtype  dtype.DType
	tables map[int][]byte // by origin
}

func newInputs(seed uint64, sh shape) *inputs {
	return &inputs{verify.NewInputs(seed, sh.dtype, sh.reduction, sh.ranks), sh.dtype, map[int][]byte{}}
}

const (
	// batchSize is how many elements are made at a time, so that they stay in the cache.
	batchSize = 1024
	// period is after how many positions the inputs repeat: a prime, so no block or chunk
	// of a vector is a multiple of it, and one that was taken from a wrong place shows.
	period = 1<<20 - 3
	// tableThreshold is from how many elements on a table pays, for as many origins: a rank's own
	// input, the reduction or the root's. What comes from all ranks in turn is made anew.
	tableThreshold, maxTables = period / 2, 2
	// callShift is between the inputs of one call and of the next.
	callShift = 7919
)

// forBatches calls f for the elements [from, from+n) of a buffer and their bytes.
func forBatches(b dist.Buffer, f func(from, n int, elements []byte)) {
	size, data := b.DType().Size(), b.Bytes()
	for from := 0; from < b.Count(); from += batchSize {
		n := min(batchSize, b.Count()-from)
		f(from, n, data[from*size:(from+n)*size])
	}
}

// encode writes what comes from an origin, a rank or everyone, at consecutive positions.
func (in *inputs) encode(to []byte, origin, position int) {
	var values [batchSize]float64 // the inputs are small whole numbers
	size := in.dtype.Size()
	for n := 0; len(to) > 0; to, position = to[n*size:], position+n {
		n = min(batchSize, len(to)/size)
		for i := range n {
			values[i] = in.value(origin, (position+i)%period)
		}
		in.dtype.Encode(to[:n*size], values[:n])
	}
}

// elements are n elements at most stretch long, as encode writes them: a part of the
// origin's table where the vector is long, else made in scratch.
func (in *inputs) elements(scratch []byte, origin, position, n, count int) []byte {
	size := in.dtype.Size()
	table := in.tables[origin]
	switch {
	case table != nil:
	case count < tableThreshold, len(in.tables) == maxTables:
		in.encode(scratch[:n*size], origin, position)
		return scratch[:n*size]
	default:
		table = make([]byte, (period+batchSize)*size)
		in.encode(table, origin, 0)
		in.tables[origin] = table
	}
	return table[position%period*size:][:n*size]
}

// fill writes a rank's input, wherever its memory is.
func (in *inputs) fill(to dist.Buffer, rank, first int) error {
	scratch := make([]byte, batchSize*in.dtype.Size())
	return instrument.Overwrite(to, func(b dist.Buffer, begin int) {
		forBatches(b, func(from, n int, elements []byte) {
			copy(elements, in.elements(scratch, rank, first+begin+from, n, to.Count()))
		})
	})
}

// check compares a rank's output with what it must be, given how far the inputs are
// shifted. The error is a *bench.Wrong that counts elements.
func (in *inputs) check(out dist.Buffer, sh shape, rank, shifted int) error {
	var wrong bench.Wrong
	d, size := in.dtype, in.dtype.Size()
	scratch, want := make([]byte, batchSize*size), make([]byte, 0, batchSize*size)
	compare := func(from, n int, elements []byte) {
		want = want[:0]
		for i := 0; i < n; { // a stretch may come from several origins
			origin, position, run := sh.contiguous(rank, from+i, n-i)
			want = append(want, in.elements(scratch, origin, position+shifted, run, out.Count())...)
			i += run
		}
		if bytes.Equal(want, elements) {
			return
		}
		for i := range n {
			have, want := d.Get(elements, i), d.Get(want, i)
			if have != want {
				wrong.Note("rank %d, element %d is %v, want %v", rank, from+i, have, want)
			}
		}
	}
	err := instrument.Inspect(out, func(b dist.Buffer, begin int) error {
		forBatches(b, func(from, n int, elements []byte) { compare(begin+from, n, elements) })
		return nil
	})
	if err != nil {
		return err
	}
	return wrong.Err()
}

// value is what comes from an origin at a position, before it is rounded to the element type.
func (in *inputs) value(origin, position int) float64 {
	if origin == allRanks {
		return in.Stored(position)
	}
	return float64(in.Value(origin, position))
}
