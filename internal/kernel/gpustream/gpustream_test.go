package gpustream

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// The PTX was compiled from the source beside it, requires a PTX version that old drivers support, and has all kernels.
// Products are rounded before they are added, as on processors.
func TestPTXIsCurrent(t *testing.T) {
	if err := cudatest.StalePTX(os.DirFS("."), "stream"); err != nil {
		t.Error(err)
	}
	ptx, err := files.ReadFile("ptx/stream.ptx")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("stream_read( stream_write( stream_copy( stream_scale( stream_add( stream_triad( stream_chase(")
	for i, name := range want {
		want[i] = ".entry " + name
	}
	for _, text := range append(want, "\n.version 8.0\n.target sm_80\n") {
		if !bytes.Contains(ptx, []byte(text)) {
			t.Errorf("no %q", text)
		}
	}
	if bytes.Contains(ptx, []byte("fma.rn.f64")) {
		t.Error("the triad rounds only once")
	}
	if unsafe.Sizeof(Params{}) != 56 {
		t.Errorf("Params has %d bytes", unsafe.Sizeof(Params{}))
	}
}
