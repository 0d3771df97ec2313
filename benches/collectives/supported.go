package collectives

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// plannedShape returns the shape of a point before it runs, without its size.
func plannedShape(p point.Point) (shape, error) {
	d, badType := dtype.Parse(p.At("dtype").String())
	r, badReduction := dtype.ParseReduction(p.At("reduction").String())
	return shape{op: p.At("op").String(), dtype: d, reduction: r, ranks: int(p.At(bench.RanksAxis).Int()),
		buffers: p.At("buffers").String()}, errors.Join(badType, badReduction)
}

// checkSupported returns an error if the backend of a point cannot run it on any machine. What a machine lacks is
// found when the ranks have joined.
func checkSupported(p point.Point) error {
	backend, planned := p.Get(bench.BackendName)
	sh, err := plannedShape(p)
	if !planned || err != nil {
		return nil // any backend may run it, or checkPoint reports what is wrong
	}
	return refusal(dist.Describe(backend.String()).Capabilities, backend.String(), p.At("algorithm").String(), sh)
}

// CheckAllReduce returns an error if the backend of a point cannot run an all-reduce of sums on any machine, or if its
// devices are too small for the buffers.
func CheckAllReduce(p point.Point, call AllReduceCall) error {
	backend, planned := p.Get(bench.BackendName)
	if !planned {
		return nil
	}
	name := backend.String()
	caps := dist.Describe(name).Capabilities
	if b, ok := dist.As[interface {
		CapabilitiesWith(knobs map[string]string) dist.Capabilities
	}](name); ok {
		caps = b.CapabilitiesWith(call.Knobs)
	}
	sh := shape{op: allReduce, dtype: call.DType, reduction: dist.Sum, ranks: int(p.At(bench.RanksAxis).Int()),
		buffers: symmetric}
	if err := refusal(caps, name, call.Algorithm, sh); err != nil {
		return err
	}
	buffers := 2
	if call.InPlace {
		buffers = 1
	}
	return CheckMemory(p, int64(buffers*call.Count*call.DType.Size()))
}

// join lists values in words.
func join[T fmt.Stringer](list []T) string { return strings.Join(lists.Map(list, T.String), ", ") }

func refusal(caps dist.Capabilities, backend, algorithm string, sh shape) error {
	if reason := unsupported(caps, backend, algorithm, sh); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// unsupported says in a sentence which part of the point the backend does not support. It returns "" if it supports
// everything.
func unsupported(caps dist.Capabilities, backend, algorithm string, sh shape) string {
	lacks := func(format string, args ...any) string {
		return "backend " + backend + " " + fmt.Sprintf(format, args...)
	}
	for _, op := range sh.calls() {
		if !slices.Contains(caps.Ops, op) {
			return lacks("has no %s", op)
		}
		choice, _ := tuning.ParseChoice(algorithm) // knownAlgorithm has refused malformed names
		name := choice.Algorithm
		if choice.Steps && !caps.Has(dist.ScheduleSteps) {
			return lacks("has its own algorithms and does not execute the steps of others (%s)", algorithm)
		}
		if choice.ChunkBytes > 0 && !caps.Has(dist.Pipelining) {
			return lacks("does not divide calls into pieces of a chosen size (%s)", algorithm)
		}
		if choice.Blocks > 0 && !caps.Has(dist.ThreadBlocks) {
			return lacks("has no thread blocks whose number could be chosen (%s)", algorithm)
		}
		if known := caps.Algorithms[op]; name != auto && !slices.Contains(known, name) {
			if why := caps.Missing[name]; why != "" {
				return lacks("has no %s: %s", name, why)
			}
			if can := dist.Describe(backend).Algorithms[op]; slices.Contains(can, name) {
				return lacks("has no %s algorithm %s in a group of %d", op, name, sh.ranks)
			}
			return lacks("has no %s algorithm %s, only %s", op, name, strings.Join(append(slices.Clone(known), auto), ", "))
		}
		if op.Reduces() && !slices.Contains(caps.Reductions, sh.reduction) {
			return lacks("has no reduction %s, only %s", sh.reduction, join(caps.Reductions))
		}
	}
	if !slices.Contains(caps.DTypes, sh.dtype) {
		return lacks("has no element type %s, only %s", sh.dtype, join(caps.DTypes))
	}
	if sh.buffers == symmetric && !caps.Has(dist.SymmetricMemory) {
		return lacks("has no symmetric memory")
	}
	return ""
}
