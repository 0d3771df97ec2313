package solvescaling

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// checkDevice returns an error if a GPU cannot run a point, as far as that is known before the size.
func checkDevice(p, options point.Point) error {
	text := func(name string) string { return point.ValueOf(p, options, name).String() }
	if !device.SupportsBackend(text(bench.BackendName)) {
		return nil
	}
	for _, name := range []string{adjointOption, solutionOption, writtenOption} {
		if v := text(name); v != "" && v != "false" {
			return fmt.Errorf("--%s works on processors only", name)
		}
	}
	on := fmt.Sprintf("--%s %s", bench.BackendName, text(bench.BackendName))
	switch {
	case text(matrixOption) != "":
		return fmt.Errorf("%s: a GPU makes its rows itself, so that it has no --%s", on, matrixOption)
	case strings.HasPrefix(text(rhsAxis), rhsFile):
		return fmt.Errorf("%s: a GPU makes the right-hand side itself: --%s random or ones", on, rhsAxis)
	}
	problem, err := generate(p, solve.Params{Rows: sampleRows})
	if err != nil {
		return nil // the point is dropped for that reason
	}
	spec := solve.Spec{Method: text(methodAxis), Preconditioner: text(precondAxis), Partitioner: text(partitionerAxis),
		Weights: solve.Weights(text(weightsAxis)), Multigrid: multigridOf(p)}
	if err := device.CheckSupported(problem, spec); err != nil {
		return fmt.Errorf("%s: %w", on, err)
	}
	return nil
}

// checkDeviceMemory returns an error if the vectors and the matrix of a point do not fit into the memory of the GPUs.
// Multigrid needs more, which the ranks find out.
func checkDeviceMemory(p point.Point) error {
	backend, planned := p.Get(bench.BackendName)
	if !planned || !device.SupportsBackend(backend.String()) {
		return nil
	}
	ranks := int(p.At(bench.RanksAxis).Int())
	problem, err := generate(p, solve.Params{Rows: rowsOf(p, ranks)})
	if err != nil {
		return nil // the ranks report it
	}
	bytes, err := device.LeastBytes(solve.Spec{Problem: problem, Method: p.At(methodAxis).String(),
		Preconditioner: p.At(precondAxis).String(), Uncompressed: p.At(storageAxis).String() == sparse.Plain.String()}, ranks)
	if err != nil {
		return nil // checkDevice reports it
	}
	return collectives.CheckMemory(p, int64(bytes))
}
