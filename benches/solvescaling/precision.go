package solvescaling

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/refine"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// singlePreconditioners are the preconditioners that exist in lower precision.
var singlePreconditioners = []string{"none", "jacobi"}

// checkPrecision returns an error if a point asks for a solve that does not exist in lower precision.
func checkPrecision(p point.Point) error {
	text := func(axis string) string { return p.At(axis).String() }
	precision := text(precisionAxis)
	if err := checkKnown(precisionAxis, precision, refine.Precisions()); err != nil || precision == refine.Double {
		return err
	}
	only := func(what, value string) error {
		return fmt.Errorf("%s %s exists in double precision only, not with --%s %s", what, value, precisionAxis, precision)
	}
	switch {
	case text(methodAxis) != refine.Method:
		return only(methodAxis, text(methodAxis))
	case !slices.Contains(singlePreconditioners, text(precondAxis)):
		return only(precondAxis, text(precondAxis))
	case device.SupportsBackend(text(bench.BackendName)):
		return only(bench.BackendName, text(bench.BackendName))
	case p.At(columnsAxis).Int() > 1:
		return only(columnsAxis, text(columnsAxis))
	}
	return nil
}

// precisionVariant returns the solves of a system in lower precision.
func precisionVariant(s *bench.State, spec solve.Spec, made cpuSystem) (*variant, error) {
	precision := s.Str(precisionAxis)
	if s.Bool(adjointOption) {
		return nil, bench.Skip("--%s solves in double precision, not with --%s %s", adjointOption, precisionAxis, precision)
	}
	sys, err := refine.New(made.System, precision, s.Str(storageAxis) == sparse.Plain.String())
	if refusal, refused := errors.AsType[*solve.Refusal](err); refused {
		return nil, bench.Skip("%v", refusal)
	}
	if err != nil {
		return nil, err
	}
	return &variant{solves: sys, columns: 1, messages: made.Messages, matrix: sys.MatrixBytes(),
		gate:      func(out solve.Outcome) error { return out.Gate(spec.RTol) },
		solutions: made.Solution, report: func() { s.Record("reliable_updates", float64(sys.Updates)) }}, nil
}
