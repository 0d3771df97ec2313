package gpu

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// The PTX of the copy kernels was compiled from the sources beside it.
func TestCopiesAreCurrent(t *testing.T) {
	for _, a := range Copies() {
		ptx := must.Get(files.ReadFile("ptx/" + a.File() + ".ptx"))(t)
		if err := cudatest.StalePTX(os.DirFS("."), a.File()); err != nil {
			t.Error(err)
		}
		version, target := "8.0", "sm_80"
		if a == Bulk {
			version, target = "8.2", "sm_90"
		}
		for _, want := range []string{".version " + version + "\n", ".target " + target + "\n", ".entry " + string(a) + "("} {
			if !bytes.Contains(ptx, []byte(want)) {
				t.Errorf("%s.ptx: has no %q", a, want)
			}
		}
		// The host polls the flag, so the store must have system scope.
		if bytes.Count(ptx, []byte("st.release.sys.global.u32")) != 1 {
			t.Errorf("%s.ptx: want one flag that is released to the system", a)
		}
	}
}

// onProcessor wraps the kernel's source into a program in which threads are calls, one after another.
// It copies between all alignments, for every small length and for lengths at which the loops change,
// with guard bytes on both sides.
const onProcessor = `
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
#define __device__ static
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(n)
typedef uint32_t u32;
typedef unsigned long long u64;
struct u128 { u64 a, b; };
struct Index { unsigned x; };
static Index blockIdx, threadIdx, gridDim, blockDim;
static void __syncthreads() {}
static u64 low, high; // the readable range
static bool outside;
template <typename T> static T load(const T *at) {
	if ((u64)at < low || (u64)(at + 1) > high || (u64)at % sizeof(T) != 0) outside = true;
	T v;
	memcpy(&v, at, sizeof v);
	return v;
}
static void raise(u32 *flag, u32 value) { *flag = value; }
#include SOURCE
int main() {
	std::vector<unsigned char> from(9000), to(9000);
	for (size_t i = 0; i < from.size(); i++) from[i] = (unsigned char)(i * 7 + i / 251);
	std::vector<u64> lengths;
	for (u64 n = 0; n < 70; n++) lengths.push_back(n);
	for (u64 n : {127, 128, 129, 511, 1023, 1024, 1025, 2047, 4095, 4096, 8191}) lengths.push_back(n);
	unsigned char *src = (unsigned char *)(((u64)from.data() + 31) & ~31ull), *dst = (unsigned char *)(((u64)to.data() + 31) & ~31ull) + 64;
	for (unsigned grid : {1u, 3u}) for (u64 a = 0; a < 17; a++) for (u64 b = 0; b < 17; b++) for (u64 n : lengths) {
		memset(to.data(), 0xee, to.size());
		u32 flag = 0;
		Copy p = {(u64)(dst + a), (u64)(src + b), n, grid == 1 ? (u64)&flag : 0, 5, 0};
		low = p.from, high = p.from + n;
		gridDim.x = grid, blockDim.x = 8;
		for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
			for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) copyloads(p);
		bool guarded = true;
		for (int i = 1; i <= 32; i++) guarded = guarded && dst[a - i] == 0xee && dst[a + n + i - 1] == 0xee;
		if (outside || !guarded || memcmp(dst + a, src + b, n) != 0 || flag != (grid == 1 ? 5 : 0)) {
			printf("%u blocks, to %llu, from %llu, %llu bytes: wrong (outside %d, guarded %d, flag %u)\n", grid, a, b, n, outside, guarded, flag);
			return 1;
		}
	}
	puts("copied");
}
`

// onTheProcessor builds and runs that program with a source.
func onTheProcessor(t *testing.T, source []byte) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"main.cc": []byte(onProcessor), "kernel.inc": source} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	program := filepath.Join(dir, "program")
	build := exec.Command("g++", "-std=c++17", "-O1", "-DSOURCE=\"kernel.inc\"", "-o", program,
		filepath.Join(dir, "main.cc"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the kernel for the processor: %v\n%s", err, out)
	}
	out, err := exec.Command(program).CombinedOutput()
	return string(out), err
}

// The kernel's own source, run on the CPU, copies everything and nothing else. The test notices a tail
// that is left out and a unit that is not aligned.
func TestCopyLoadsOnTheProcessor(t *testing.T) {
	source := must.Get(files.ReadFile("copyloads.cu"))(t)
	if out, err := onTheProcessor(t, source); err != nil || out != "copied\n" {
		t.Errorf("%v: %s", err, out)
	}
	for name, change := range map[string][2]string{
		"a tail left out":             {"p.bytes - s.tail, lane", "0, lane"},
		"units that are not aligned":  {"apart & 8 ? 8 : 16", "16"},
		"a unit beyond the end":       {"i < units; i += step", "i <= units; i += step"},
		"a flag of another number":    {"(u32 *)p.flag, p.value", "(u32 *)p.flag, p.value - 1"},
		"elements of the wrong place": {"src + i + 2 * step)", "src + i + step)"},
	} {
		planted := bytes.Replace(source, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(planted, source) {
			t.Fatalf("%s: %q is not in the source", name, change[0])
		}
		if out, err := onTheProcessor(t, planted); err == nil {
			t.Errorf("%s is not seen: %s", name, out)
		}
	}
}
