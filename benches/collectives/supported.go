package collectives

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
)

// checkSupported returns an error if the backend of a point cannot run it on any machine. What a machine lacks is
// found when the ranks have joined.
func checkSupported(p point.Point) error {
	backend, planned := p.Get(bench.BackendName)
	sh, err := shapeOf(p)
	if !planned || err != nil {
		return nil // any backend may run it, or checkPoint reports what is wrong
	}
	caps := dist.Describe(backend.String()).Capabilities
	if b, ok := dist.As[interface {
		CapabilitiesWith(knobs map[string]string) dist.Capabilities
	}](backend.String()); ok {
		caps = b.CapabilitiesWith(sh.knobs)
	}
	if reason := sh.unsupported(caps, backend.String()); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// join lists values in words.
func join[T fmt.Stringer](list []T) string { return strings.Join(lists.Map(list, T.String), ", ") }

// unsupported says in a sentence which part of the operation the backend does not support. It returns "" if it supports
// everything.
func (sh shape) unsupported(caps dist.Capabilities, backend string) string {
	lacks := func(format string, args ...any) string {
		return "backend " + backend + " " + fmt.Sprintf(format, args...)
	}
	name := sh.choice.Algorithm
	for _, op := range sh.calls() {
		known := caps.Algorithms[op]
		has := name == auto || slices.Contains(known, name)
		switch {
		case !caps.Can(op):
			return lacks("has no %s", op)
		case sh.choice.Steps && !caps.Has(dist.ScheduleSteps):
			return lacks("has its own algorithms and does not execute the steps of others (%s)", sh.algorithm)
		case sh.choice.ChunkBytes > 0 && !caps.Has(dist.Pipelining):
			return lacks("does not divide calls into pieces of a chosen size (%s)", sh.algorithm)
		case sh.choice.Blocks > 0 && !caps.Has(dist.ThreadBlocks):
			return lacks("has no thread blocks whose number could be chosen (%s)", sh.algorithm)
		case !has && caps.Missing[name] != "":
			return lacks("has no %s: %s", name, caps.Missing[name])
		case !has && slices.Contains(dist.Describe(backend).Algorithms[op], name):
			return lacks("has no %s algorithm %s in a group of %d", op, name, sh.ranks)
		case !has:
			return lacks("has no %s algorithm %s, only %s", op, name, strings.Join(append(slices.Clone(known), auto), ", "))
		case op.Reduces() && !slices.Contains(caps.Reductions, sh.reduction):
			return lacks("has no reduction %s, only %s", sh.reduction, join(caps.Reductions))
		}
	}
	switch {
	case !slices.Contains(caps.DTypes, sh.dtype):
		return lacks("has no element type %s, only %s", sh.dtype, join(caps.DTypes))
	case sh.buffers == symmetric && !caps.Has(dist.SymmetricMemory):
		return lacks("has no symmetric memory")
	}
	return ""
}
