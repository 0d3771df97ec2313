package collectives

import (
	"errors"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Long vectors come from tables and short ones are generated element by element. Both must match the
// origins of their elements, and a single wrong element or a block from another position must be
// found.
func TestInputsOfAnyLength(t *testing.T) {
	for _, op := range ops() {
		if op == barrier {
			continue
		}
		for _, count := range []int{1, 2*batchSize + 5, 3*tableThreshold + 7} {
			sh := shape{op: op, dtype: dist.U8, count: count, ranks: 3}
			const rank, shifted = 1, 5 * callShift
			in := newInputs(9, sh)
			ins, outs := sh.counts(rank)
			given := dist.Make(sh.dtype, ins)
			must.Do(t, in.fill(given, rank, sh.inputOffset(rank)+shifted))
			for i, v := range given.Bytes() {
				if want := in.value(rank, (sh.inputOffset(rank)+shifted+i)%period); float64(v) != want {
					t.Fatalf("%s of %d: input %d is %d, want %v", op, count, i, v, want)
				}
			}
			out := dist.Make(sh.dtype, outs)
			for i := range out.Bytes() {
				origin, position := sh.origin(rank, i)
				out.Bytes()[i] = byte(in.value(origin, (position+shifted)%period))
			}
			if err := in.check(out, sh, rank, shifted); err != nil {
				t.Errorf("%s of %d: %v", op, count, err)
			}
			if outs == 0 {
				continue
			}
			var wrong *bench.Wrong
			out.Bytes()[outs-1]++
			if err := in.check(out, sh, rank, shifted); !errors.As(err, &wrong) || wrong.Count != 1 {
				t.Errorf("%s of %d with one wrong element: %v", op, count, err)
			}
			out.Bytes()[outs-1]--
			if block := outs / 4; block > 100 {
				copy(out.Bytes()[block:2*block], slices.Clone(out.Bytes()[:block]))
				if err := in.check(out, sh, rank, shifted); !errors.As(err, &wrong) || int(wrong.Count) < block*9/10 {
					t.Errorf("%s of %d with a block of another place: %v", op, count, err)
				}
			}
		}
	}
}
