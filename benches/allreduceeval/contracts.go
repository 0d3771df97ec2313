package allreduceeval

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/kernel/quant"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// contractCells is the body of the contracts part. A row is a contract of an
// algorithm, and its cells are the element types.
func contractCells(ctx context.Context, s *bench.State) error {
	contract, algorithm := s.Str("contract"), s.Str("algorithm")
	w, err := openWorkspace(ctx, s, matrix.FloatTypes[0])
	if err != nil {
		return err
	}
	can := w.g.Capabilities()
	has := intersect(matrix.FloatTypes, can.DTypes)
	switch {
	case contract == matrix.AcrossRanks && can.Has(dist.RanksMayDiffer):
		return bench.Skip("not promised: each rank of backend %s adds in its own order", s.Backend())
	case len(has) == 0:
		return bench.NotExecuted(false, "backend %s has none of %s", s.Backend(), joinNames(matrix.FloatTypes))
	}
	if err := w.unsupported(algorithm, has[0], false); err != nil {
		return err
	}
	t := &trial{algorithm: algorithm}
	return t.runCells(ctx, s, "", names(matrix.FloatTypes), func(i int) (not journal.Status, fault, err error) {
		d := matrix.FloatTypes[i]
		switch {
		case !contractApplies(contract, algorithm, d):
			return journal.Skipped, nil, nil
		case !slices.Contains(has, d):
			return journal.NotExecuted, nil, nil
		}
		if t.workspace, err = openWorkspace(ctx, s, d); err == nil {
			fault, err = t.checkContract(ctx, s, contract)
		}
		return "", fault, err
	})
}

// contractApplies reports whether an algorithm promises a contract for an element type.
// Codecs do not encode all types, and two algorithms with the same order of additions
// may differ in their intermediate roundings.
func contractApplies(contract, algorithm string, d dist.DType) bool {
	if matrix.Codec(algorithm) != nil && !quant.Supports(d) {
		return false
	}
	return contract != matrix.AcrossStages || reference.Accumulator(d) == d ||
		matrix.Find(algorithm).Wide == matrix.Find(matrix.Partner(algorithm)).Wide
}

// contractSizes are element counts, even and odd ones. The last is the longest.
var contractSizes = []int{1, 100, 4097, 65537}

// checkContract checks a contract at all sizes in all kinds of memory.
func (t *trial) checkContract(ctx context.Context, s *bench.State, contract string) (fault, err error) {
	if err := t.reserve((slices.Max(contractSizes) + 1) * t.d.Size()); err != nil {
		return nil, err
	}
	for _, memory := range t.memoryKinds() {
		for _, count := range contractSizes {
			f, err := t.compareBits(ctx, s, contract, count, memory)
			if err != nil {
				return nil, err
			}
			if fault == nil {
				fault = wrap(fmt.Sprintf("%d elements in %s memory", count, memoryNames[memory]), f)
			}
		}
	}
	return fault, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compareBits compares a result with the one that must have the same bits.
func (t *trial) compareBits(ctx context.Context, s *bench.State, contract string,
	count, memory int) (fault, err error) {
	in := t.inputs(reference.Mixed)
	got, err := t.reduce(in, count, memory, t.algorithm)
	if err != nil {
		return nil, err
	}
	var other []byte
	var source string
	switch contract {
	case matrix.AcrossRanks:
		sums, err := bench.Gather(ctx, s, []int64{int64(crc32.Checksum(got, castagnoli))})
		if err != nil {
			return nil, err
		}
		differs := func(sum []int64) bool { return sum[0] != sums[s.Rank()][0] }
		if r := slices.IndexFunc(sums, differs); r >= 0 {
			fault = fmt.Errorf("ranks %d and %d got different bits", s.Rank(), r)
		}
		return fault, nil
	case matrix.AcrossRuns: // a call with other inputs in between overwrites the first result
		between := reference.NewInputs(reference.Mixed, t.d, t.g.Size(), t.seed+1)
		if _, err := t.reduce(between, count, memory, t.algorithm); err != nil {
			return nil, err
		}
		source = "in another run"
		other, err = t.reduce(in, count, memory, t.algorithm)
	case matrix.AcrossSizes:
		longest := slices.Max(contractSizes)
		source = fmt.Sprintf("as part of %d elements", longest)
		other, err = t.reduce(in, longest, memory, t.algorithm)
	case matrix.AcrossStages:
		partner := matrix.Partner(t.algorithm)
		source = "by " + partner
		other, err = t.reduce(in, count, memory, partner)
	}
	if err != nil || bytes.Equal(got, other[:len(got)]) {
		return nil, err
	}
	first := 0
	for got[first] == other[first] {
		first++
	}
	return fmt.Errorf("other bits than %s, first at element %d", source, first/t.d.Size()), nil
}

// reduce makes a call and returns a copy of its result.
func (t *trial) reduce(in reference.Inputs, count, memory int, algorithm string) ([]byte, error) {
	input, err := t.refs.Input(in, reference.Window{Count: count})
	if err != nil {
		return nil, err
	}
	call := newCall(algorithm)
	call.In, call.Out = t.buffers(count, memory)
	if err := setUp(call.Out, call.In, input); err != nil {
		return nil, err
	}
	if err := t.runOther(call); err != nil {
		return nil, err
	}
	t.checked += count
	out, err := call.Out.Mirror()
	return bytes.Clone(out.Bytes()), err
}
