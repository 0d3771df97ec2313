// Package gpusolve holds the kernels of conjugate gradients on NVIDIA GPUs: CUDA C++
// sources, and the PTX made of them once, which the driver compiles for the GPU at hand.
// `make ptx` renews the PTX where nvcc is; a test holds that it comes from the sources
// beside it. The sources are C too, so tests run the same kernels on the processor.
//
// The package says what the kernels are called and what their argument looks like; package
// device of the solve layer places rows in memory and starts them.
//
// # Bytes
//
// All methods are bound by memory, so the kernels are cut to move little of it. Per row of n
// entries and without a preconditioner:
//
//	cg         two kernels, 9 vectors: 72 bytes and the matrix
//	cg-single  one kernel, 10 vectors: 80 bytes and the matrix
//	pipelined  one kernel, 12 vectors: 96 bytes and the matrix
//	plain      12 n + 4 bytes (64 of 5 points), a reciprocal more for jacobi
//	stencil    1 byte
//	variable   9 bytes, a reciprocal more for jacobi: the coefficient of every point, entries being computed of these
//
// A product needs the new direction of neighbours, which others compute at the same time. It
// is computed again from the old one instead, which lies in a cache: that saves a kernel and
// a pass over memory, and costs a second direction: 40 bytes a row (cg-single 64) are kept. The
// pipelined method multiplies by what the iteration before has computed, and keeps 56.
//
// A multigrid cycle (cycle.cu) has six kernels a level, which move 14 vectors of it, its diagonal
// thrice and its matrix four times; on coarser levels that is 8 bytes for each of 9 or 27 diagonals,
// or a byte where the problem's own matrix is a stencil.
package gpusolve

import (
	"embed"
	"io/fs"
)

//go:embed *.cu *.cuh
var sources embed.FS

//go:embed ptx/*.ptx
var compiled embed.FS

// Sources are the kernels as they were written.
func Sources() fs.FS { return sources }

// PTX is the kernels of a source, by its name without an ending, as drivers take them.
func PTX(name string) ([]byte, error) { return compiled.ReadFile("ptx/" + name + ".ptx") }

// The bounds of Params.
const (
	MaxRanks  = 16
	MaxPoints = 27
	// Sides is the number of ways to lie at the sides of a grid.
	Sides = 64
	// Rows is how many rows a block takes at a time, and its threads.
	Rows = 256
	// MailBytes is the memory for what the ranks tell one of them.
	MailBytes = 4 * MaxRanks * 32
	// MaxSums is the most scalar products of a step.
	MaxSums = 3
)

// Right-hand sides.
const (
	Ones uint32 = iota
	Noise
)

// Faults that can be planted: see params.cuh.
const (
	DroppedHalo uint32 = 1 << iota
	WrongDot
	StaleScalar
	MissingWait
	StaleSums
	NoCorrection
	WrongRestriction
)

// The steps of a multigrid cycle: see cycle.cu. Those before Restrict multiply by the matrix of a level.
const (
	Smooth uint32 = iota
	Defect
	Relax
	Finish
	Lanczos
	Restrict
	Correct
	Solve
	BeginLanczos
	NextLanczos
)

// How a solve ends.
const (
	Running uint32 = iota
	Converged
	TooMany
	Breakdown
)

// Reason is why a solve broke down, in the words of package krylov.
func Reason(number uint32) string {
	return [...]string{"", "the matrix or the preconditioner is not positive definite: use minres",
		"the preconditioner is not positive definite",
		"a scalar product is not finite"}[min(number, 3)]
}

// Params is the argument of every kernel; see params.cuh, which it mirrors.
type Params struct {
	X, Q                            uint64
	P, R, S, W                      [2]uint64
	Diagonal                        uint64
	Starts, Cols, Vals              uint64
	Codes                           uint64
	Partials, Control, Outcome      uint64
	History                         uint64
	Mail, Ghosts                    [MaxRanks]uint64
	SendLo, SendHi                  [MaxRanks]uint64
	EdgeLo, EdgeHi                  uint64
	Rows, Below, Above, First       uint64
	Grid                            [3]uint64
	Seed, LimitNS, CoefSeed         uint64
	Reach                           [MaxPoints]int64
	Coef                            [MaxPoints]float64
	Factor, Tolerance               float64
	Sides                           [MaxPoints]uint32
	Points, RHS, Rank, Size         uint32
	Step, Turn, Most, Fault, Blocks uint32
	Variable                        uint32
	Coarse                          [3]uint64
	Stride, Other, OtherStride      uint64
	Inverse, Bound                  uint64
	Along, Beyond                   float64
	Op, Level, Diagonals, Table     uint32
}

// State is what a method knows between two steps.
type State struct {
	Norm, RZ, Alpha, Before, Residual float64
	Highest                           float64
	Iterations, Status, Reason, Begun uint32
	Steps, Products, Reductions       uint32 // that were made
	Phase, Turn, Since                uint32
}

// ControlBytes is the memory by which steps find each other: two States and two numbers.
const ControlBytes = 2*88 + 8

// Outcome is what the host sees of a solve: how it ended, or, where Late is 1, that a
// step waited in vain for a rank.
type Outcome struct {
	State                       State
	Late, WaitedFor, Step, Seen uint32
}
