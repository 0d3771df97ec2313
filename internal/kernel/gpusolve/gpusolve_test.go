package gpusolve

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// The PTX was compiled from the sources beside it, requires a PTX version that old drivers support,
// rounds like the CPU (no fused multiply-add), and has no non-coherent loads, which would miss other
// ranks' stores.
func TestPTXIsCurrent(t *testing.T) {
	all, err := fs.Glob(sources, "*.cu")
	if err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	for _, source := range all {
		name := strings.TrimSuffix(source, ".cu")
		ptx, err := fs.ReadFile(Files(), "ptx/"+name+".ptx")
		if err != nil {
			t.Fatal(err)
		}
		if err := cudatest.StalePTX(os.DirFS("."), name); err != nil {
			t.Error(err)
		}
		for _, line := range []string{".version 8.0", ".target sm_80"} {
			if !bytes.Contains(ptx, []byte("\n"+line+"\n")) {
				t.Errorf("%s.ptx: want %s", name, line)
			}
		}
		for _, word := range []string{"fma.", "ld.global.nc"} {
			if bytes.Contains(ptx, []byte(word)) {
				t.Errorf("%s.ptx has %s", name, word)
			}
		}
	}
}

// The Go layouts equal the C layouts, whose compiler asserts the same size.
func TestLayout(t *testing.T) {
	text, err := sources.ReadFile("params.cuh")
	if err != nil || !strings.Contains(string(text), "sizeof(Params) == 1488") {
		t.Fatal("params.cuh asserts another size", err)
	}
	var p Params
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"Params", unsafe.Sizeof(p), 1488},
		{"Params.Sides", unsafe.Offsetof(p.Sides), 1208},
		{"Params.Blocks", unsafe.Offsetof(p.Blocks), 1348},
		{"Params.Coarse", unsafe.Offsetof(p.Coarse), 1360},
		{"State", unsafe.Sizeof(State{}), 88},
		{"Outcome", unsafe.Sizeof(Outcome{}), 104},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
