package dynlib

import (
	"fmt"
	"strings"
	"unsafe"
)

// MPIVersion asks an MPI library for its version string, which is allowed before MPI_Init:
//
//	int MPI_Get_library_version(char *version, int *resultlen)
func (l *Library) MPIVersion() (string, error) {
	const name, maxLength = "MPI_Get_library_version", 8192 // MPICH's MPI_MAX_LIBRARY_VERSION_STRING; Open MPI's is 256
	var f Func
	if err := l.Bind(map[string]*Func{name: &f}); err != nil {
		return "", err
	}
	text, length := make([]byte, maxLength), new(int32)
	if code := int32(f.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(length)))); code != 0 {
		return "", fmt.Errorf("%v: %s returned %d", l, name, code)
	}
	return strings.TrimRight(string(text[:max(0, min(int(*length), maxLength))]), "\x00\n"), nil
}
