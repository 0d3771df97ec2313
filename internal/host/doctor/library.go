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

// Libraries lists them: those of MPI and NCCL, then those that plug-ins declare.
func Libraries() []Library {
	all := []Library{
		{Spec: dynlib.Spec{Name: "Open MPI", Sonames: []string{"libmpi.so.40"}, Hint: "Debian: libopenmpi3"},
			text: "MPI_Get_library_version"},
		{Spec: dynlib.Spec{Name: "MPICH", Sonames: []string{"libmpich.so.12", "libmpi.so.12"}, Hint: "Debian: libmpich12"},
			text: "MPI_Get_library_version"},
		{Spec: dynlib.Spec{Name: "NCCL", Sonames: []string{"libnccl.so.2"}}, number: "ncclGetVersion"},
	}
	for _, s := range dynlib.Declared() {
		all = append(all, Library{Spec: s})
	}
	return all
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
