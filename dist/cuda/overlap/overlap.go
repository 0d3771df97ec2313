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
// Blocks multiply tiles and signal each to its owner, one of the ranks, whose adders, other
// blocks of the same kernel, add it up once it has come from all; blocks with nothing left to
// multiply help them. There is a kernel for Hopper and one for all others, and the ranks take
// the fastest that every one of them can run.
//
// # Where the partitions lie
//
// Rows of C are a multiple of four elements apart. A partition of columns lies together, row
// by row, as on processors (package fused of bench gemm-allreduce).
package overlap

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gpufused"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
)

// site is what the engine of a group must offer.
type site interface {
	Device() (c *cuda.Context, sharing int)
	Addresses(b dist.Buffer) ([]cuda.Pointer, error)
	Patience() (failure cuda.Pointer, limit time.Duration)
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
	// multiplies; 0: an eighth.
	Aside int
}

// Rank is one rank's GPU, or its share of one. One goroutine at a time uses it.
type Rank struct {
	group    *dist.Group
	site     site
	device   *cuda.Context
	config   Config
	modules  map[string]*cuda.Module
	products *gpugemm.Products
	multiply *cuda.Stream
	add      *cuda.Stream
	events   []*cuda.Event // the start, the end, and one for each partition

	share Share
	flags []cuda.Pointer // by rank
	words int            // of flags
	epoch uint32         // of the gate
	calls uint32         // of the one kernel
	come  uint32         // pieces of tiles, to this rank

	operands [2]cuda.Pointer
	m, n, k  int // of the operands; k is rounded up
	c        dist.Buffer
	at       []cuda.Pointer // of C, by rank
	mirror   *cuda.Shared   // of this rank's C
}

// leastDependent is the compute capability that dependent launches need.
const leastDependent = 90

// Open makes a rank ready. All ranks of the group call it alike.
func Open(g *dist.Group, c Config) (*Rank, error) {
	s, ok := dist.EngineAs[site](g)
	switch {
	case !ok:
		return nil, fmt.Errorf("backend %s has no kernels that overlap products and sums", g.Backend())
	case g.Size() > gpufused.MaxRanks:
		return nil, fmt.Errorf("%d ranks: the kernels serve at most %d", g.Size(), gpufused.MaxRanks)
	case !slices.Contains(gpugemm.ProductTypes(c.Provider), c.DType):
		return nil, fmt.Errorf("provider %s has no products of %v here: it has %v", c.Provider, c.DType, gpugemm.ProductTypes(c.Provider))
	}
	r := &Rank{group: g, site: s, config: c, modules: map[string]*cuda.Module{}}
	r.device, _ = s.Device()
	err := r.device.Do(func() (err error) {
		compute, err := r.device.Device().Compute()
		if err != nil {
			return err
		}
		if c.Dependent && compute < leastDependent {
			return &gemm.MissingError{Reason: fmt.Errorf("%s has compute capability %d.%d: dependent launches need 9.0", r.device.Device().Name, compute/10, compute%10)}
		}
		if r.products, err = gpugemm.NewProducts(r.device, c.Provider); err != nil {
			return err
		}
		if r.multiply, err = r.device.Stream(); err != nil {
			return err
		}
		r.add, err = r.device.UrgentStream()
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.measureShare(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close gives back what is the rank's own; what Alloc of the group gave goes with the group.
func (r *Rank) Close() error {
	return r.device.Do(func() error {
		var faults []error
		for _, e := range r.events {
			faults = append(faults, e.Destroy())
		}
		for _, p := range r.operands {
			if p != 0 {
				faults = append(faults, r.device.Free(p))
			}
		}
		if r.mirror != nil {
			faults = append(faults, r.mirror.Free())
		}
		if r.add != nil {
			faults = append(faults, r.add.Destroy())
		}
		return errors.Join(append(faults, r.multiply.Destroy(), r.products.Close())...)
	})
}

// Share is which multiprocessors a rank has. Nothing but the number of its blocks holds a rank
// to its share: what MPS can be told limits how many it has, but gave all ranks the same ones.
type Share struct {
	Count   int // which is as many as the other ranks on the GPU have
	Reached int // so many blocks, of which a multiprocessor holds one, ran on so many
	Alone   int // of these no other rank's did at the same time
}

// Share is what was found when the rank was opened.
func (r *Rank) Share() Share { return r.share }

// aside is how many multiprocessors are left to the sums while products are made.
func (r *Rank) aside() int {
	n := r.config.Aside
	if n == 0 {
		n = r.share.Count / 8
	}
	return max(1, min(n, r.share.Count-1))
}

// measureShare sees on which multiprocessors as many blocks as are this rank's share come to
// run, while those of the others do, and learns from the others where theirs did.
func (r *Rank) measureShare() error {
	words := make([]uint32, gpufused.WhereWords)
	if err := r.group.Barrier(); err != nil {
		return err
	}
	err := r.device.Do(func() error {
		kernel, err := gpufused.Where().Load(r.device, r.modules)
		if err != nil {
			return err
		}
		all, err := r.device.Device().Get(cuda.Multiprocessors)
		if err != nil {
			return err
		}
		shared, err := r.device.Device().Get(cuda.SharedBytesPerBlock)
		if err != nil {
			return err
		}
		if err := kernel.AllowShared(shared); err != nil {
			return err
		}
		_, sharing := r.site.Device()
		r.share.Count = max(1, all/sharing)
		at, err := r.device.Alloc(4 * len(words))
		if err != nil {
			return err
		}
		p := &gpufused.Params{Where: at, Rank: uint32(r.group.Rank()), Size: uint32(r.group.Size())}
		err = errors.Join(r.device.Fill(at, 0, 4*len(words)), cuda.NewLaunch(kernel, r.share.Count, gpufused.WhereThreads, shared, false, p).Start(r.multiply),
			r.multiply.Synchronize())
		if err == nil {
			err = r.device.Read(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words)), at)
		}
		return errors.Join(err, r.device.Free(at))
	})
	if err != nil {
		return fmt.Errorf("finding this rank's multiprocessors: %w", err)
	}
	return r.divide(words)
}

// divide tells the others which multiprocessors this rank reaches. Ranks that have another
// GPU mean others by the same numbers.
func (r *Rank) divide(words []uint32) error {
	const each = gpufused.WhereWords * 32
	places := r.group.Size() // as many GPUs at most
	users := make([]float32, places*each)
	mine := users[r.device.Device().Ordinal%places*each:][:each]
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			mine[i*32+bits.TrailingZeros32(w)] = 1
		}
	}
	reached := slices.Clone(mine)
	if err := r.group.AllReduce(dist.Of(users), dist.Of(users), dist.Sum); err != nil {
		return err
	}
	_, sharing := r.site.Device()
	for i, reach := range reached {
		if reach == 0 {
			continue
		}
		if sharing == 1 { // whatever others call theirs
			mine[i] = 1
		}
		r.share.Reached++
		if mine[i] == 1 {
			r.share.Alone++
		}
	}
	if r.share.Reached == 0 {
		return errors.New("no block said on which multiprocessor it ran")
	}
	return nil
}
