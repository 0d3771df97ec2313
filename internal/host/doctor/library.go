package doctor

import (
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// Libraries lists those of C that some backend or peer uses: MPI's, then those that packages declare.
func Libraries() []dynlib.Spec {
	return append([]dynlib.Spec{
		{Name: "Open MPI", Sonames: []string{"libmpi.so.40"}, Hint: "Debian: libopenmpi3", Version: mpiVersion},
		{Name: "MPICH", Sonames: []string{"libmpich.so.12", "libmpi.so.12"}, Hint: "Debian: libmpich12", Version: mpiVersion},
	}, dynlib.Libraries.All()...)
}

// openLibrary loads a library into this process and asks its version.
func openLibrary(l dynlib.Spec) (string, error) {
	lib, err := dynlib.Open(l)
	if err != nil {
		return "", err
	}
	if l.Version != nil {
		v, err := l.Version(lib)
		if err != nil {
			return "", err
		}
		lib.SetVersion(v)
	}
	return lib.String(), nil
}

func mpiVersion(lib *dynlib.Library) (string, error) {
	const name = "MPI_Get_library_version"
	var f dynlib.Func
	if err := lib.Bind(map[string]*dynlib.Func{name: &f}); err != nil {
		return "", err
	}
	text, length := make([]byte, 8192), new(int32) // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is smaller
	if code := int32(f.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(length)))); code != 0 {
		return "", fmt.Errorf("%s returned %d", name, code)
	}
	return version(string(text[:max(0, min(int(*length), len(text)))])), nil
}
