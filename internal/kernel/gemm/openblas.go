package gemm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// openBLAS is the provider for the library OpenBLAS, which is opened at run time.
type openBLAS struct{}

// OpenBLAS returns the provider for the library of that name. The first engine opens the library, and its variables
// (OPENBLAS_CORETYPE) must be set before.
func OpenBLAS() Provider { return openBLAS{} }

func (openBLAS) Name() string { return "openblas" }
func (openBLAS) Help() string { return "OpenBLAS, opened at run time" }

// Types returns f64 and f32 only, because the usual builds of the library lack the 16-bit types.
func (openBLAS) Types() []dtype.DType { return []dtype.DType{dtype.F64, dtype.F32} }

// library is the open library. It uses the Fortran routines, which take every argument by address, so that no
// floating-point argument has to be passed.
//
//	void sgemm_(char *transa, char *transb, int *m, int *n, int *k, float *alpha,
//	            float *a, int *lda, float *b, int *ldb, float *beta, float *c, int *ldc)
//	void openblas_set_num_threads(int); int openblas_get_num_threads(void)
//	char *openblas_get_config(void); char *openblas_get_corename(void)
type library struct {
	version, core string

	sgemm, dgemm, setThreads, getThreads, config, corename dynlib.Func

	// mu protects the number of threads, which is global to the process.
	mu      sync.Mutex
	threads int
}

var openBLASSpec = dynlib.Register(dynlib.Spec{Name: "OpenBLAS",
	Sonames: []string{"libopenblas.so.0", "libopenblas.so"},
	Env:     "KERNBENCH_OPENBLAS", Hint: "Debian: libopenblas0-pthread"})

var openLibrary = sync.OnceValues(func() (*library, error) {
	file, err := dynlib.Open(openBLASSpec)
	if err != nil {
		return nil, err
	}
	l := &library{}
	err = file.Bind(map[string]*dynlib.Func{
		"sgemm_": &l.sgemm, "dgemm_": &l.dgemm,
		"openblas_set_num_threads": &l.setThreads, "openblas_get_num_threads": &l.getThreads,
		"openblas_get_config": &l.config, "openblas_get_corename": &l.corename,
	})
	if err != nil {
		return nil, err
	}
	// For example "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64".
	if words := strings.Fields(dynlib.String(l.config.Call())); len(words) > 1 {
		l.version = words[1]
	}
	l.core = dynlib.String(l.corename.Call())
	return l, nil
})

// Open opens the library on first use, and fails if the library does not accept the number of threads. Engines with
// different numbers share the library, so each product sets its number again (use).
func (p openBLAS) Open(threads int) (Engine, error) {
	if err := checkThreads(threads); err != nil {
		return nil, err
	}
	l, err := openLibrary()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use(threads)
	if got := int(int32(l.getThreads.Call())); got != threads {
		return nil, fmt.Errorf("opening OpenBLAS with %d threads: it uses %d instead", threads, got)
	}
	e := &blasEngine{library: l, threads: threads, types: p.Types()}
	e.args.alpha32, e.args.alpha64 = 1, 1
	return e, nil
}

func (l *library) use(threads int) {
	if l.threads != threads {
		l.setThreads.Call(uintptr(threads))
		l.threads = threads
	}
}

// blasEngine is the library with a number of threads.
type blasEngine struct {
	library *library
	threads int
	types   []dtype.DType
	args    blasArgs // not on a stack, because C reads them
}

type blasArgs struct {
	transA, transB         byte
	m, n, k, lda, ldb, ldc int32
	alpha32, beta32        float32
	alpha64, beta64        float64
}

func (e *blasEngine) String() string {
	return fmt.Sprintf("OpenBLAS %s, core type %s, %d threads", e.library.version, e.library.core, e.threads)
}

func (e *blasEngine) Warnings() []string {
	if w := coreWarning(e.library.core, simdOf(tile.Best())); w != "" {
		return []string{w}
	}
	return nil
}

func (e *blasEngine) Close() {} // the library stays open, and its threads sleep

// Multiply implements Engine. Matrices with more rows or columns than 32 bits can count are an error.
func (e *blasEngine) Multiply(c, a, b Matrix) error {
	if done, err := normalise(&c, &a, &b, e.types); done {
		return err
	}
	// The library stores matrices by columns, which are our rows. It therefore computes the product of the transposed
	// operands in the opposite order.
	g := &e.args
	faults := 0
	whole := func(n int) int32 {
		if n > math.MaxInt32 {
			faults++
		}
		return int32(n)
	}
	g.m, g.n, g.k = whole(c.Cols), whole(c.Rows), whole(a.Cols)
	transA, lda := columns(&b)
	transB, ldb := columns(&a)
	g.transA, g.transB, g.lda, g.ldb = transA, transB, whole(lda), whole(ldb)
	g.ldc = whole(max(c.RowStep, c.Cols))
	if faults > 0 {
		return fmt.Errorf("multiplying %d x %d x %d: OpenBLAS counts in 32 bits", c.Rows, c.Cols, a.Cols)
	}
	e.library.mu.Lock()
	defer e.library.mu.Unlock()
	e.library.use(e.threads)
	routine, alpha, beta := e.library.sgemm, unsafe.Pointer(&g.alpha32), unsafe.Pointer(&g.beta32)
	if c.Type == dtype.F64 {
		routine, alpha, beta = e.library.dgemm, unsafe.Pointer(&g.alpha64), unsafe.Pointer(&g.beta64)
	}
	routine.Call(
		uintptr(unsafe.Pointer(&g.transA)), uintptr(unsafe.Pointer(&g.transB)),
		uintptr(unsafe.Pointer(&g.m)), uintptr(unsafe.Pointer(&g.n)), uintptr(unsafe.Pointer(&g.k)),
		uintptr(alpha),
		uintptr(b.at(0, 0)), uintptr(unsafe.Pointer(&g.lda)),
		uintptr(a.at(0, 0)), uintptr(unsafe.Pointer(&g.ldb)),
		uintptr(beta),
		uintptr(c.at(0, 0)), uintptr(unsafe.Pointer(&g.ldc)))
	return nil
}

// columns returns how the library sees a matrix: whether it is transposed, and the distance between its columns, which
// must be at least their length.
func columns(m *Matrix) (trans byte, distance int) {
	if m.byRows() {
		return 'N', max(m.RowStep, m.Cols)
	}
	return 'T', max(m.ColStep, m.Rows)
}

// simd is the width of the instructions that OpenBLAS uses. The variable OPENBLAS_CORETYPE selects a core type with a
// given width.
type simd int

const (
	narrow simd = iota // SSE
	avx
	avx2
	avx512
)

// coreTypes lists the library's names of x86 cores by the instructions that their kernels use.
var coreTypes = map[simd][]string{
	narrow: {"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Atom", "Core2", "Penryn", "Dunnington", "Nehalem",
		"Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"},
	avx:    {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller", "Excavator"},
	avx2:   {"Haswell", "Zen"},
	avx512: {"SkylakeX", "Cooperlake", "SapphireRapids"},
}

func simdOf(l tile.Level) simd {
	switch {
	case l >= tile.AVX512:
		return avx512
	case l == tile.AVX2:
		return avx2
	}
	return narrow
}

// coreWarning returns a warning if the library mistook the processor for an older one, which happens on virtual
// machines whose model it does not know. It returns "" otherwise, and if the core type is not known here.
func coreWarning(core string, have simd) string {
	for _, width := range []simd{narrow, avx, avx2, avx512} {
		known := slices.ContainsFunc(coreTypes[width], func(name string) bool { return strings.EqualFold(name, core) })
		if known && width < have {
			return fmt.Sprintf("OpenBLAS takes this processor for %s and uses a fraction of it: set OPENBLAS_CORETYPE=%s "+
				"before it is loaded",
				core, coreTypes[have][0])
		}
	}
	return ""
}
