// Package overlap is a matrix product on GPUs and the all-reduce of its result as one
// operation: C = sum over ranks of A x B, where each rank has operands of its own. It works
// among the ranks of a group of the backend cuda.
//
// # In partitions
//
// C is cut into partitions. A stream multiplies one after the other; another, which goes
// first where there is room, adds up each as soon as all ranks have multiplied it. Only a
// single warp of a rank ever waits for other ranks (the gate), so that ranks that share a GPU
// cannot keep each other from multiplying. While both streams work, some multiprocessors are
// set aside for the sums: kernels that multiply stay on theirs until they are done.
//
// # In one kernel
//
// A block multiplies a tile for each of the ranks, its own last. It stores those of the others
// and signals them; to its own it adds what the others have stored, and stores the sum at all.
// There is a kernel for Hopper and one for all others, and the ranks take the fastest that every
// one of them can run.
//
// # Where the partitions lie
//
// Rows of C are a multiple of four elements apart. A partition of columns lies together, row
// by row, as on processors (package fused of bench gemm-allreduce).
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

// gpuEngine is what the engine of a group must offer.
type gpuEngine interface {
	Device() (c *cuda.Context, sharing int)
	Addresses(b dist.Buffer) ([]cuda.Pointer, error)
	KernelTimeout() (failure cuda.Pointer, limit time.Duration)
	Await(doing string, s *cuda.Stream) error
}

// Config is how a rank works.
type Config struct {
	Provider string      // of products: see [gpugemm.ProductProviders]
	DType    dtype.DType // of the operands
	// Dependent has the kernels that add up started before the end of the one in front of
	// them: programmatic dependent launch.
	Dependent bool
	// Aside is how many of the rank's multiprocessors are set aside for sums while it
	// multiplies partitions; 0: an eighth. The one kernel sets none aside.
	Aside int
}

// Rank is one rank's GPU, or its share of one. One goroutine at a time uses it.
type Rank struct {
	group         *dist.Group
	engine        gpuEngine
	device        *cuda.Context
	config        Config
	modules       map[string]*cuda.Module
	products      *gpugemm.Products
	productStream *cuda.Stream
	sumStream     *cuda.Stream
	events        []*cuda.Event // the start, the end, and one for each partition

	multiprocessors int
	flags           []cuda.Pointer // by rank
	words           int            // of flags
	epoch           uint32         // of the gate
	calls           uint32         // of the one kernel
	arrivedTiles    uint32         // tiles, to this rank

	operands  [2]cuda.Pointer
	m, n, k   int // of the operands; k is rounded up
	c         dist.Buffer
	addresses []cuda.Pointer // of C, by rank
	mirror    *cuda.Shared   // of this rank's C
}

// minDependentCompute is the compute capability that dependent launches need.
const minDependentCompute = 90

// Open makes a rank ready. All ranks of the group call it alike.
func Open(g *dist.Group, c Config) (*Rank, error) {
	s, ok := dist.EngineAs[gpuEngine](g)
	switch {
	case !ok:
		return nil, fmt.Errorf("backend %s has no kernels that overlap products and sums", g.Backend())
	case g.Size() > gpufused.MaxRanks:
		return nil, fmt.Errorf("%d ranks: the kernels serve at most %d", g.Size(), gpufused.MaxRanks)
	case !slices.Contains(gpugemm.ProductTypes(c.Provider), c.DType):
		return nil, fmt.Errorf("provider %s has no products of %v here: it has %v", c.Provider, c.DType,
			gpugemm.ProductTypes(c.Provider))
	}
	r := &Rank{group: g, engine: s, config: c, modules: map[string]*cuda.Module{}}
	var sharing int
	r.device, sharing = s.Device()
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

// Close gives back what is the rank's own; what Alloc of the group gave goes with the group.
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

// Share is how many multiprocessors a rank has, as many as the other ranks on its GPU. Nothing but the number of its
// blocks holds it to them: what MPS can be told limits how many a rank has, but gave all ranks the same ones.
func (r *Rank) Share() int { return r.multiprocessors }

// sumMultiprocessors is how many multiprocessors are left to the sums while products are made.
func (r *Rank) sumMultiprocessors() int {
	n := r.config.Aside
	if n == 0 {
		n = r.multiprocessors / 8
	}
	return max(1, min(n, r.multiprocessors-1))
}
