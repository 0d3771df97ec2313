package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// checkDevice returns an error if a GPU cannot run a point, as far as that is known before the size.
func checkDevice(p, options point.Point) error {
	text := func(name string) string {
		v, ok := p.Get(name)
		if !ok {
			v, _ = options.Get(name)
		}
		return v.String()
	}
	if !device.SupportsBackend(text(bench.BackendName)) {
		return nil
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

// deviceBody is the body for solves on GPUs.
func deviceBody(ctx context.Context, s *bench.State, spec solve.Spec, name string) error {
	g, err := join(ctx, s, spec)
	if err != nil {
		return collectives.JoinError(err)
	}
	defer g.Close()
	deviceSpec := device.Spec{Spec: spec, DeviceRHS: device.Noise}
	if s.Str(rhsAxis) == "ones" {
		deviceSpec.DeviceRHS = device.Ones
	}
	sys, err := device.New(g, deviceSpec)
	if _, is := errors.AsType[*solve.Refusal](err); is {
		return bench.NotExecuted(false, "%v", err)
	}
	if err != nil {
		return err
	}
	defer sys.Close()
	if err := reportSetting(s, spec, name); err != nil {
		return err
	}
	facts := g.Facts()
	s.Detail("library", facts.Library)
	s.Detail(gpuDetail, sys.GPU())
	s.Detail(journal.SharingDetail, fmt.Sprint(facts.RanksPerDevice))
	collectives.Observe(s, instrument.ObserverOf(g), "before")
	s.Phase("warm-up")
	if _, err := sys.Solve(warmup); err != nil {
		return err
	}
	memory := &triad{once: sys.Triad, bytes: sys.TriadBytes(), sweeps: deviceSweeps}
	out, times, err := timeSolves(ctx, s, sys, sys.Size, memory)
	if err != nil {
		return err
	}
	collectives.Observe(s, instrument.ObserverOf(g), "after")
	products := float64(out.Products) / float64(max(1, out.Iterations))
	mine := part{local: sys.Part, times: sys.Times, messages: sys.Part.Neighbours, matrix: sys.MatrixBytes,
		operator: sys.Hierarchy()}
	if err := reportSystem(ctx, s, mine, sys.Size, products, float64(sys.Bytes)); err != nil {
		return err
	}
	if out.Gate(spec.RTol) == nil {
		if err := reportPhases(ctx, s, sys, sys.Hierarchy(), memory, times); err != nil {
			return err
		}
	}
	s.Phase("gate")
	return out.Gate(spec.RTol)
}

// deviceSweeps is the number of triad sweeps in GPU memory before and after each solve.
const deviceSweeps = 5
