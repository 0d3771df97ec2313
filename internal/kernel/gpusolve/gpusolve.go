// Package gpusolve holds the kernels of conjugate gradients on NVIDIA GPUs: CUDA C++ sources, and the
// PTX compiled from them, which the driver compiles for the GPU at hand. `make ptx` renews the PTX on
// a machine with nvcc; a test verifies that it was compiled from the sources beside it. The sources
// are also valid C, so tests run the same kernels on the CPU.
//
// This package defines the kernels' names and their argument. Package device in the solve layer places
// rows in memory and starts the kernels.
//
// # Bytes
//
// All methods are bound by memory bandwidth, so the kernels are designed to move few bytes. Per row
// with n entries, without a preconditioner:
//
//	cg         two kernels, 9 vectors: 72 bytes and the matrix
//	cg-single  one kernel, 10 vectors: 80 bytes and the matrix
//	pipelined  one kernel, 12 vectors: 96 bytes and the matrix
//	plain      12 n + 4 bytes (64 for 5 points), plus 8 for jacobi's reciprocal
//	stencil    1 byte
//	variable   9 bytes, plus 8 for jacobi's reciprocal: entries are computed from the points' coefficients
//
// A product needs the neighbours' new direction, which other blocks compute at the same time. It is
// recomputed from the old direction instead, which is in a cache. That saves a kernel and a pass over
// memory, and it costs memory for a second direction: 40 bytes per row (cg-single 64). The pipelined
// method multiplies by a vector of the previous iteration, and needs 56 bytes per row.
//
// A multigrid cycle (cycle.cu) has six kernels per level. They read and write 14 vectors, the diagonal
// three times and the matrix four times. On coarser levels the matrix has 8 bytes for each of 9 or 27
// diagonals, or one byte per row if the problem's own matrix is a stencil.
package gpusolve

import (
	"embed"
	"io/fs"
)

//go:embed *.cu *.cuh
var sources embed.FS

//go:embed ptx/*.ptx
var compiled embed.FS

// Sources returns the source files of the kernels.
func Sources() fs.FS { return sources }

// Files returns the compiled kernels, ptx/NAME.ptx for each source.
func Files() fs.FS { return compiled }

// Limits of Params.
const (
	MaxRanks  = 16
	MaxPoints = 27
	// Sides is the number of combinations of sides of the grid at which a row can lie.
	Sides = 64
	// Rows is the number of rows that a block handles at a time, and its number of threads.
	Rows = 256
	// MailBytes is the size of the mailbox in which a rank receives partial sums.
	MailBytes = 4 * MaxRanks * 32
	// MaxSums is the largest number of dot products in a step.
	MaxSums = 3
)

// Right-hand sides.
const (
	Ones uint32 = iota
	Noise
	Given // the values at Params.Given
)

// Faults that tests can plant; see params.cuh.
const (
	DroppedHalo      uint32 = 1 << iota // ghosts are not sent
	WrongDot                            // the dot product p.q lacks its first block
	StaleScalar                         // x is updated with the factor of the previous step
	MissingWait                         // ranks do not wait for each other
	StaleSums                           // dot products are taken from the previous step
	NoCorrection                        // the coarse correction of a cycle is not added
	WrongRestriction                    // the restriction of a cycle leaves out a point's last neighbours
)

// The steps of a multigrid cycle; see cycle.cu. The steps before Restrict multiply by a level's
// matrix.
const (
	Smooth       uint32 = iota // x = two steps of the Chebyshev iteration from zero
	Defect                     // t = b - A x
	Relax                      // t = D^-1 (b - A x), after the coarse correction
	Finish                     // x += the same two Chebyshev steps
	Lanczos                    // the product of a Lanczos step, in the set-up
	Restrict                   // b of the next level = R t
	Correct                    // x += P times x of the next level
	Solve                      // x = inverse times b, on the last level
	BeginLanczos               // the first vector of the Lanczos steps
	NextLanczos                // the next vector of the Lanczos steps
)

// The status of a solve.
const (
	Running uint32 = iota
	Converged
	TooMany
	Breakdown
)

// Reason returns why a solve broke down, worded as in package krylov.
func Reason(number uint32) string {
	return [...]string{"", "the matrix or the preconditioner is not positive definite: use minres",
		"the preconditioner is not positive definite",
		"a scalar product is not finite"}[min(number, 3)]
}

// Params is the argument of every kernel. It mirrors params.cuh, which documents the fields.
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
	Edge                            [3]float64
	Given                           uint64
}

// State is the state of a method between two steps.
type State struct {
	Norm, RZ, Alpha, Before, Residual float64 // Before is alpha of the previous step
	Highest                           float64 // largest residual since the recurrences were last recomputed
	Iterations, Status, Reason, Begun uint32
	Steps, Products, Reductions       uint32 // counts
	Phase, Turn, Since                uint32 // only for the pipelined method
}

// ControlBytes is the size of Control in params.cuh: two States and two counters.
const ControlBytes = 2*88 + 8

// Outcome is how a solve ended, as the host reads it. If Late is 1, a step timed out waiting for rank
// WaitedFor.
type Outcome struct {
	State                       State
	Late, WaitedFor, Step, Seen uint32
}
