package gpugemm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// library is the provider for cuBLASLt, either with the first algorithm of its heuristic, as most
// programs use it, or with the fastest of all.
type library struct {
	name       string
	exhaustive bool
}

func (p library) Name() string { return p.name }

func (p library) Help() string {
	if p.exhaustive {
		return "cuBLASLt, opened at run time, with the fastest of all its algorithms"
	}
	return "cuBLASLt, opened at run time, with the first algorithm of its heuristic"
}

func (library) Types() []dtype.DType {
	return []dtype.DType{dtype.F64, dtype.F32, dtype.TF32, dtype.F16, dtype.BF16, dtype.E4M3}
}

// spaceBytes is the size of the workspace for algorithms, equal to cuBLAS's own default on Hopper.
const spaceBytes = 32 << 20

func (p library) Open(threads int) (gemm.Engine, error) {
	d, err := open(threads)
	if err != nil {
		return nil, err
	}
	c := &chosen{device: d, exhaustive: p.exhaustive}
	err = d.Do(func() (err error) {
		if c.lib, err = openLibrary(); err != nil {
			return &gemm.MissingError{Reason: err}
		}
		c.space, err = d.Alloc(spaceBytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newEngine(d, p.Types(), c)
}

// chosen is the multiplier with the algorithm chosen for a problem.
type chosen struct {
	device     *device
	lib        *cublasLt
	exhaustive bool
	space      cuda.Pointer
	product    *product
	places     []place
	algorithm  *algorithm
	searched   bool // no further search is needed
	how        string
}

func (c *chosen) String() string {
	if c.exhaustive {
		return fmt.Sprintf("%v, the fastest algorithm", c.lib.lib)
	}
	return fmt.Sprintf("%v, the heuristic's first algorithm", c.lib.lib)
}

// padding rounds all sizes of e4m3 products up to multiples of 16, which the library requires.
func (c *chosen) padding(operand dtype.DType) padding {
	if operand == dtype.E4M3 {
		return padding{rows: 16, k: 16, ldc: 16}
	}
	return padding{1, 1, 1}
}

func (c *chosen) prepare(p problem, at []place, w *stopwatch, timed bool) error {
	if c.product != nil && c.product.problem == p && (c.searched || !timed) {
		c.places = at // possibly with other operands
		return nil
	}
	if err := c.forget(); err != nil {
		return err
	}
	var err error
	if c.product, err = c.lib.product(p, c.space, spaceBytes); err != nil {
		return err
	}
	c.places = at
	list, err := c.product.offered()
	if err != nil {
		return &gemm.MissingError{Reason: fmt.Errorf("%d x %d x %d in %v on %s: %w", p.m, p.n, p.k, p.operand,
			c.device.Device().Name, err)}
	}
	first := list[0].algorithm
	c.algorithm, c.how = &first, fmt.Sprintf("the first of %d that the heuristic offers", len(list))
	if c.searched = timed || !c.exhaustive; c.exhaustive && timed {
		return c.search(list, w)
	}
	return nil
}

func (c *chosen) start(at int, s *cuda.Stream) error {
	return c.product.start(c.algorithm, c.places[at], s)
}

func (c *chosen) details() map[string]string {
	all := map[string]string{"library": c.lib.lib.String()}
	if c.product != nil {
		all["algorithm"], all["search"] = c.lib.describe(c.algorithm), c.how
	}
	return all
}

// forget releases the prepared product.
func (c *chosen) forget() error {
	if c.product == nil {
		return nil
	}
	p := c.product
	c.product = nil
	return p.destroy()
}

func (c *chosen) close() error {
	if err := c.forget(); err != nil {
		return err
	}
	return c.device.Free(c.space)
}

// Limits of a search.
const (
	searchMicroseconds = 2e6 // GPU time of all trials
	hopeless           = 1.3 // a configuration that takes this many times as long as the best gets no further trial
)

// search times the heuristic's candidates and every other configuration that the library accepts, and
// keeps the fastest.
func (c *chosen) search(list []candidate, w *stopwatch) error {
	all := lists.Map(list, func(offered candidate) algorithm { return offered.algorithm })
	all = append(all, c.product.configurations()...)
	trial := func(a *algorithm, products int) (us float64, err error) {
		us, err = w.time(func() error {
			for i := range products {
				if err := c.product.start(a, c.places[i%len(c.places)], w.Stream); err != nil {
					return err
				}
			}
			return nil
		})
		return us / float64(products), err
	}
	var tried []contender
	best, spent := math.Inf(1), 0.0
	for i := range all {
		if spent > searchMicroseconds {
			break
		}
		us, err := trial(&all[i], 1) // not compared with others, because it also loads the kernel
		if cuda.Sticky(err) {
			return err
		}
		if err != nil {
			continue // the library refuses to start it
		}
		spent += us
		for _, products := range []int{1, 4} {
			if us, err = trial(&all[i], products); err != nil {
				return err
			}
			if spent += us * float64(products); us > hopeless*best {
				break
			}
		}
		best = min(best, us)
		tried = append(tried, contender{&all[i], us})
	}
	if len(tried) == 0 {
		return fmt.Errorf("%v: none of %d configurations can be started", c.lib.lib, len(all))
	}
	c.how = fmt.Sprintf("the fastest of %d configurations of %d", len(tried), len(all))
	return c.final(tried, trial)
}

// contender is an algorithm with its time in microseconds.
type contender struct {
	algorithm *algorithm
	us        float64
}

// Parameters of the final round between the fastest algorithms. The short trials before it favour lucky ones, and the
// GPU's clock changes under load, so the finalists run in turns.
const (
	finalists     = 6
	finalRounds   = 5
	finalProducts = 10
)

// final times the finalists in turns and keeps the fastest.
func (c *chosen) final(tried []contender, trial func(*algorithm, int) (float64, error)) error {
	first := tried[0] // the heuristic's first choice always takes part
	slices.SortStableFunc(tried, func(a, b contender) int { return cmp.Compare(a.us, b.us) })
	last := append(tried[:min(finalists, len(tried)):min(finalists, len(tried))], first)
	for i := range last {
		last[i].us = 0
	}
	for range finalRounds {
		for i := range last {
			us, err := trial(last[i].algorithm, finalProducts)
			if err != nil {
				return err
			}
			last[i].us += us
		}
	}
	c.algorithm = slices.MinFunc(last, func(a, b contender) int { return cmp.Compare(a.us, b.us) }).algorithm
	return nil
}

// Configuration values that the library does not enumerate.
var (
	clusters = []int{0, 2, 3, 4, 5, 6, 7, 8, 11, 12} // automatic, 1x1 to 4x2, 1x4, 8x1, 1x8
	splits   = []int{1, 2, 4, 8}
)

const (
	maxIDs            = 100
	maxConfigurations = 3000
)

// configurations lists the configurations of the library's algorithms for the product.
func (r *product) configurations() (all []algorithm) {
	ids, n := make([]int32, maxIDs), new(int32)
	operand := dataTypes[r.problem.operand]
	if int32(r.algoIDs.Call(r.handle, r.compute, r.factorType, operand, operand, r.factorType, r.factorType, maxIDs,
		uintptr(unsafe.Pointer(&ids[0])), uintptr(unsafe.Pointer(n)))) != 0 {
		return nil
	}
	for _, id := range ids[:min(maxIDs, int(*n))] {
		a := new(algorithm)
		if int32(r.algoInit.Call(r.handle, r.compute, r.factorType, operand, operand, r.factorType, r.factorType,
			uintptr(id), uintptr(unsafe.Pointer(a)))) != 0 {
			continue
		}
		for _, tile := range orNone(r.caps(a, capTiles)) {
			for _, stages := range orNone(r.caps(a, capStages)) {
				for _, cluster := range clusters {
					for _, split := range splits {
						if next, takes := r.configured(*a, tile, stages, cluster, split); takes && len(all) < maxConfigurations {
							all = append(all, next)
						}
					}
				}
			}
		}
	}
	return all
}

// orNone returns list, or a list with the single value 0 if it is empty.
func orNone(list []int) []int {
	if len(list) == 0 {
		return []int{0}
	}
	return list
}

// configured configures an algorithm and reports whether the library accepts it.
func (r *product) configured(a algorithm, tile, stages, cluster, split int) (algorithm, bool) {
	next := new(algorithm)
	*next = a
	reduction := 0
	if split > 1 {
		mask := orNone(r.caps(next, capReductions))[0]
		if orNone(r.caps(next, capSplitK))[0] == 0 || mask == 0 {
			return a, false
		}
		reduction = mask & -mask
	}
	if !r.setConfig(next, configTile, tile, 4) || !r.setConfig(next, configStages, stages, 4) ||
		!r.setConfig(next, configSplitK, split, 4) ||
		!r.setConfig(next, configReduction, reduction, 4) || !r.setConfig(next, configCluster, cluster, 2) && cluster != 0 {
		return a, false
	}
	result := new(candidate)
	if int32(r.algoCheck.Call(r.handle, r.desc, r.lb, r.la, r.lc, r.lc, uintptr(unsafe.Pointer(next)),
		uintptr(unsafe.Pointer(result)))) != 0 ||
		result.state != 0 || result.room > uint64(r.spaceBytes) {
		return a, false
	}
	return *next, true
}
