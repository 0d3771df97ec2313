package solvescaling

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/system"
)

// singlePreconditioners are the preconditioners that exist in lower precision.
var singlePreconditioners = []string{"none", "jacobi"}

// checkPrecision returns an error if a point asks for a solve that does not exist in lower precision.
func checkPrecision(p point.Point) error {
	text := func(axis string) string { return p.At(axis).String() }
	precision := text(precisionAxis)
	if precision == system.Double {
		return nil
	}
	only := func(what, value string) error {
		return fmt.Errorf("%s %s exists in double precision only, not with --%s %s", what, value, precisionAxis, precision)
	}
	switch {
	case text(methodAxis) != system.RefinedMethod:
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
