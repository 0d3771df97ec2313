package gpugemm

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// LibraryVariable names the environment variable with another file to open instead of cuBLASLt.
const LibraryVariable = "KERNBENCH_CUBLASLT_LIB"

var spec = dynlib.Register(dynlib.Spec{Name: "cuBLASLt", Sonames: []string{"libcublasLt.so.13", "libcublasLt.so.12"},
	Env:     LibraryVariable,
	Folders: cuda.Folders("cublas"), Hint: "the CUDA toolkit has it, PyTorch brings it, and so does pip's nvidia-cublas",
	Version: version})

// cublasLt is the open library.
type cublasLt struct {
	lib    *dynlib.Library
	handle uintptr

	create, statusString                              dynlib.Func
	descCreate, descDestroy, descSet                  dynlib.Func
	layoutCreate, layoutDestroy                       dynlib.Func
	preferenceCreate, preferenceDestroy               dynlib.Func
	preferenceSet, heuristic, matmul                  dynlib.Func
	algoIDs, algoInit, algoCheck, algoCap, algoConfig dynlib.Func
	algoSet                                           dynlib.Func
}

func (l *cublasLt) table() map[string]*dynlib.Func {
	return map[string]*dynlib.Func{
		"cublasLtCreate": &l.create, "cublasLtGetStatusString": &l.statusString,
		"cublasLtMatmulDescCreate": &l.descCreate, "cublasLtMatmulDescDestroy": &l.descDestroy,
		"cublasLtMatmulDescSetAttribute": &l.descSet,
		"cublasLtMatrixLayoutCreate":     &l.layoutCreate, "cublasLtMatrixLayoutDestroy": &l.layoutDestroy,
		"cublasLtMatmulPreferenceCreate": &l.preferenceCreate, "cublasLtMatmulPreferenceDestroy": &l.preferenceDestroy,
		"cublasLtMatmulPreferenceSetAttribute": &l.preferenceSet, "cublasLtMatmulAlgoGetHeuristic": &l.heuristic,
		"cublasLtMatmul":           &l.matmul,
		"cublasLtMatmulAlgoGetIds": &l.algoIDs, "cublasLtMatmulAlgoInit": &l.algoInit,
		"cublasLtMatmulAlgoCheck":           &l.algoCheck,
		"cublasLtMatmulAlgoCapGetAttribute": &l.algoCap, "cublasLtMatmulAlgoConfigGetAttribute": &l.algoConfig,
		"cublasLtMatmulAlgoConfigSetAttribute": &l.algoSet,
	}
}

// openLibrary opens the library, once per process. A context must be current.
var openLibrary = sync.OnceValues(func() (*cublasLt, error) {
	lib, err := dynlib.Open(spec)
	if err != nil {
		return nil, err
	}
	text, err := version(lib)
	if err != nil {
		return nil, err
	}
	lib.SetVersion(text)
	l := &cublasLt{lib: lib}
	if err := lib.Bind(l.table()); err != nil {
		return nil, fmt.Errorf("%v is too old: %w", lib, err)
	}
	handle := new(uintptr)
	if err := l.check("cublasLtCreate", l.create.Call(uintptr(unsafe.Pointer(handle)))); err != nil {
		return nil, err
	}
	l.handle = *handle
	return l, nil
})

// version returns the library's version, which it reports as a number: 130200 means 13.2.0.
func version(lib *dynlib.Library) (string, error) {
	var f dynlib.Func
	if err := lib.Bind(map[string]*dynlib.Func{"cublasLtGetVersion": &f}); err != nil {
		return "", err
	}
	lib.SetFile(dynlib.FileOf(f))
	v := f.Call()
	return fmt.Sprintf("%d.%d.%d", v/10_000, v%10_000/100, v%100), nil
}

func (l *cublasLt) check(call string, result uintptr) error {
	if code := int(int32(result)); code != 0 {
		return fmt.Errorf("%s: %s (%d)", call, dynlib.String(l.statusString.Call(uintptr(code))), code)
	}
	return nil
}

// Constants of the library's header.
const (
	compute32F     = 68
	computeTF32    = 77
	compute64F     = 70
	descTransposeA = 3
	descTarget     = 15 // number of multiprocessors to use
	transposed     = 1
	preferenceRoom = 1

	capTiles, capStages                          = 6, 13
	capSplitK, capReductions                     = 0, 1
	configID, configTile, configSplitK           = 0, 1, 2
	configReduction, configSwizzle, configCustom = 3, 4, 5
	configStages, configCluster                  = 6, 8
)

// dataTypes maps element types to the library's cudaDataType_t.
var dataTypes = map[dtype.DType]uintptr{dtype.F32: 0, dtype.TF32: 0, dtype.F64: 1, dtype.F16: 2, dtype.BF16: 14,
	dtype.E4M3: 28}

// arithmetic returns the library's compute type for operands of a type, and the type of alpha and
// beta.
func arithmetic(operand dtype.DType) (compute, factors uintptr) {
	switch operand {
	case dtype.TF32:
		return computeTF32, dataTypes[dtype.F32]
	case dtype.F64:
		return compute64F, dataTypes[dtype.F64]
	}
	return compute32F, dataTypes[dtype.F32]
}

// algorithm is cublasLtMatmulAlgo_t; candidate is cublasLtMatmulHeuristicResult_t.
type (
	algorithm [8]uint64
	candidate struct {
		algorithm algorithm
		room      uint64
		state     int32
		waves     float32
		_         [4]int32
	}
)

// config returns an attribute of an algorithm's configuration, or -1 if it has none.
func (l *cublasLt) config(a *algorithm, what uintptr) int {
	v, written := new([2]uint32), new(uint64)
	if l.algoConfig.Call(uintptr(unsafe.Pointer(a)), what, uintptr(unsafe.Pointer(v)), 4,
		uintptr(unsafe.Pointer(written))) == 0 {
		return int(v[0])
	}
	// Two attributes have 16 bits only.
	if l.algoConfig.Call(uintptr(unsafe.Pointer(a)), what, uintptr(unsafe.Pointer(v)), 2,
		uintptr(unsafe.Pointer(written))) == 0 {
		return int(v[0] & 0xffff)
	}
	return -1
}

func (l *cublasLt) setConfig(a *algorithm, what uintptr, value, bytes int) bool {
	v := new([2]uint32)
	v[0] = uint32(value)
	return int32(l.algoSet.Call(uintptr(unsafe.Pointer(a)), what, uintptr(unsafe.Pointer(v)), uintptr(bytes))) == 0
}

// caps returns the values that an attribute of an algorithm can have.
func (l *cublasLt) caps(a *algorithm, what uintptr) []int {
	v, written := make([]uint32, 1024), new(uint64)
	if int32(l.algoCap.Call(uintptr(unsafe.Pointer(a)), what, uintptr(unsafe.Pointer(&v[0])), uintptr(4*len(v)),
		uintptr(unsafe.Pointer(written)))) != 0 {
		return nil
	}
	return lists.Map(v[:min(len(v), int(*written/4))], func(n uint32) int { return int(n) })
}

// describe describes an algorithm by the header's numbers.
func (l *cublasLt) describe(a *algorithm) string {
	return fmt.Sprintf("id %d, tile %d, stages %d, cluster %d, split-k %d, swizzle %d, custom %d", l.config(a, configID),
		l.config(a, configTile),
		l.config(a, configStages), l.config(a, configCluster), l.config(a, configSplitK), l.config(a, configSwizzle),
		l.config(a, configCustom))
}

// product is a problem in the library's terms. The library is column-major, so our row-major C is its
// transpose: B times A.
type product struct {
	*cublasLt
	problem             problem
	desc, la, lb, lc    uintptr
	alpha, beta         *[8]byte
	space               cuda.Pointer
	spaceBytes          int
	compute, factorType uintptr
}

func (l *cublasLt) product(p problem, space cuda.Pointer, spaceBytes int) (*product, error) {
	r := &product{cublasLt: l, problem: p, space: space, spaceBytes: spaceBytes, alpha: new([8]byte), beta: new([8]byte)}
	r.compute, r.factorType = arithmetic(p.operand)
	if p.operand == dtype.F64 {
		binary.LittleEndian.PutUint64(r.alpha[:], math.Float64bits(1))
	} else {
		binary.LittleEndian.PutUint32(r.alpha[:], math.Float32bits(1))
	}
	at := new(uintptr)
	if err := l.check("cublasLtMatmulDescCreate",
		l.descCreate.Call(uintptr(unsafe.Pointer(at)), r.compute, r.factorType)); err != nil {
		return nil, err
	}
	r.desc = *at
	op := new(int32)
	*op = transposed
	if err := l.check("cublasLtMatmulDescSetAttribute",
		l.descSet.Call(r.desc, descTransposeA, uintptr(unsafe.Pointer(op)), 4)); err != nil {
		return nil, err
	}
	if p.multiprocessors > 0 {
		target := new(int32)
		*target = int32(p.multiprocessors)
		if err := l.check("cublasLtMatmulDescSetAttribute",
			l.descSet.Call(r.desc, descTarget, uintptr(unsafe.Pointer(target)), 4)); err != nil {
			return nil, err
		}
	}
	operand, result := dataTypes[p.operand], r.factorType
	for _, m := range []struct {
		to             *uintptr
		of             uintptr
		rows, cols, ld int
	}{{&r.lb, operand, p.k, p.n, p.k}, {&r.la, operand, p.k, p.m, p.k}, {&r.lc, result, p.n, p.m, p.ldc}} {
		if err := l.check("cublasLtMatrixLayoutCreate",
			l.layoutCreate.Call(uintptr(unsafe.Pointer(at)), m.of, uintptr(m.rows), uintptr(m.cols),
				uintptr(m.ld))); err != nil {
			return nil, err
		}
		*m.to = *at
	}
	return r, nil
}

// start starts the product with an algorithm.
func (r *product) start(a *algorithm, at place, s *cuda.Stream) error {
	return r.check("cublasLtMatmul",
		r.matmul.Call(r.handle, r.desc, uintptr(unsafe.Pointer(r.alpha)), uintptr(at.b), r.lb, uintptr(at.a), r.la,
			uintptr(unsafe.Pointer(r.beta)), uintptr(at.c), r.lc, uintptr(at.c), r.lc, uintptr(unsafe.Pointer(a)),
			uintptr(r.space), uintptr(r.spaceBytes), s.Handle()))
}

// maxOffered is the number of candidates requested from the heuristic.
const maxOffered = 200

// offered returns the candidates of the library's heuristic, ordered by its estimate, best first.
func (r *product) offered() ([]candidate, error) {
	preference, workspace := new(uintptr), new(uint64)
	if err := r.check("cublasLtMatmulPreferenceCreate",
		r.preferenceCreate.Call(uintptr(unsafe.Pointer(preference)))); err != nil {
		return nil, err
	}
	defer r.preferenceDestroy.Call(*preference)
	*workspace = uint64(r.spaceBytes)
	if err := r.check("cublasLtMatmulPreferenceSetAttribute",
		r.preferenceSet.Call(*preference, preferenceRoom, uintptr(unsafe.Pointer(workspace)), 8)); err != nil {
		return nil, err
	}
	list, n := make([]candidate, maxOffered), new(int32)
	err := r.check("cublasLtMatmulAlgoGetHeuristic",
		r.heuristic.Call(r.handle, r.desc, r.lb, r.la, r.lc, r.lc, *preference, maxOffered,
			uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(n))))
	runtime.KeepAlive(list)
	if err == nil && *n == 0 {
		err = fmt.Errorf("%v has no algorithm for it", r.lib)
	}
	return list[:*n], err
}

func (r *product) destroy() error {
	errs := r.check("cublasLtMatmulDescDestroy", r.descDestroy.Call(r.desc))
	for _, layout := range []uintptr{r.la, r.lb, r.lc} {
		if err := r.check("cublasLtMatrixLayoutDestroy", r.layoutDestroy.Call(layout)); errs == nil {
			errs = err
		}
	}
	return errs
}
