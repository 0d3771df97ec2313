package gpu

import "unsafe"

// The copy kernels; each has its own source file of the same name.
const (
	// Loads copies with ordinary loads and stores, between any addresses.
	Loads Algorithm = "copyloads"
	// Bulk copies with bulk instructions, which need compute capability 9.0. Source and destination
	// must have the same offset modulo BulkAlignment.
	Bulk Algorithm = "copybulk"
)

const (
	// LoadsThreads and BulkThreads are the block sizes.
	LoadsThreads = 512
	BulkThreads  = 32
	// BulkShared is the shared memory of a Bulk block: four stages of 16 KiB, and a barrier for each.
	BulkShared = 4*16<<10 + 4*8
	// The distance of source and destination must be a multiple of BulkAlignment.
	BulkAlignment = 16
	// BulkMajor is the lowest major compute capability.
	BulkMajor = 9
)

// Copies lists the copy kernels.
func Copies() []Algorithm { return []Algorithm{Loads, Bulk} }

// Copy is the argument of the copy kernels and mirrors copyloads.cu. A launch of a single block may
// set a flag: it is set to Value after the last store.
type Copy struct {
	To, From uint64
	Bytes    uint64
	Flag     uint64
	Value    uint32
	_        uint32
}

var _ [40]byte = [unsafe.Sizeof(Copy{})]byte{}
