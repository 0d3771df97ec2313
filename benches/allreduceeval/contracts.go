package allreduceeval

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/kernel/quant"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// contractCells is the body: a row is a contract of an algorithm, its cells are
// the element types.
func contractCells(ctx context.Context, s *bench.State) error {
	began := time.Now()
	contract, algorithm := s.Str("contract"), s.Str("algorithm")
	v := verdict{others: -1}
	t := &trial{seed: s.Seed(), algorithm: algorithm}
	ran := false
	for _, d := range matrix.FloatTypes {
		w, err := openWorkspace(ctx, s, d)
		if err != nil {
			return err
		}
		t.workspace = w
		if contract == matrix.AcrossRanks && w.g.Capabilities().Has(dist.RanksMayDiffer) {
			return bench.Skip("not promised: the ranks of backend %s add up in orders of their own", s.Backend())
		}
		if !promised(contract, algorithm, d) {
			v.note(d.String(), journal.Skipped)
			continue
		}
		if err := w.unsupported(algorithm, d, false); err != nil {
			if slices.Contains(w.g.Capabilities().DTypes, d) {
				return err
			}
			v.note(d.String(), journal.NotExecuted)
			continue
		}
		ran = true
		s.Phase(d.String())
		fault, err := t.contract(ctx, s, contract)
		if err != nil {
			closeWorkspace(s)
			return within(d.String(), err)
		}
		if err := v.collect(ctx, s, d.String(), within(d.String(), fault)); err != nil {
			return err
		}
	}
	if !ran {
		return bench.NotExecuted(false, "backend %s has none of %s", s.Backend(), list(matrix.FloatTypes))
	}
	v.report(s, t, time.Since(began))
	err := v.err(nil)
	if err != nil {
		closeWorkspace(s)
	}
	return err
}

// promised tells whether a contract of an algorithm speaks of a type: codecs do
// not encode all, and two algorithms may differ in what they round on the way.
func promised(contract, algorithm string, d dist.DType) bool {
	if matrix.Codec(algorithm) != nil && !quant.Supports(d) {
		return false
	}
	return contract != matrix.AcrossStages || reference.Accumulator(d) == d ||
		matrix.Find(algorithm).Wide == matrix.Find(matrix.Partner(algorithm)).Wide
}

// contractSizes are element counts that divide and that do not.
var contractSizes = []int{1, 100, 4097, 65537}

func (t *trial) contract(ctx context.Context, s *bench.State, contract string) (fault, err error) {
	longest := contractSizes[len(contractSizes)-1]
	if err := t.reserve((longest + 1) * t.d.Size()); err != nil {
		return nil, err
	}
	for _, memory := range t.memories() {
		for _, count := range contractSizes {
			in := t.inputs(reference.Mixed)
			got, err := t.sum(in, count, memory, t.algorithm)
			if err != nil {
				return nil, err
			}
			where := fmt.Sprintf("%d elements in %s memory", count, memoryNames[memory])
			var other []byte
			var than string
			switch contract {
			case matrix.AcrossRanks:
				all, err := s.Group().Exchange(ctx, []int64{int64(crc32.Checksum(got, castagnoli))})
				if err != nil {
					return nil, err
				}
				for r, crc := range all {
					if crc[0] != all[s.Rank()][0] && fault == nil {
						fault = fmt.Errorf("%s: ranks %d and %d got different bits", where, s.Rank(), r)
					}
				}
				continue
			case matrix.AcrossRuns: // with another call between, so that nothing is left over
				if _, err := t.sum(reference.NewInputs(reference.Mixed, t.d, t.g.Size(), t.seed+1), count, memory,
					t.algorithm); err != nil {
					return nil, err
				}
				than = "in another run"
				other, err = t.sum(in, count, memory, t.algorithm)
			case matrix.AcrossSizes:
				than = fmt.Sprintf("as part of %d elements", longest)
				other, err = t.sum(in, longest, memory, t.algorithm)
			case matrix.AcrossStages:
				partner := matrix.Partner(t.algorithm)
				than = "by " + partner
				other, err = t.sum(in, count, memory, partner)
			}
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(got, other[:len(got)]) && fault == nil {
				fault = fmt.Errorf("%s: other bits than %s, first at element %d", where, than, differs(got, other)/t.d.Size())
			}
		}
	}
	return fault, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func differs(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// sum makes a call and gives a copy of its result.
func (t *trial) sum(in reference.Inputs, count, memory int, algorithm string) ([]byte, error) {
	input, err := t.refs.Input(in, reference.Window{Count: count})
	if err != nil {
		return nil, err
	}
	name, codec := planned(algorithm)
	space := t.space[memory]
	call := dist.Call{Op: dist.AllReduce, Reduction: dist.Sum, Algorithm: name}
	call.In, call.Out = t.ends(count, memory)
	if codec != nil {
		call.Codec = *codec
	}
	copy(space.in, input)
	fill(space.out[:len(input)])
	op, err := t.g.Prepare(call)
	if err != nil {
		return nil, err
	}
	if err := t.around(memory, len(input), op.Run); err != nil {
		return nil, err
	}
	t.checked += count
	return bytes.Clone(space.out[:len(input)]), nil
}
