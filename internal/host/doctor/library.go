package doctor

import (
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// Library is a C library that some backend or peer uses.
type Library struct {
	dynlib.Spec
	text   string // a function (char *text, int *length) that tells the version
	number string // a function (int *version) that does
}

// Libraries lists them.
func Libraries() []Library {
	return []Library{
		{Spec: dynlib.Spec{Name: "Open MPI", Sonames: []string{"libmpi.so.40"}, Hint: "Debian: libopenmpi3"}, text: "MPI_Get_library_version"},
		{Spec: dynlib.Spec{Name: "MPICH", Sonames: []string{"libmpich.so.12", "libmpi.so.12"}, Hint: "Debian: libmpich12"}, text: "MPI_Get_library_version"},
		{Spec: dynlib.Spec{Name: "NCCL", Sonames: []string{"libnccl.so.2"}}, number: "ncclGetVersion"},
		{Spec: dynlib.Spec{Name: "CUDA driver", Sonames: []string{"libcuda.so.1"}, Hint: "it comes with NVIDIA's kernel driver"}, number: "cuDriverGetVersion"},
		{Spec: dynlib.Spec{Name: "METIS", Sonames: []string{"libmetis.so.5", "libmetis.so"}, Hint: "Debian: libmetis5"}},
		{Spec: dynlib.Spec{Name: "OpenBLAS", Sonames: []string{"libopenblas.so.0", "libopenblas.so"}, Hint: "Debian: libopenblas0-pthread"}},
	}
}

// openLibrary loads a library into this process and asks its version.
func openLibrary(l Library) (string, error) {
	lib, err := dynlib.Open(l.Spec)
	if err != nil {
		return "", err
	}
	var f dynlib.Func
	switch {
	case l.text != "":
		if err := lib.Bind(map[string]*dynlib.Func{l.text: &f}); err != nil {
			return "", err
		}
		var text [8192]byte // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is smaller
		var length int32
		if code := int32(f.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&length)))); code != 0 {
			return "", fmt.Errorf("%s returned %d", l.text, code)
		}
		lib.SetVersion(version(string(text[:max(0, min(int(length), len(text)))])))
	case l.number != "":
		if err := lib.Bind(map[string]*dynlib.Func{l.number: &f}); err != nil {
			return "", err
		}
		var version int32
		if code := int32(f.Call(uintptr(unsafe.Pointer(&version)))); code != 0 {
			return "", fmt.Errorf("%s returned %d", l.number, code)
		}
		lib.SetVersion(fmt.Sprint(version))
	}
	return lib.String(), nil
}
