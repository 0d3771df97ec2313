// Package overlap computes a matrix product on GPUs and the all-reduce of its result as one operation:
// C = sum over ranks of A x B, where each rank has its own A and B. It works among the ranks of a group
// of the backend cuda.
//
// # In partitions
//
// C is cut into partitions. One stream multiplies them one after the other. Another stream, with higher
// priority, sums each partition as soon as all ranks have multiplied it. Only a single warp per rank, the
// gate, ever waits for other ranks, so ranks that share a GPU cannot keep each other from multiplying.
// While both streams work, some multiprocessors are reserved for the sums, because product kernels
// occupy theirs until they end.
//
// # In one kernel
//
// One kernel multiplies and sums. A block multiplies one tile for each rank, its own last. It stores the
// tiles of the other ranks in their memory and signals them. To its own tile it adds the tiles that the
// other ranks have stored, and stores the sum at all ranks. There is a kernel for Hopper and one for
// other GPUs. The ranks use the fastest that all of them can run.
//
// # Memory layout
//
// The distance between rows of C is a multiple of four elements. The elements of a column partition are
// contiguous, row by row, as on CPUs (package fused of bench gemm-allreduce).
package overlap

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gpufused"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
)

// gpuEngine is the part of the cuda backend's engine that this package needs.
type gpuEngine interface {
	Device() (c *cuda.Context, sharing int)
	Addresses(b dist.Buffer) ([]cuda.Pointer, error)
	KernelTimeout() (failure cuda.Pointer, limit time.Duration)
	Await(op string, s *cuda.Stream) error
}

// Config holds the options of a rank. They must be equal on all ranks.
type Config struct {
	Provider string      // implementation of the products: see [gpugemm.ProductProviders]
	DType    dtype.DType // of A and B
	// Dependent launches gates and sums before the preceding kernel on their stream has ended
	// (programmatic dependent launch).
	Dependent bool
	// SumMultiprocessors is how many of the rank's multiprocessors are reserved for sums while it
	// multiplies partitions; 0 means an eighth. The single kernel reserves none.
	SumMultiprocessors int
}

// Rank holds one rank's streams, operands and C on its GPU. It may be used by one goroutine at a time.
type Rank struct {
	group         *dist.Group
	engine        gpuEngine
	device        *cuda.Context
	config        Config
	products      *gpugemm.Products
	productStream *cuda.Stream
	sumStream     *cuda.Stream
	events        []*cuda.Event // beginEvent, endEvent, and one for each partition

	multiprocessors int            // this rank's share of the GPU
	flags           []cuda.Pointer // by rank
	words           int            // number of flags
	epoch           uint32         // number of gates started
	calls           uint32         // number of launches of the single kernel
	arrivedTiles    uint32         // tiles of C that have arrived at this rank in earlier calls; where its counter starts

	operands  [2]cuda.Pointer // A by rows, B by columns
	m, n, k   int             // sizes of C and the operands; k is rounded up to gpugemm.StepK
	c         dist.Buffer
	addresses []cuda.Pointer // address of C by rank
	mirror    *cuda.Shared   // host copy of this rank's C
}

// minDependentCompute is the compute capability, times ten, that dependent launches need.
const minDependentCompute = 90

// Open returns this rank of a group. It is collective. If the GPU lacks something, the error is a
// gemm.MissingError.
func Open(g *dist.Group, c Config) (*Rank, error) {
	e, ok := dist.EngineAs[gpuEngine](g)
	switch {
	case !ok:
		return nil, fmt.Errorf("backend %s has no kernels that overlap products and sums", g.Backend())
	case g.Size() > gpufused.MaxRanks:
		return nil, fmt.Errorf("%d ranks: the kernels support at most %d", g.Size(), gpufused.MaxRanks)
	case !slices.Contains(gpugemm.ProductTypes(c.Provider), c.DType):
		return nil, fmt.Errorf("provider %s does not multiply %v here, only %v", c.Provider, c.DType,
			gpugemm.ProductTypes(c.Provider))
	}
	r := &Rank{group: g, engine: e, config: c}
	var sharing int
	r.device, sharing = e.Device()
	err := r.device.Do(func() (err error) {
		compute, err := r.device.Device().Compute()
		if err != nil {
			return err
		}
		if c.Dependent && compute < minDependentCompute {
			return &gemm.MissingError{Reason: fmt.Errorf("%s has compute capability %d.%d: dependent launches need 9.0",
				r.device.Device().Name, compute/10, compute%10)}
		}
		if r.products, err = gpugemm.NewProducts(r.device, c.Provider); err != nil {
			return err
		}
		if r.productStream, err = r.device.Stream(); err != nil {
			return err
		}
		if r.sumStream, err = r.device.UrgentStream(); err != nil {
			return err
		}
		all, err := r.device.Device().Get(cuda.Multiprocessors)
		r.multiprocessors = max(1, all/sharing)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close frees the rank's resources. C and the flags belong to the group and are freed with it.
func (r *Rank) Close() error {
	return r.device.Do(func() error {
		faults := lists.Map(r.events, func(e *cuda.Event) error { return e.Destroy() })
		for _, p := range r.operands {
			if p != 0 {
				faults = append(faults, r.device.Free(p))
			}
		}
		if r.mirror != nil {
			faults = append(faults, r.mirror.Free())
		}
		if r.sumStream != nil {
			faults = append(faults, r.sumStream.Destroy())
		}
		return errors.Join(append(faults, r.productStream.Destroy(), r.products.Close())...)
	})
}

// Multiprocessors returns this rank's share of the GPU's multiprocessors. All ranks on a GPU have equal
// shares. Only the number of blocks keeps a rank to its share: MPS can limit how many multiprocessors a
// process uses, but when tried it gave all ranks the same ones.
func (r *Rank) Multiprocessors() int { return r.multiprocessors }

// sumMultiprocessors returns how many multiprocessors are reserved for sums while the rank multiplies.
func (r *Rank) sumMultiprocessors() int {
	n := r.config.SumMultiprocessors
	if n == 0 {
		n = r.multiprocessors / 8
	}
	return max(1, min(n, r.multiprocessors-1))
}
