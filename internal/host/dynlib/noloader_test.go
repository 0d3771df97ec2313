//go:build nodl || !linux

package dynlib

import (
	"errors"
	"testing"
)

func TestNoLoader(t *testing.T) {
	_, err := Open(Spec{Name: "METIS", Sonames: []string{"libmetis.so.5"}, Env: "KERNBENCH_METIS",
		Hint: "Debian: libmetis5", Folders: []string{"$HOME/lib"}})
	const want = "opening METIS: this static build of kernbench cannot load C libraries: use the build for glibc, " +
		"kernbench-VERSION-linux-ARCH"
	if !errors.Is(err, ErrNoLoader) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
