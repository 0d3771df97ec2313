package cudatest

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/fstest"
)

// PTX of the present sources passes. PTX of other sources, or without a hash, does not.
func TestStalePTX(t *testing.T) {
	current := fmt.Sprintf("// source: sha256 %x\n.version 8.0\n", sha256.Sum256([]byte("header kernel")))
	for _, c := range []struct {
		name, header, kernel, ptx string
		ok                        bool
	}{
		{"current", "header ", "kernel", current, true},
		{"another kernel", "header ", "other", current, false},
		{"another header", "other ", "kernel", current, false},
		{"names none", "header ", "kernel", ".version 8.0\n", false},
		{"empty", "header ", "kernel", "", false},
	} {
		folder := fstest.MapFS{"a.cuh": {Data: []byte(c.header)}, "k.cu": {Data: []byte(c.kernel)},
			"ptx/k.ptx": {Data: []byte(c.ptx)}}
		if err := StalePTX(folder, "k"); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	folder := fstest.MapFS{"k.cu": {Data: []byte("kernel")}, "ptx/k.ptx": {Data: []byte(current)}}
	for text, ok := range map[string]bool{"header ": true, "other ": false} {
		if err := StalePTX(folder, "k", fstest.MapFS{"a.cuh": {Data: []byte(text)}}); (err == nil) != ok {
			t.Errorf("includes %q: %v", text, err)
		}
	}
	if StalePTX(fstest.MapFS{}, "k") == nil {
		t.Error("a missing file passes")
	}
}
