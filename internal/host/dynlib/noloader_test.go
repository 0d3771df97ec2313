//go:build nodl || !linux

package dynlib

import (
	"errors"
	"testing"
)

func TestNoLoader(t *testing.T) {
	if _, err := Open(Spec{Name: "C library", Sonames: []string{"libc.so.6"}}); !errors.Is(err, ErrNoLoader) {
		t.Errorf("error %v, want ErrNoLoader", err)
	}
}
