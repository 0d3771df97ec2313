package gpugemm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gemmtest"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

var log string

func TestMain(m *testing.M) {
	if os.Getenv(cudatest.RealVariable) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "gpugemm")
	if err != nil {
		panic(err)
	}
	lib, err := cudatest.Build(dir)
	if err != nil {
		panic(err)
	}
	log = filepath.Join(dir, "calls")
	if os.Getenv(lacksDriver) == "" {
		os.Setenv(cuda.LibraryVariable, lib)
	}
	os.Setenv(cuda.ManagementVariable, lib)
	os.Setenv(LibraryVariable, lib)
	os.Setenv(cudatest.LogVariable, log)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Every provider passes the conformance suite, with all layouts and shapes.
func TestConformance(t *testing.T) {
	for _, p := range gemm.On(Backend) {
		if l, ok := p.(library); !ok || !l.exhaustive { // the exhaustive one only differs for timed products
			gemmtest.Run(t, p, 1)
		}
	}
}

func resident(t *testing.T, name string) gemm.Resident {
	t.Helper()
	p, err := gemm.Lookup(Backend, name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e.(gemm.Resident)
}

func operands(d dtype.DType, m, n, k int) (c, a, b gemm.Matrix) {
	c, a, b = gemm.New(gemm.Result(d), m, n), gemm.New(d, m, k), gemm.New(d, n, k).T()
	proof.Integers(a, 1)
	proof.Integers(b, 2)
	return c, a, b
}

// The checks find a wrong tile, a wrong element and a missing product, whichever product of a sample
// is checked.
func TestPlantedErrorsAreFound(t *testing.T) {
	for _, p := range gemm.On(Backend) {
		e := resident(t, p.Name())
		c, a, b := operands(dtype.BF16, 40, 50, 30)
		if err := e.Load(c, a, b); err != nil {
			t.Fatal(err)
		}
		for _, fault := range []string{"", "tile", "element", "stale", ""} {
			t.Setenv(cudatest.ProductVariable, fault)
			proof.Spoil(c)
			if _, err := e.Sample(3); err != nil {
				t.Fatal(err)
			}
			if err := e.Fetch(c); err != nil {
				t.Fatal(err)
			}
			if err := proof.Exact(c, a, b, 3); (err == nil) != (fault == "") {
				t.Errorf("%s with fault %q: %v", p.Name(), fault, err)
			}
		}
	}
}

// A row records the algorithm, how it was found, the library, the operands' total size (larger than
// the cache), the sensor readings, and the peak arithmetic.
func TestDetails(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"builtin":             {"algorithm": "gemm80"},
		"cublaslt":            {"algorithm": "id 66, tile 20", "search": "the first of 3", "library": "cuBLASLt 13.1.0"},
		"cublaslt-exhaustive": {"algorithm": "id 66", "search": "the fastest of 23 configurations of 23"},
	} {
		e := resident(t, name)
		c, a, b := operands(dtype.BF16, 64, 64, 64)
		if err := e.Load(c, a, b); err != nil {
			t.Fatal(err)
		}
		got := e.Details()
		for key, text := range want {
			if !strings.Contains(got[key], text) {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], text)
			}
		}
		if !strings.Contains(got["operands"], "64 copies") || got["gpu"] != "Fake GPU 0" {
			t.Errorf("%s: %v", name, got)
		}
		if shown, err := e.Observe(); err != nil || !strings.Contains(shown, "1980 MHz") {
			t.Errorf("%s: the instruments show %q, %v", name, shown, err)
		}
		if rate, err := e.Peak(dtype.BF16); err != nil || rate <= 0 {
			t.Errorf("%s: peak %v, %v", name, rate, err)
		}
		if _, err := e.Peak(dtype.E4M3); err == nil {
			t.Errorf("%s: compute capability 8.0 has an e4m3 peak", name)
		}
		if len(e.Warnings()) != 0 {
			t.Errorf("%s warns: %v", name, e.Warnings())
		}
	}
}

// Operands that hold a single value are reported by name.
func TestConstantOperands(t *testing.T) {
	e := resident(t, "cublaslt")
	c, a, b := operands(dtype.F32, 8, 8, 8)
	proof.Constant(b, 0)
	if err := e.Load(c, a, b); err != nil {
		t.Fatal(err)
	}
	if w := e.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "B has the same value everywhere") {
		t.Errorf("warnings: %q", w)
	}
	b.Set(7, 7, 1)
	if err := e.Load(c, a, b); err != nil || len(e.Warnings()) != 0 {
		t.Errorf("one element differs: %v, %q", err, e.Warnings())
	}
}

func TestRefusals(t *testing.T) {
	for _, p := range gemm.On(Backend) {
		if _, err := p.Open(2); err == nil || !strings.Contains(err.Error(), "2 threads: a GPU has its own") {
			t.Errorf("%s with 2 threads: %v", p.Name(), err)
		}
	}
	e := resident(t, "cublaslt")
	t.Setenv(cudatest.ProductVariable, "none")
	c, a, b := operands(dtype.F16, 8, 8, 8)
	if err := e.Load(c, a, b); err == nil ||
		!strings.Contains(err.Error(),
			"8 x 8 x 8 in f16 on Fake GPU 0: cublasLtMatmulAlgoGetHeuristic: the requested functionality") {
		t.Errorf("no algorithm: %v", err)
	}
}

// lacksDriver is set in a process that must not find a driver.
const lacksDriver = "KERNBENCH_TEST_LACKS_DRIVER"

// If the machine lacks something, a MissingError reports the reason, which a bench passes on. A process opens the
// driver only once, so the test uses its own process.
func TestMissing(t *testing.T) {
	if os.Getenv(lacksDriver) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), lacksDriver+"=1", cuda.LibraryVariable+"=/nowhere/libcuda.so.1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	_, err := open(1)
	var missing *gemm.MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "/nowhere/libcuda.so.1") {
		t.Errorf("no driver: %v", err)
	}
}

// Every PTX file was compiled from the sources beside it, contains the expected kernels, and needs no
// newer driver than documented.
func TestPTXIsCurrent(t *testing.T) {
	kernels := map[string][]string{"gemm80": {"_bf16"}, "peak80": {"_f32", "_tf32", "_f16", "_bf16"},
		"peak90a":   {"_tf32", "_f16", "_bf16", "_e4m3"},
		"skinny90a": {"_8_1", "_16_1", "_32_1", "_64_1", "_64_2", "_128_1", "_128_2"}}
	for _, k := range tileKernels {
		kernels[k.name()] = []string{""}
		source := must.Get(files.ReadFile(k.name() + ".cu"))(t)
		if want := fmt.Sprintf("(%d, %d)\n", k.cols, k.stages); !strings.HasSuffix(string(source), want) {
			t.Errorf("%s.cu has other columns or stages than %s", k.name(), want)
		}
	}
	for name, types := range kernels {
		if err := cudatest.StalePTX(os.DirFS("."), name); err != nil {
			t.Error(err)
		}
		ptx, err := files.ReadFile("ptx/" + name + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		target := "80"
		if strings.HasSuffix(name, "90a") {
			target = "90a"
		}
		if !bytes.Contains(ptx, []byte("\n.version 8.0\n.target sm_"+target+"\n")) {
			t.Errorf("%s.ptx is of another version or for another target", name)
		}
		for _, d := range types {
			if !bytes.Contains(ptx, []byte(".entry "+name+d+"(")) {
				t.Errorf("%s.ptx has no kernel %s%s", name, name, d)
			}
		}
	}
}

// The test checks how products with few rows are divided on an H200, and that every plan fits into shared memory.
func TestSkinnyPlans(t *testing.T) {
	d := &device{compute: skinnyCompute, multiprocessors: 132}
	for _, c := range []struct {
		m, n, k int
		want    string
	}{
		{1, 4096, 4096, "up to 8 rows: 64 columns a block, k in 3 parts, 12 stages"},
		{16, 4096, 4096, "up to 16 rows: 64 columns a block, k in 3 parts, 10 stages"},
		{16, 1024, 4096, "up to 16 rows: 64 columns a block, k in 4 parts, 10 stages"},
		{16, 6144, 4096, "up to 16 rows: 64 columns a block, k in 2 parts, 10 stages"},
		{32, 8192, 8192, "up to 32 rows: 64 columns a block, k in 2 parts, 8 stages"},
		{16, 10240, 8192, "up to 16 rows: 64 columns a block, k in 4 parts, 10 stages"},
		{16, 14336, 4096, "up to 16 rows: 64 columns a block, k in 1 parts, 11 stages"},
		{16, 28672, 8192, "up to 16 rows: 64 columns a block, k in 1 parts, 11 stages"},
		{64, 4096, 4096, "up to 64 rows: 64 columns a block, k in 2 parts, 13 stages"},
		{64, 8192, 8192, "up to 64 rows: 128 columns a block, k in 2 parts, 8 stages"},
		{64, 10240, 8192, "up to 64 rows: 128 columns a block, k in 2 parts, 8 stages"},
		{64, 14336, 4096, "up to 64 rows: 128 columns a block, k in 1 parts, 9 stages"},
		{64, 28672, 8192, "up to 64 rows: 128 columns a block, k in 1 parts, 9 stages"},
		{128, 4096, 4096, "up to 128 rows: 64 columns a block, k in 2 parts, 8 stages"},
		{128, 10240, 8192, "up to 128 rows: 128 columns a block, k in 1 parts, 7 stages"},
		{1, 50, 64, "up to 8 rows: 64 columns a block, k in 1 parts, 1 stages"},
		{129, 4096, 4096, ""}, {2048, 2048, 2048, ""},
	} {
		got, ok := planSkinny(problem{operand: dtype.BF16, m: c.m, n: c.n, k: c.k, ldc: c.n}, d)
		if ok != (c.want != "") || ok && !strings.HasSuffix(got.String(), c.want) {
			t.Errorf("%d x %d x %d: %v, want %s", c.m, c.n, c.k, got, c.want)
		}
		if got.shared > sharedPerBlock {
			t.Errorf("%d x %d x %d: %d bytes of shared memory", c.m, c.n, c.k, got.shared)
		}
	}
	for _, m := range []int{1, 9, 17, 33, 65, 128} {
		for n := 1; n < 40000; n = n*3/2 + 1 {
			for k := 64; k <= 16384; k *= 2 {
				got, ok := planSkinny(problem{operand: dtype.BF16, m: m, n: n, k: k, ldc: n}, d)
				if !ok || got.rows < m || got.stages < 1 || got.shared > sharedPerBlock || k/stepK < got.split {
					t.Errorf("%d x %d x %d: %+v", m, n, k, got)
				}
			}
		}
	}
}

// hopperOn returns a device like d, but of compute capability 9.0.
func hopperOn(t *testing.T) *device {
	t.Helper()
	t.Setenv(cudatest.MajorVariable, "9")
	d := must.Get(openDevice())(t)
	return &device{Context: d.Context, name: d.name, compute: tileCompute, multiprocessors: 132, cache: d.cache,
		peaks: map[dtype.DType]*peak{}}
}

// On Hopper, products take the kernel that the model chooses, and are right. If the driver refuses it, they take the
// usual one, or the general one if it refuses that too, and the row says so.
func TestHopper(t *testing.T) {
	hopper := hopperOn(t)
	for _, c := range []struct {
		refuse  string
		size    [3]int
		want    string // how the algorithm begins
		refused bool
	}{
		{"nothing", [3]int{1, 40, 30}, "skinny90a for", false},
		{"nothing", [3]int{5, 60, 1000}, "skinny90a for", false},
		{"nothing", [3]int{129, 100, 256}, "wide96_90a: tiles of 128 x 96", false},
		{"nothing", [3]int{300, 200, 64}, "wide96_90a: tiles", false},
		{"skinny90a", [3]int{5, 60, 1000}, "turns128_90a: tiles", true},
		{"wide96_90a", [3]int{129, 100, 256}, "turns128_90a: tiles", true},
		{"turns128_90a", [3]int{129, 100, 256}, "gemm80", true},
	} {
		t.Setenv(cudatest.RefuseVariable, c.refuse)
		hopper.Context = must.Get(hopper.Device().Context())(t) // forgets the kernels that the driver has accepted
		e := must.Get(newEngine(hopper, builtin{}.Types(), must.Get(builtinOn(hopper))(t)))(t)
		matrix, a, b := operands(dtype.BF16, c.size[0], c.size[1], c.size[2])
		proof.Spoil(matrix)
		if err := e.Load(matrix, a, b); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Sample(max(2, 65/c.size[0])); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.Fetch(matrix), proof.Exact(matrix, a, b, 3)); err != nil {
			t.Errorf("%v, refused %q: %v", c.size, c.refuse, err)
		}
		got := e.Details()
		if !strings.HasPrefix(got["algorithm"], c.want) || (got["refused"] != "") != c.refused {
			t.Errorf("%v, refused %q: %v", c.size, c.refuse, got)
		}
		if !strings.HasPrefix(got["launch"], "graphs of up to ") {
			t.Errorf("%v: launched %s", c.size, got["launch"])
		}
		e.Close()
	}
	calls := must.Get(os.ReadFile(log))(t)
	for _, want := range []string{"cuLaunchKernelEx dependent clusters of 4 skinny90a_8_1", "cuGraphLaunch of 64",
		"dependent clusters of 1 turns128_90a"} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("no call %q", want)
		}
	}
}

// Products of e4m3 need Hopper, and are multiplied by the operands' scales.
func TestE4M3(t *testing.T) {
	c, a, b := operands(dtype.E4M3, 40, 50, 300)
	hopper := hopperOn(t)
	ampere := hopperOn(t)
	ampere.compute = generalCompute
	older := must.Get(newEngine(ampere, builtin{}.Types(), must.Get(builtinOn(ampere))(t)))(t)
	var missing *gemm.MissingError
	if err := older.Load(c, a, b); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "only on GPUs of compute capability 9.0") {
		t.Errorf("on another GPU: %v", err)
	}
	k := must.Get(builtinOn(hopper))(t)
	e := must.Get(newEngine(hopper, builtin{}.Types(), k))(t)
	if err := errors.Join(e.Multiply(c, a, b), proof.Exact(c, a, b, 3)); err != nil {
		t.Error(err)
	}
	if got := e.Details()["algorithm"]; !strings.HasPrefix(got, "fp8x") {
		t.Errorf("algorithm %s", got)
	}
	scaled := e.problem
	scaled.scale = 4
	if err := hopper.Do(func() error { return k.prepare(scaled, e.places, e.watch, false) }); err != nil {
		t.Fatal(err)
	}
	err := hopper.Do(func() error { return errors.Join(k.start(0, e.watch.Stream), e.watch.Synchronize()) })
	if err != nil {
		t.Fatal(err)
	}
	quadruple := gemm.New(dtype.F32, 40, 50)
	if err := e.Fetch(quadruple); err != nil || quadruple.At(3, 7) != 4*c.At(3, 7) || c.At(3, 7) == 0 {
		t.Errorf("scaled by 4: %v instead of %v, %v", quadruple.At(3, 7), c.At(3, 7), err)
	}
}

// The C layout: two maps aligned to 128 bytes, three pointers, nine numbers, padded to a multiple of
// the alignment.
func TestParamsLayout(t *testing.T) {
	var p Params
	if unsafe.Sizeof(p) != 384 || unsafe.Offsetof(p.A) != 256 || unsafe.Offsetof(p.M) != 280 ||
		unsafe.Offsetof(p.Rounds) != 304 {
		t.Errorf("size %d, A at %d, M at %d, Rounds at %d", unsafe.Sizeof(p), unsafe.Offsetof(p.A), unsafe.Offsetof(p.M),
			unsafe.Offsetof(p.Rounds))
	}
}
