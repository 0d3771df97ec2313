package gpu

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// Every PTX file was compiled from the sources beside it, contains every kernel that Kernel names, and
// requires the oldest PTX version that its instructions allow.
func TestPTXIsCurrent(t *testing.T) {
	for _, a := range append(Algorithms(), Cache) {
		ptx := must.Get(fs.ReadFile(Files(false), "ptx/"+a.File()+".ptx"))(t)
		if err := cudatest.StalePTX(os.DirFS("."), a.File()); err != nil {
			t.Error(err)
		}
		version, target := "8.0", "sm_80"
		if a == Multimem {
			version, target = "8.2", "sm_90"
		}
		if !bytes.Contains(ptx, []byte("\n.version "+version+"\n")) ||
			!bytes.Contains(ptx, []byte("\n.target "+target+"\n")) {
			t.Errorf("%s.ptx: want .version %s and .target %s", a, version, target)
		}
		if bytes.Contains(ptx, []byte("fma.")) {
			t.Errorf("%s.ptx fuses products with sums: they round otherwise than on other backends", a)
		}
		if a == Cache {
			if !bytes.Contains(ptx, []byte(".entry "+CacheRead+"(")) || !bytes.Contains(ptx, []byte(".entry "+CacheCopy+"(")) {
				t.Error("cache.ptx lacks a kernel")
			}
			if bytes.Contains(ptx, []byte("ld.global")) || !bytes.Contains(ptx, []byte("ld.relaxed.gpu.global.v4")) {
				t.Error("cache.ptx has plain loads, which the driver may take out of the loop that times them")
			}
			continue
		}
		for _, d := range a.DTypes() {
			for ranks := 1; ranks <= MaxRanks; ranks++ {
				name := must.Get(a.Kernel(d, ranks))(t)
				if !bytes.Contains(ptx, fmt.Appendf(nil, ".entry %s(", name)) {
					t.Errorf("%s.ptx has no kernel %s", a, name)
				}
			}
		}
	}
}

// The C struct has no padding that Go's lacks: four arrays of pointers, fourteen 64-bit words and
// eight 32-bit words.
func TestParamsLayout(t *testing.T) {
	var p Params
	if got, want := unsafe.Sizeof(p), uintptr(4*MaxRanks*8+14*8+8*4); got != want {
		t.Errorf("Params has %d bytes, want %d", got, want)
	}
	if got := unsafe.Sizeof(CacheParams{}); got != 32 {
		t.Errorf("CacheParams has %d bytes, want 32", got)
	}
	if got, want := unsafe.Offsetof(p.Rank), uintptr(4*MaxRanks*8+14*8); got != want {
		t.Errorf("Rank is at %d, want %d", got, want)
	}
}

// The files for one GPU narrow every barrier in a file and changes nothing else.
func TestFilesForOneGPU(t *testing.T) {
	for _, a := range Algorithms() {
		ptx := must.Get(fs.ReadFile(Files(false), "ptx/"+a.File()+".ptx"))(t)
		near := string(must.Get(fs.ReadFile(Files(true), "ptx/"+a.File()+".ptx"))(t))
		if strings.Contains(near, "release.sys") || strings.Contains(near, "acquire.sys") ||
			strings.Count(near, "st.release.gpu.") != strings.Count(string(ptx), "st.release.sys.") || len(near) != len(ptx) {
			t.Errorf("%s: some flags do not have device scope", a)
		}
	}
}

// A block that waits for a counter of all ranks blames nobody, least of all itself.
func TestFailureNamesWhoIsAwaited(t *testing.T) {
	for f, want := range map[Failure]string{
		{Rank: 1, Peer: 2, Phase: 2}: "block 0 of rank 1 waited too long for rank 2 (the end of the call, epoch 0, seen 0)",
		{Rank: 1, Peer: 1, Phase: 2}: "block 0 of rank 1 waited too long for the other ranks (the end of the call, " +
			"epoch 0, seen 0)",
		{Rank: 1, Peer: 0, Phase: 9}: "block 0 of rank 1 waited too long for rank 0 (an unknown phase, epoch 0, seen 0)",
	} {
		if got := f.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
