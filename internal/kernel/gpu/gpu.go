// Package gpu holds the all-reduce kernels for NVIDIA GPUs: CUDA C++ sources, and the PTX compiled
// from them, which the driver compiles for the GPU at hand. Running them needs no CUDA toolkit. `make
// ptx` renews the PTX on a machine with nvcc; a test verifies that every PTX file was compiled from
// the sources beside it.
//
// This package defines the kernels' names and their argument. Package cuda in the host layer loads and
// starts them.
package gpu

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

//go:embed *.cu *.cuh ptx/*.ptx
var files embed.FS

// Any, as a number of ranks, selects the kernel for every number.
const Any = 0

// MaxRanks is the largest number of ranks that the kernels support.
const MaxRanks = 16

// RanksAsBlocks, as the rank, makes one launch do the work of all ranks: the blocks are dealt out to
// them.
const RanksAsBlocks = ^uint32(0)

// FlagBytes is the size of the flags that each block of a rank needs.
const FlagBytes = 128

// Options of a launch. A single rank drops the barriers because it has no peers. RoundEach rounds
// every partial sum to the element type; only the kernels for any number of ranks have it. Tests plant
// errors to see whether the checks find them: dropped barriers with several ranks, SkipTail (the
// elements after the last whole pack are left out) and WrongSlot (rank 1's input is used in place of
// rank 0's).
const (
	DropStart = 1 << iota
	DropEnd
	RoundEach
	SkipTail
	WrongSlot
)

// Params is the argument of every all-reduce kernel and mirrors common.cuh. Pointers are device
// addresses, indexed by rank.
type Params struct {
	In, Out, Scratch, Flags [MaxRanks]uint64
	Count                   uint64  // elements
	Failure                 uint64  // address of a Failure in memory shared with the host
	LimitNS                 uint64  // timeout of one wait
	Bias, BiasCount         uint64  // added by index modulo BiasCount; 0: none
	Residual                uint64  // added element by element; 0: none
	Stride                  uint64  // bytes between the buffers that iterations rotate over
	SlotBytes               uint64  // size of a scratch slot: the most that one rank sends in one call
	DelayNS                 uint64  // delay before the work of DelayRank
	Base                    uint64  // index of the first element in the whole vector
	Weight, Row             uint64  // RMS norm: weights of a row, and elements per row
	Epsilon                 float64 // RMS norm
	Scale                   float64 // factor of the sum
	Rank, Size, Blocks      uint32  // Blocks: of each rank
	Epoch                   uint32  // value of the flags before this launch
	Iterations, Rotation    uint32
	Options, DelayRank      uint32
}

// Failure is written by the first block whose wait times out. Claimed is 2 once it is complete. The
// host aborts a launch by setting Claimed to [GivenUp].
type Failure struct {
	Claimed, Rank, Block, Phase, Peer, Epoch, Seen, _ uint32
}

// GivenUp, as Failure.Claimed, makes all blocks stop waiting.
const GivenUp = 3

// phases names what a block waited for, by phase number.
var phases = []string{"", "the start of the call", "the end of the call", "the elements"}

// String names the block and what it waited for. A block that waits for a counter of all ranks stores
// its own rank as the peer, so no peer is blamed then.
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

// The all-reduce algorithms.
const (
	OneStage Algorithm = "onestage"
	Push     Algorithm = "push"
	Pull     Algorithm = "pull"
	Lamport  Algorithm = "lamport"
	// Norm is a one-stage all-reduce whose sums are normalised row by row.
	Norm Algorithm = "norm"
	// Quickreduce8, Quickreduce6 and Quickreduce4 send integers of that many bits.
	Quickreduce8 Algorithm = "quickreduce8"
	Quickreduce6 Algorithm = "quickreduce6"
	Quickreduce4 Algorithm = "quickreduce4"
	// Multimem needs multicast memory and compute capability 9.0.
	Multimem Algorithm = "multimem"
)

// Cache is not an algorithm but the file of two kernels that measure the GPU's L2 cache.
const Cache Algorithm = "cache"

// The kernels of Cache: loads, and loads with as many stores, of memory that stays in the cache.
const (
	CacheRead = "cache_read"
	CacheCopy = "cache_copy"
	// CacheFlight is the number of 16-byte packs that each thread loads per round.
	CacheFlight = 4
)

// CacheParams is the argument of the Cache kernels and mirrors cache.cu.
type CacheParams struct {
	Memory, Sink, Packs uint64
	Rounds, Readers     uint32
}

// Algorithms lists the all-reduce algorithms.
func Algorithms() []Algorithm {
	return []Algorithm{OneStage, Push, Pull, Lamport, Norm, Quickreduce8, Quickreduce6, Quickreduce4, Multimem}
}

// File returns the base name of the algorithm's source and PTX files.
func (a Algorithm) File() string { return strings.TrimRight(string(a), "864") }

// DTypes lists the element types that the kernels support.
func DTypes() []dtype.DType { return []dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64} }

// DTypes lists the element types that the algorithm supports.
func (a Algorithm) DTypes() []dtype.DType {
	switch a {
	case OneStage, Push, Pull, Lamport, Multimem:
		return DTypes()
	}
	return DTypes()[:3]
}

// ranked reports whether the algorithm has specialised kernels for some numbers of ranks.
func (a Algorithm) ranked() bool { return a.File() != "quickreduce" && a != Multimem }

// Kernel returns the name of the kernel for an element type and a number of ranks. With Any it is the
// kernel that supports every number.
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

// Files returns the PTX of all algorithms, ptx/FILE.ptx. With oneGPU it is rewritten for ranks that share one GPU:
// flags are released and acquired at device scope, which is faster than system scope.
func Files(oneGPU bool) fs.FS {
	if oneGPU {
		return deviceScope{files}
	}
	return files
}

type deviceScope struct{ embed.FS }

// ReadFile implements fs.ReadFileFS.
func (d deviceScope) ReadFile(name string) ([]byte, error) {
	ptx, err := d.FS.ReadFile(name)
	narrow := strings.NewReplacer("st.release.sys.", "st.release.gpu.", "ld.acquire.sys.", "ld.acquire.gpu.",
		"st.relaxed.sys.", "st.relaxed.gpu.", "ld.relaxed.sys.", "ld.relaxed.gpu.")
	return []byte(narrow.Replace(string(ptx))), err
}
