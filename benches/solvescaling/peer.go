package solvescaling

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

const (
	noPeer = "none"
	petsc  = "petsc"
	// petscVariable names the program that solves with PETSc. If it is not set, petscProgram is searched in PATH.
	petscVariable = "KERNBENCH_PETSC"
	petscProgram  = "kernbench-petsc"
	// unavailable is the exit status of the program if it cannot work on this machine.
	unavailable = 69
)

// peers maps the values of --peer to PETSc's counterparts of our preconditioners. A peer has rows only for the listed
// preconditioners.
var peers = map[string]map[string]string{
	noPeer:           nil,
	petsc:            {precondition.None: "none", "jacobi": "jacobi", "bjacobi": "bjacobi", "amg": "gamg"},
	petsc + ":cg":    {precondition.None: "none", "jacobi": "jacobi"},
	petsc + ":gamg":  {"gmg": "gamg", "amg": "gamg", auto: "gamg"},
	petsc + ":hypre": {"gmg": "hypre", "amg": "hypre", auto: "hypre"},
}

// checkPeer returns an error if a peer has no row for a point.
func checkPeer(p point.Point) error {
	text := func(axis string) string { return p.At(axis).String() }
	peer := text(peerAxis)
	if err := checkKnown(peerAxis, peer, slices.Sorted(maps.Keys(peers))); err != nil || peer == noPeer {
		return err
	}
	switch _, has := peers[peer][text(precondAxis)]; {
	case text(methodAxis) != krylov.Default && text(methodAxis) != auto:
		return fmt.Errorf("peer %s solves by %s alone, not %s", peer, krylov.Default, text(methodAxis))
	case text(partitionerAxis) != partition.Default:
		return fmt.Errorf("peer %s has strips of rows (partitioner %s), not %s", peer, partition.Default,
			text(partitionerAxis))
	case text(weightsAxis) != string(partition.ByRows):
		return fmt.Errorf("peer %s has strips of the same rows (weights %s), not %s", peer, partition.ByRows,
			text(weightsAxis))
	case !has:
		return fmt.Errorf("peer %s can be compared with the preconditioners %s, not %s", peer,
			strings.Join(slices.Sorted(maps.Keys(peers[peer])), ", "), text(precondAxis))
	}
	return nil
}

// The values of one solve of a peer. sampleNames holds their names in the output of the program.
const (
	setupSeconds = iota
	setupCPU
	solveSeconds
	solveCPU
	solveIterations
	solveConverged
	solveResidual
	versionMajor
	versionMinor
	versionPatch
	sampleValues
)

var sampleNames = [sampleValues]string{"setup_s", "setup_cpu_s", "solve_s", "solve_cpu_s", "iterations", "converged",
	"residual",
	"major", "minor", "patch"}

// runPeer lets rank 0 start a peer on the same number of ranks. The ranks of this launch wait meanwhile.
func runPeer(ctx context.Context, s *bench.State, spec solve.Spec, name string) error {
	if spec.StopAfter > 0 {
		return bench.Skip("a peer solves to the end: leave --%s out", stopOption)
	}
	program, err := dynlib.Program(petscVariable, petscProgram)
	if err != nil {
		return bench.NotExecuted(false,
			"PETSc's program is not installed (%v): set %s to peers/petsc.sh of kernbench's source", err, petscVariable)
	}
	everyones, err := coresOfRanks(ctx, s)
	if err != nil {
		return err
	}
	s.Phase(s.Str(peerAxis))
	values := make([]float64, 2+sampleValues*s.Int(repeatOption)) // size, true residual, samples
	var failed error
	if s.Rank() == 0 {
		failed = peerOnRank0(ctx, s, spec, everyones, program, values)
		if errors.As(failed, new(peerUnavailable)) {
			values[0] = -1
		}
	}
	all, err := s.Gather(ctx, values...) // so that all ranks record the same
	if err != nil {
		return errors.Join(failed, err)
	}
	for i := range values {
		values[i] = all[i][0]
	}
	switch {
	case values[0] > 0:
		if err := reportSetting(s, spec, name); err != nil {
			return err
		}
		return reportPeer(s, spec.RTol, values)
	case failed == nil:
		failed = errors.New("rank 0 could not run the peer")
	}
	if values[0] < 0 {
		return bench.NotExecuted(false, "%v", failed)
	}
	return failed
}

// coresOfRanks lists the cores of all ranks, which must be on one host. Each rank may be bound to its own cores, and a
// peer that rank 0 starts would otherwise be confined to the cores of rank 0.
func coresOfRanks(ctx context.Context, s *bench.State) ([]int, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this host: %w", err)
	}
	hash := fnv.New32()
	_, _ = hash.Write([]byte(host))
	mine := make([]int64, 1+len(unix.CPUSet{})) // the host, then a bit for each core
	mine[0] = int64(hash.Sum32())
	for _, core := range cores.Allowed() {
		mine[1+core/64] |= 1 << (core % 64)
	}
	all, err := s.Group().Exchange(ctx, mine)
	if err != nil {
		return nil, err
	}
	var out []int
	for core := range 64 * (len(mine) - 1) {
		if slices.ContainsFunc(all, func(theirs []int64) bool { return theirs[1+core/64]>>(core%64)&1 == 1 }) {
			out = append(out, core)
		}
	}
	if slices.ContainsFunc(all, func(theirs []int64) bool { return theirs[0] != mine[0] }) {
		return nil, bench.NotExecuted(false, "a peer is started on one host alone")
	}
	return out, nil
}

// peerSingular is the reason why a peer has no row for a singular matrix.
const peerSingular = "the matrix is singular (its rows add up to zero), and the peer's program projects no " +
	"null space out"

// peerUnavailable is the reason why a peer does not work on this machine.
type peerUnavailable string

func (c peerUnavailable) Error() string { return string(c) }

// peerOnRank0 writes the whole system to files, runs the peer, and checks its solution.
func peerOnRank0(ctx context.Context, s *bench.State, spec solve.Spec, everyones []int, program string,
	values []float64) error {
	dir, err := os.MkdirTemp("", "kernbench-peer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	problem := spec.Problem
	if spec.MatrixFile != "" {
		if problem, err = sparse.LoadMatrix(spec.MatrixFile, nil); err != nil {
			return err
		}
	}
	if spec.RHSRows > 0 && spec.RHSRows != problem.Size() {
		return fmt.Errorf("the right-hand side has %d values, the matrix %d rows", spec.RHSRows, problem.Size())
	}
	if problem.Traits().Symmetric && sparse.AddUpToZero(problem) {
		return peerUnavailable(peerSingular)
	}
	matrix, rhs, solution := filepath.Join(dir, "matrix"), filepath.Join(dir, "rhs"), filepath.Join(dir, "solution")
	if err := writeFile(matrix, func(w io.Writer) error { return writeMatrix(w, problem) }); err != nil {
		return err
	}
	if err := writeFile(rhs, func(w io.Writer) error { return writeVector(w, problem.Size(), spec.RHS) }); err != nil {
		return err
	}
	limit := cmp.Or(spec.MaxIter, krylov.MaxIter(problem.Size()))
	out, err := execute(ctx, everyones, program, strconv.Itoa(s.Size()), peers[s.Str(peerAxis)][s.Str(precondAxis)],
		matrix, rhs, solution,
		fmt.Sprint(spec.RTol), strconv.Itoa(limit), strconv.Itoa(s.Int(repeatOption)))
	if err != nil {
		return err
	}
	if err := parseSamples(out, values[2:]); err != nil {
		return err
	}
	x, err := readVector(solution, problem.Size())
	if err != nil {
		return err
	}
	values[0], values[1] = float64(problem.Size()), residualOf(problem, spec.RHS, x)
	return nil
}

// execute runs the program on the given cores and returns its output.
func execute(ctx context.Context, on []int, program string, args ...string) ([]byte, error) {
	runtime.LockOSThread() // the program inherits the binding of this thread
	defer runtime.UnlockOSThread()
	restore, err := cores.BindThread(on...)
	if err != nil {
		return nil, err
	}
	defer restore()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the launcher then ends its ranks
	cmd.WaitDelay = 30 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == unavailable {
		return nil, peerUnavailable(lines[len(lines)-1])
	}
	return nil, fmt.Errorf("the peer %s: %w: %s", program, err, strings.Join(lines[max(0, len(lines)-5):], "; "))
}

// parseSamples reads the program's lines into values. The number of solves must match.
func parseSamples(out []byte, values []float64) error {
	found, want := 0, len(values)/sampleValues
	for line := range strings.Lines(string(out)) {
		words := map[string]string{}
		for _, w := range strings.Fields(line) {
			if name, value, ok := strings.Cut(w, "="); ok {
				words[name] = value
			}
		}
		if _, ok := words[sampleNames[solveSeconds]]; !ok {
			continue // output of a library
		}
		if found++; found > want {
			break
		}
		for k, name := range sampleNames {
			v, err := strconv.ParseFloat(words[name], 64)
			if err != nil || !(v >= 0) || math.IsInf(v, 0) {
				return fmt.Errorf("the peer says %s=%q: want a number", name, words[name])
			}
			values[(found-1)*sampleValues+k] = v
		}
	}
	if found != want {
		return fmt.Errorf("the peer reported %d solves, want %d", found, want)
	}
	return nil
}

// reportPeer records the metrics that a peer's row shares with ours, and applies the same gate.
func reportPeer(s *bench.State, rtol float64, values []float64) error {
	size, residual, samples := values[0], values[1], values[2:]
	of := func(k int) (out []float64) {
		for i := k; i < len(samples); i += sampleValues {
			out = append(out, samples[i])
		}
		return out
	}
	last := samples[len(samples)-sampleValues:]
	seconds, each := of(solveSeconds), 1e6/max(1, last[solveIterations])
	s.RecordSamples("time_us", lists.Map(seconds, func(t float64) float64 { return t * each }))
	s.RecordSamples("solve_time_s", seconds)
	s.Record("iterations", last[solveIterations])
	s.Record("rel_residual", residual)
	s.Record("rel_residual_recursive", last[solveResidual])
	s.Record("dof_global", size)
	s.Record("dof_per_rank", size/float64(s.Size()))
	s.Record("throughput_dof_s", size/slices.Min(seconds))
	s.Record("precond_setup_s", slices.Min(of(setupSeconds)))
	s.Record("precond_setup_cpu_s", slices.Min(of(setupCPU)))
	s.Record("solve_cpu_s", slices.Min(of(solveCPU)))
	library := fmt.Sprintf("PETSc %g.%g.%g", last[versionMajor], last[versionMinor], last[versionPatch])
	s.Detail("library", library)
	s.Warn("solved by %s, not by kernbench", library)
	status := krylov.TooManyIterations
	if last[solveConverged] == 1 {
		status = krylov.Converged
	}
	return solve.Outcome{Result: solve.Result{Status: status, Iterations: int(last[solveIterations]),
		Residual: last[solveResidual]},
		TrueResidual: residual}.Gate(rtol)
}

// solverOf returns the solver of a row: method and preconditioner, and the peer if there is one.
func solverOf(r *journal.Row) string {
	method, pre, peer := dataset.Text(r, methodAxis), dataset.Text(r, precondAxis), dataset.Text(r, peerAxis)
	chosen := r.Details[chosenDetail]
	if theirs, ok := peers[peer][pre]; ok {
		method, pre = "PETSc's "+krylov.Default, theirs
	} else if chosen != "" {
		return auto + ": " + chosen
	}
	return solverName(method, pre) + settingsOf(r)
}

// solverName names a method with a preconditioner.
func solverName(method, precond string) string {
	if precond == precondition.None {
		return method
	}
	return method + " + " + precond
}

// settingsOf lists the multigrid settings of a row that are not the defaults.
func settingsOf(r *journal.Row) string {
	var words []string
	for _, axis := range multigridOf(r.Point).Changed(false) {
		words = append(words, axis+" "+dataset.Text(r, axis))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// residualOf returns ||b - Ax|| / ||b||, computed row by row.
func residualOf(problem sparse.Problem, rhs func(int) float64, x []float64) float64 {
	var row sparse.Row
	above, below := 0.0, 0.0
	for i := range problem.Size() {
		problem.Row(i, &row)
		b := rhs(i)
		d := b
		for k, c := range row.Cols {
			d -= row.Vals[k] * x[c]
		}
		above += d * d
		below += b * b
	}
	if below == 0 {
		return math.Sqrt(above)
	}
	return math.Sqrt(above / below)
}

// The numbers at the start of a matrix and of a vector in PETSc's binary format.
const (
	matrixMark = 1211216
	vectorMark = 1211214
)

func writeFile(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(fill(w), w.Flush(), f.Close())
}

// writeMatrix writes mark, rows, columns, entries, the length of each row, all columns, all values.
func writeMatrix(w io.Writer, problem sparse.Problem) error {
	var row sparse.Row
	n, entries := problem.Size(), 0
	lengths := make([]int32, n)
	for i := range n {
		problem.Row(i, &row)
		lengths[i] = int32(len(row.Cols))
		entries += len(row.Cols)
	}
	if entries > math.MaxInt32 {
		return fmt.Errorf("%d entries: the peer has 32-bit numbers", entries)
	}
	if err := binary.Write(w, binary.BigEndian, []int32{matrixMark, int32(n), int32(n), int32(entries)}); err != nil {
		return err
	}
	if err := binary.Write(w, binary.BigEndian, lengths); err != nil {
		return err
	}
	buf := make([]byte, 0, 1<<12)
	for _, values := range []bool{false, true} {
		for i := range n {
			problem.Row(i, &row)
			buf = buf[:0]
			for k, c := range row.Cols {
				if values {
					buf = binary.BigEndian.AppendUint64(buf, math.Float64bits(row.Vals[k]))
				} else {
					buf = binary.BigEndian.AppendUint32(buf, uint32(c))
				}
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeVector(w io.Writer, n int, at func(int) float64) error {
	if err := binary.Write(w, binary.BigEndian, []int32{vectorMark, int32(n)}); err != nil {
		return err
	}
	var buf []byte
	for i := range n {
		buf = binary.BigEndian.AppendUint64(buf[:0], math.Float64bits(at(i)))
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

func readVector(path string, n int) ([]float64, error) {
	data, err := infile.ReadRegular(path, int64(8+8*n))
	if err != nil {
		return nil, fmt.Errorf("the peer's solution: %w", err)
	}
	if len(data) != 8+8*n || binary.BigEndian.Uint32(data) != vectorMark || int(binary.BigEndian.Uint32(data[4:])) != n {
		return nil, fmt.Errorf("the peer's solution has %d bytes: want a vector of %d values", len(data), n)
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Float64frombits(binary.BigEndian.Uint64(data[8+8*i:]))
	}
	return x, nil
}
