package collectives

import (
	"errors"
	"slices"
	"strings"
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
			value := func(origin, position int) byte {
				if origin == allRanks {
					return byte(in.Stored(position))
				}
				return byte(in.Value(origin, position))
			}
			ins, outs := sh.counts(rank)
			given := dist.Make(sh.dtype, ins)
			must.Do(t, in.fill(given, rank, sh.inputOffset(rank)+shifted))
			for i, v := range given.Bytes() {
				if want := value(rank, (sh.inputOffset(rank)+shifted+i)%period); v != want {
					t.Fatalf("%s of %d: input %d is %d, want %v", op, count, i, v, want)
				}
			}
			out := dist.Make(sh.dtype, outs)
			for i := range out.Bytes() {
				origin, position := sh.origin(rank, i)
				out.Bytes()[i] = value(origin, (position+shifted)%period)
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

// A sum of 64-bit integers by way of float64 must be found, and the error must show the difference.
func TestRoundedIntegersAreWrong(t *testing.T) {
	sh := shape{op: string(dist.AllReduce), dtype: dist.I64, reduction: dist.Sum, count: 1000, ranks: 2}
	in, sum, rounded := newInputs(9, sh), make([]int64, 1000), make([]int64, 1000)
	for rank := range sh.ranks {
		own := make([]int64, 1000)
		must.Do(t, in.fill(dist.Of(own), rank, 0))
		for i, v := range own {
			sum[i], rounded[i] = sum[i]+v, int64(float64(rounded[i])+float64(v))
		}
	}
	must.Do(t, in.check(dist.Of(sum), sh, 0, 0))
	var wrong *bench.Wrong
	if err := in.check(dist.Of(rounded), sh, 0, 0); !errors.As(err, &wrong) || wrong.Count < 100 {
		t.Fatalf("sums in float64: %v", err)
	}
	if text := wrong.Error(); !strings.Contains(text, " is ") || strings.Contains(text, "e+") {
		t.Errorf("the error shows rounded integers: %v", wrong)
	}
}
