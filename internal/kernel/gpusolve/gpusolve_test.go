package gpusolve

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// The PTX comes from the sources beside it, asks for a version that old drivers take,
// rounds as the processor does, and has no loads that would not see what other ranks stored.
func TestPTXIsCurrent(t *testing.T) {
	ptx, err := PTX()
	if err != nil {
		t.Fatal(err)
	}
	if err := cudatest.StalePTX(os.DirFS("."), "cg"); err != nil {
		t.Error(err)
	}
	for _, line := range []string{".version 8.0", ".target sm_80"} {
		if !bytes.Contains(ptx, []byte("\n"+line+"\n")) {
			t.Errorf("cg.ptx: want %s", line)
		}
	}
	for _, word := range []string{"fma.", "ld.global.nc"} {
		if bytes.Contains(ptx, []byte(word)) {
			t.Errorf("cg.ptx has %s", word)
		}
	}
}

// The layouts are those of C, whose compiler asserts the same size.
func TestLayout(t *testing.T) {
	text, err := sources.ReadFile("params.cuh")
	if err != nil || !strings.Contains(string(text), "sizeof(Params) == 1472") {
		t.Fatal("params.cuh asserts another size", err)
	}
	var p Params
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"Params", unsafe.Sizeof(p), 1472},
		{"Params.Sides", unsafe.Offsetof(p.Sides), 1328},
		{"Params.Blocks", unsafe.Offsetof(p.Blocks), 1468},
		{"State", unsafe.Sizeof(State{}), 56},
		{"Outcome", unsafe.Sizeof(Outcome{}), 72},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
