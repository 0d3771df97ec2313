// Package gpu holds the all-reduce kernels for NVIDIA GPUs: CUDA C++ sources, and
// the PTX made of them once, which the driver compiles for the GPU at hand. A
// machine needs no toolkit to run them. `make ptx` renews the PTX where nvcc is;
// a test holds that every PTX comes from the sources beside it.
//
// The package says what the kernels are called and what their argument looks
// like; package cuda of the host layer loads and starts them.
package gpu

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// Any, as a number of ranks, stands for every number.
const Any = 0

// MaxRanks is the most ranks that the kernels can serve.
const MaxRanks = 16

// RanksAsBlocks, as the rank, makes one launch do the part of every rank: the
// blocks are dealt out to them.
const RanksAsBlocks = ^uint32(0)

// FlagBytes is the memory for flags that each block of a rank needs.
const FlagBytes = 128

// Options of a launch. A barrier is dropped where there is nobody to meet. RoundEach
// rounds every partial sum to the element type, in the kernels for any number of ranks.
// Dropped barriers and the last two are also errors that are planted to see whether they
// are found: the elements behind the last whole pack are left out, and what rank 1 gives
// is taken for that of rank 0.
const (
	DropStart = 1 << iota
	DropEnd
	RoundEach
	SkipTail
	WrongSlot
)

// Params is the argument of every kernel; see common.cuh, which it mirrors.
// Pointers are device addresses, by rank.
type Params struct {
	In, Out, Scratch, Flags [MaxRanks]uint64
	Count                   uint64 // elements
	Failure                 uint64 // of a Failure in memory that the host shares
	LimitNS                 uint64 // of one wait
	Bias, BiasCount         uint64
	Residual                uint64
	Stride                  uint64 // bytes between the buffers that iterations rotate over
	SlotBytes               uint64 // of scratch
	DelayNS                 uint64
	Base                    uint64 // index of the first element in the whole vector
	Weight, Row             uint64 // of a norm: one weight for each element of a row, and how many these are
	Epsilon                 float64
	Scale                   float64
	Rank, Size, Blocks      uint32
	Epoch                   uint32
	Iterations, Rotation    uint32
	Options, DelayRank      uint32
}

// Failure is what the first block that waited too long says; Claimed is 2 once it
// is complete. The host gives up a launch by setting it to [GivenUp].
type Failure struct {
	Claimed, Rank, Block, Phase, Peer, Epoch, Seen, _ uint32
}

// GivenUp, as Failure.Claimed, ends the waiting of all blocks.
const GivenUp = 3

// phases are what a block waited for, by number.
var phases = []string{"", "the start of the call", "the end of the call", "the elements"}

// String names the block and what it waited for. Who waits for what all ranks count together names itself as the peer.
func (f Failure) String() string {
	phase := "an unknown phase"
	if int(f.Phase) < len(phases) {
		phase = phases[f.Phase]
	}
	peer := fmt.Sprintf("rank %d", f.Peer)
	if f.Peer == f.Rank {
		peer = "the other ranks"
	}
	return fmt.Sprintf("block %d of rank %d waited too long for %s (%s, epoch %d, seen %d)", f.Block, f.Rank, peer, phase,
		f.Epoch, f.Seen)
}

// Algorithm is a family of kernels in one PTX file.
type Algorithm string

// The algorithms.
const (
	OneStage Algorithm = "onestage"
	Push     Algorithm = "push"
	Pull     Algorithm = "pull"
	Lamport  Algorithm = "lamport"
	// Norm is one stage, the sums of which are normalised row by row.
	Norm Algorithm = "norm"
	// Quickreduce8 and its like move integers of so many bits.
	Quickreduce8 Algorithm = "quickreduce8"
	Quickreduce6 Algorithm = "quickreduce6"
	Quickreduce4 Algorithm = "quickreduce4"
	// Multimem needs multicast memory, and a GPU that has the instructions.
	Multimem Algorithm = "multimem"
)

// Cache is no algorithm but the file of two kernels that time the GPU's cache.
const Cache Algorithm = "cache"

// Its kernels: loads, and loads with as many stores, of memory that stays in the cache.
const (
	CacheRead = "cache_read"
	CacheCopy = "cache_copy"
	// CacheFlight is how many packs of 16 bytes each thread loads in a round.
	CacheFlight = 4
)

// CacheParams is the argument of the kernels of Cache; see cache.cu, which it mirrors.
type CacheParams struct {
	Memory, Sink, Packs uint64
	Rounds, Readers     uint32
}

// Algorithms lists them.
func Algorithms() []Algorithm {
	return []Algorithm{OneStage, Push, Pull, Lamport, Norm, Quickreduce8, Quickreduce6, Quickreduce4, Multimem}
}

// File is the name of its source and of its PTX.
func (a Algorithm) File() string { return strings.TrimRight(string(a), "864") }

// DTypes are the element types that the kernels have.
func DTypes() []dtype.DType { return []dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64} }

// DTypes are those of the algorithm.
func (a Algorithm) DTypes() []dtype.DType {
	switch a {
	case OneStage, Push, Pull, Lamport, Multimem:
		return DTypes()
	}
	return DTypes()[:3]
}

// ranked tells whether the algorithm has kernels of their own for some numbers of ranks.
func (a Algorithm) ranked() bool { return a.File() != "quickreduce" && a != Multimem }

// Kernel is the name of the kernel for a type and a number of ranks. Any asks for the
// one that serves every number.
func (a Algorithm) Kernel(d dtype.DType, ranks int) (string, error) {
	if !slices.Contains(a.DTypes(), d) {
		return "", fmt.Errorf("no %s kernel for %v", a, d)
	}
	if ranks < Any || ranks > MaxRanks {
		return "", fmt.Errorf("no %s kernel for %d ranks: at most %d", a, ranks, MaxRanks)
	}
	count := "any"
	if a.ranked() && d != dtype.F64 && (ranks == 2 || ranks == 4 || ranks == 8) {
		count = fmt.Sprint(ranks)
	}
	return fmt.Sprintf("%s_%v_%s", a, d, count), nil
}

// PTX is the file of an algorithm.
func (a Algorithm) PTX() ([]byte, error) { return files.ReadFile("ptx/" + a.File() + ".ptx") }

// OnOneGPU is a PTX file for ranks that are all on one GPU: their flags are released and
// acquired within the device, which waits for less than the whole system does.
func OnOneGPU(ptx []byte) []byte {
	return []byte(strings.NewReplacer("st.release.sys.", "st.release.gpu.", "ld.acquire.sys.", "ld.acquire.gpu.",
		"st.relaxed.sys.", "st.relaxed.gpu.", "ld.relaxed.sys.", "ld.relaxed.gpu.").Replace(string(ptx)))
}
