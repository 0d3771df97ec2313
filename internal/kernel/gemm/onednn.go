package gemm

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// oneDNN is the provider for the library of that name, which is opened at run time. Frameworks such as PyTorch use it.
type oneDNN struct {
	packed bool // the library chooses the layout of B, and B is converted to it
}

// OneDNN returns the provider that reads the operands where they are.
func OneDNN() Provider { return oneDNN{} }

// OneDNNPacked returns the provider that converts B to the layout that the library prefers. Its engine is a Keeper, so
// that benches can leave the conversion out of the timing, as frameworks do with the weights of a layer.
func OneDNNPacked() Provider { return oneDNN{packed: true} }

func (p oneDNN) Name() string {
	if p.packed {
		return "onednn-packed"
	}
	return "onednn"
}

func (p oneDNN) Help() string {
	if p.packed {
		return "oneDNN, with B packed before the timing, as frameworks do with weights"
	}
	return "oneDNN, opened at run time"
}

func (oneDNN) Types() []dtype.DType { return []dtype.DType{dtype.F32, dtype.BF16, dtype.I8} }

// Constants of the library's C interface, equal in versions 2 and 3.
const (
	dnnCPU, dnnInOrder         = 1, 1
	dnnAny                     = 1   // the layout that the library prefers
	dnnImplementation          = 8   // query for the name of the kernel
	dnnWeightsDescriptor       = 131 // query for the layout of B
	dnnSrc, dnnDst, dnnWeights = 1, 17, 33
	dnnOpenMP                  = 2 // the kind of threads whose number we can set
)

// dnnTypes maps element types to the library's numbers.
var dnnTypes = map[dtype.DType]uintptr{dtype.BF16: 2, dtype.F32: 3, dtype.I32: 4, dtype.I8: 5}

var oneDNNSpec = dynlib.Register(dynlib.Spec{Name: "oneDNN",
	Sonames: []string{"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2"},
	Env:     "KERNBENCH_ONEDNN", Hint: "Debian: libdnnl2",
	Version: func(file *dynlib.Library) (string, error) {
		v, err := dnnVersion(file)
		return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]), err
	}})

// dnnLibrary is the open library. In version 2 the caller allocates the descriptors; in version 3 they are handles.
type dnnLibrary struct {
	version        [3]int32
	engine, stream uintptr

	setThreads, alloc, free                                  dynlib.Func // of OpenMP and of C
	descByStrides, descByTag, descSize, destroyDesc          dynlib.Func
	initProduct, createPD, createReorderPD, query, queryDesc dynlib.Func
	destroyPD, createPrimitive, destroyPrimitive             dynlib.Func
	createMemory, setData, destroyMemory, execute, wait      dynlib.Func
}

// dnnVersion reads the version of the library. It returns an error for libraries that cannot be used.
func dnnVersion(file *dynlib.Library) (v [3]int32, err error) {
	var version dynlib.Func
	if err := file.Bind(map[string]*dynlib.Func{"dnnl_version": &version}); err != nil {
		return v, err
	}
	// struct { int major, minor, patch; const char *hash; unsigned cpu_runtime, gpu_runtime; }
	words := dtype.View[int32](dynlib.Bytes(version.Call(), 32))
	copy(v[:], words)
	switch {
	case v[0] != 2 && v[0] != 3:
		return v, fmt.Errorf("opening oneDNN %d.%d.%d: want version 2 or 3", v[0], v[1], v[2])
	case words[6] != dnnOpenMP:
		return v, fmt.Errorf("opening oneDNN %d.%d.%d: want a build with OpenMP, whose number of threads can be set",
			v[0], v[1], v[2])
	}
	return v, nil
}

var openOneDNN = sync.OnceValues(func() (*dnnLibrary, error) {
	file, err := dynlib.Open(oneDNNSpec)
	if err != nil {
		return nil, err
	}
	l := &dnnLibrary{}
	if l.version, err = dnnVersion(file); err != nil {
		return nil, err
	}
	var createEngine, createStream dynlib.Func
	functions := map[string]*dynlib.Func{
		"omp_set_num_threads": &l.setThreads, "aligned_alloc": &l.alloc, "free": &l.free,
		"dnnl_engine_create": &createEngine, "dnnl_stream_create": &createStream,
		"dnnl_memory_desc_get_size": &l.descSize, "dnnl_reorder_primitive_desc_create": &l.createReorderPD,
		"dnnl_primitive_desc_query": &l.query, "dnnl_primitive_desc_query_md": &l.queryDesc,
		"dnnl_primitive_desc_destroy": &l.destroyPD, "dnnl_primitive_create": &l.createPrimitive,
		"dnnl_primitive_destroy": &l.destroyPrimitive, "dnnl_primitive_execute": &l.execute,
		"dnnl_memory_create": &l.createMemory, "dnnl_memory_set_data_handle": &l.setData,
		"dnnl_memory_destroy": &l.destroyMemory, "dnnl_stream_wait": &l.wait,
	}
	if l.version[0] == 2 {
		functions["dnnl_memory_desc_init_by_strides"] = &l.descByStrides
		functions["dnnl_memory_desc_init_by_tag"] = &l.descByTag
		functions["dnnl_matmul_desc_init"] = &l.initProduct
		functions["dnnl_primitive_desc_create"] = &l.createPD
	} else {
		functions["dnnl_memory_desc_create_with_strides"] = &l.descByStrides
		functions["dnnl_memory_desc_create_with_tag"] = &l.descByTag
		functions["dnnl_memory_desc_destroy"] = &l.destroyDesc
		functions["dnnl_matmul_primitive_desc_create"] = &l.createPD
	}
	if err := file.Bind(functions); err != nil {
		return nil, err
	}
	err = dnnError("creating an engine", createEngine.Call(uintptr(unsafe.Pointer(&l.engine)), dnnCPU, 0))
	if err != nil {
		return nil, err
	}
	return l, dnnError("creating a stream",
		createStream.Call(uintptr(unsafe.Pointer(&l.stream)), l.engine, dnnInOrder))
})

// dnnError returns the error for a status of the library, or nil for success.
func dnnError(doing string, status uintptr) error {
	names := [...]string{"success", "out of memory", "invalid arguments", "not implemented", "no more implementations",
		"run-time error", "not required"}
	switch s := int(int32(status)); {
	case s == 0:
		return nil
	case s > 0 && s < len(names):
		return fmt.Errorf("%s with oneDNN: %s", doing, names[s])
	default:
		return fmt.Errorf("%s with oneDNN: status %d", doing, s)
	}
}

func (p oneDNN) Open(threads int) (Engine, error) {
	if err := checkThreads(threads); err != nil {
		return nil, err
	}
	l, err := openOneDNN()
	if err != nil {
		return nil, err
	}
	e := &dnnEngine{library: l, threads: threads, types: p.Types()}
	if p.packed {
		return &dnnPackedEngine{dnnEngine: e}, nil
	}
	return e, nil
}

// dnnEngine is the library with a number of threads. It prepares a product once, and executes it again as long as the
// shape, the type and the strides stay the same.
type dnnEngine struct {
	library *dnnLibrary
	threads int
	types   []dtype.DType
	product *dnnProduct // the latest one
}

func (e *dnnEngine) String() string {
	v := e.library.version
	s := fmt.Sprintf("oneDNN %d.%d.%d, %d threads", v[0], v[1], v[2], e.threads)
	if e.threads == 1 {
		s = strings.TrimSuffix(s, "s")
	}
	if e.product != nil { // known after the first product
		s += ", " + e.product.implementation
	}
	return s
}

func (e *dnnEngine) Warnings() []string { return nil }

func (e *dnnEngine) Close() {
	e.product.destroy()
	e.product = nil
}

// Multiply implements Engine.
func (e *dnnEngine) Multiply(c, a, b Matrix) error {
	if done, err := normalise(&c, &a, &b, e.types); done {
		return err
	}
	return e.onThread(func() error { return e.multiply(&c, &a, &b, false, false) })
}

// onThread runs a function on one operating-system thread, because OpenMP keeps the number of threads, and the threads
// themselves, for each calling thread.
func (e *dnnEngine) onThread(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.library.setThreads.Call(uintptr(e.threads))
	return do()
}

// multiply prepares and executes a product. With packed, B is converted first, unless the converted B is still there.
func (e *dnnEngine) multiply(c, a, b *Matrix, packed, converted bool) error {
	if e.library.version[0] == 3 {
		// Version 3.7.2 computes wrong products of single rows or columns with gaps, and cannot pack an i8 matrix with gaps.
		result, denseA, denseB := c, a.dense(), b.dense()
		dense := c.dense()
		c, a, b = &dense, &denseA, &denseB
		defer result.copyFrom(c)
	} else if packed {
		// On a processor without AMX, version 2.6.3 cannot pack a transposed i8 matrix with gaps.
		denseB := b.dense()
		b = &denseB
	}
	if !e.product.like(c, a, b) {
		e.Close()
		p, err := e.library.prepare(c, a, b, packed)
		if err != nil {
			return fmt.Errorf("%w (%d x %d x %d of %v)", err, c.Rows, c.Cols, a.Cols, a.Type)
		}
		e.product, converted = p, false
	}
	p, l := e.product, e.library
	l.setData.Call(p.a, uintptr(a.first()))
	l.setData.Call(p.b, uintptr(b.first()))
	l.setData.Call(p.c, uintptr(c.first()))
	if packed && !converted {
		if err := l.run("packing B", p.reorder, p.move[:]); err != nil {
			return err
		}
	}
	err := l.run("multiplying", p.primitive, p.args[:])
	keepAlive(c, a, b)
	return err
}

// dnnPackedEngine converts B to the layout that the library prefers.
type dnnPackedEngine struct {
	*dnnEngine
	kept      Matrix // the B of the latest call of Keep
	converted bool   // the latest product has converted it
}

var _ Keeper = (*dnnPackedEngine)(nil)

func (e *dnnPackedEngine) String() string { return e.dnnEngine.String() + ", B packed" }

// Keep implements Keeper. The next product converts B.
func (e *dnnPackedEngine) Keep(b Matrix) error {
	e.kept, e.converted = b, false
	return nil
}

// Multiply implements Engine.
func (e *dnnPackedEngine) Multiply(c, a, b Matrix) error {
	if done, err := normalise(&c, &a, &b, e.types); done {
		return err
	}
	kept := e.kept.Data != nil && same(&b, &e.kept)
	err := e.onThread(func() error { return e.multiply(&c, &a, &b, true, kept && e.converted) })
	e.converted = kept && err == nil
	return err
}
