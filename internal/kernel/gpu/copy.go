package gpu

import "unsafe"

// The ways to copy by kernels; each is one kernel, named as its file.
const (
	// Loads copies by loads and stores of threads, of any alignment.
	Loads Algorithm = "copyloads"
	// Bulk copies by bulk instructions, which GPUs of compute capability 9.0 and later have.
	// Both ends must lie alike within BulkAlignment.
	Bulk Algorithm = "copybulk"
)

const (
	// LoadsThreads and BulkThreads are the threads of a block.
	LoadsThreads = 512
	BulkThreads  = 32
	// BulkShared is the shared memory of a block of Bulk: four pieces of 16 KiB, and a
	// barrier for each.
	BulkShared = 4*16<<10 + 4*8
	// BulkAlignment is by what the addresses of both ends may differ, or a multiple.
	BulkAlignment = 16
	// BulkMajor is the least compute capability.
	BulkMajor = 9
)

// Copies lists them.
func Copies() []Algorithm { return []Algorithm{Loads, Bulk} }

// Copy is the argument of these kernels; see copyloads.cu, which it mirrors. A launch of
// one block can have a flag, which gets the value once everything has been stored.
type Copy struct {
	To, From uint64
	Bytes    uint64
	Flag     uint64
	Value    uint32
	_        uint32
}

var _ [40]byte = [unsafe.Sizeof(Copy{})]byte{}
