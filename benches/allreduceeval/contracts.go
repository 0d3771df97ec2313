package allreduceeval

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// The contracts on bits that package dist documents, each on inputs for which
// every order of additions rounds in its own way.
const (
	acrossRanks  = "ranks"  // every rank gets the same bits
	acrossRuns   = "runs"   // so does every run
	acrossSizes  = "sizes"  // an element does not depend on how many follow it
	acrossStages = "stages" // nor on the switch between one and two stages
)

var contracts = []string{acrossRanks, acrossRuns, acrossSizes, acrossStages}

// contractAlgorithms are those that can run here.
var contractAlgorithms = algorithms[:len(algorithms)-2]

var floatTypes = []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64}

// rankOrdered are the algorithms that add in rank order whatever the size.
var rankOrdered = []string{"naive", "one-stage", "two-stage"}

// unpromised drops the rows of which nothing is promised and says so.
func unpromised(p point.Point) error {
	text := func(name string) string { v, _ := p.Get(name); return v.String() }
	contract, algorithm := text("contract"), text("algorithm")
	switch {
	case !slices.Contains(contracts, contract):
		return suggest.Unknown("contract", contract, contracts)
	case contract == acrossSizes && !slices.Contains(rankOrdered, algorithm):
		return fmt.Errorf("not promised: where the blocks of %s begin, and so its order of additions, depends on the size", algorithm)
	case contract == acrossStages && !slices.Contains(rankOrdered, algorithm):
		return fmt.Errorf("not promised: %s has an order of additions of its own", algorithm)
	}
	return nil
}

// contractCells is the body: a row is a contract of an algorithm, its cells are
// the element types.
func contractCells(ctx context.Context, s *bench.State) error {
	began := time.Now()
	contract, algorithm := s.Str("contract"), s.Str("algorithm")
	var v verdict
	v.others = -1
	t := &trial{seed: s.Seed(), algorithm: algorithm}
	ran := false
	for _, d := range floatTypes {
		l, err := openLab(ctx, s, d)
		if err != nil {
			return err
		}
		t.lab = l
		if contract == acrossRanks && l.g.Capabilities().RanksRound {
			return bench.Skip("not promised: the ranks of backend %s add up in orders of their own", s.Backend())
		}
		switch {
		case codecOf(algorithm) != nil && d == dist.F64, contract == acrossStages && algorithm == "naive" && accumulator(d) != d:
			v.outcomes = append(v.outcomes, outcome{d.String(), "skipped"}) // nothing is promised of it
			continue
		}
		if err := l.lacking(algorithm, d, false); err != nil {
			if slices.Contains(l.g.Capabilities().DTypes, d) {
				return err
			}
			v.outcomes = append(v.outcomes, outcome{d.String(), "not-executed"})
			continue
		}
		ran = true
		s.Phase(d.String())
		fault, err := t.contract(ctx, s, contract)
		if err != nil {
			closeLab(s)
			return fmt.Errorf("%v: %w", d, err)
		}
		var wrong int64
		if fault != nil {
			wrong = 1
		}
		all, err := s.Group().Exchange(ctx, []int64{wrong})
		if err != nil {
			return err
		}
		v.addNamed(d.String(), fault, all)
	}
	if !ran {
		return bench.NotExecuted(false, "backend %s has none of %s", s.Backend(), list(floatTypes))
	}
	v.report(s, t, time.Since(began))
	if err := v.err(nil); err != nil {
		closeLab(s)
		return err
	}
	return nil
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
			in := newInputs(mixedInput, t.d, t.g.Size(), t.seed)
			got, err := t.sum(in, count, memory, t.algorithm)
			if err != nil {
				return nil, err
			}
			where := fmt.Sprintf("%d elements in %s memory", count, memoryNames[memory])
			var other []byte
			var than string
			switch contract {
			case acrossRanks:
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
			case acrossRuns: // with another call between, so that nothing is left over
				if _, err := t.sum(newInputs(mixedInput, t.d, t.g.Size(), t.seed+1), count, memory, t.algorithm); err != nil {
					return nil, err
				}
				than = "in another run"
				other, err = t.sum(in, count, memory, t.algorithm)
			case acrossSizes:
				than = fmt.Sprintf("as part of %d elements", longest)
				other, err = t.sum(in, longest, memory, t.algorithm)
			case acrossStages:
				partner := map[string]string{"naive": "one-stage", "one-stage": "two-stage", "two-stage": "one-stage"}[t.algorithm]
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
func (t *trial) sum(in inputs, count, memory int, algorithm string) ([]byte, error) {
	input, err := t.input(in, window{0, count})
	if err != nil {
		return nil, err
	}
	name, codec := planned(algorithm)
	space := t.space[memory]
	call := dist.Call{Op: dist.AllReduce, Reduction: dist.Sum, Algorithm: name, In: t.buffer(space.in, t.d, count, memory), Out: t.buffer(space.out, t.d, count, memory)}
	if codec != nil {
		call.Codec = *codec
	}
	copy(call.In.Bytes(), input)
	fill(call.Out.Bytes(), guard)
	op, err := t.g.Prepare(call)
	if err != nil {
		return nil, err
	}
	if err := op.Run(); err != nil {
		return nil, err
	}
	t.checked += count
	return bytes.Clone(call.Out.Bytes()), nil
}
