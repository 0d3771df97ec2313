// Package mpi is the C interface of Open MPI and of MPICH, called without cgo:
// it opens the library of the launcher that started this process, tells the two
// apart by what the library says of itself, and refuses any other.
//
// The two have different binaries behind the same functions: handles are
// addresses of the library's own data in one and numbers in the other. That
// difference ends here. What remains is MPI with its rules: who may call when,
// and that memory given to a call that has not ended must stay where it is. It
// knows no groups and checks nothing; package dist/mpi does.
package mpi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// EnvLibrary names the variable that says which file to open instead of the one
// that fits the launcher.
const EnvLibrary = "KERNBENCH_MPI_LIB"

// Family is one of the two binary interfaces.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	MPICH   Family = "MPICH"
)

// The sonames under which each is installed, the first that opens is taken.
var sonames = map[Family][]string{
	OpenMPI: {"libmpi.so.40"},
	MPICH:   {"libmpich.so.12", "libmpi.so.12"},
}

var hints = map[Family]string{OpenMPI: "Debian: openmpi-bin", MPICH: "Debian: mpich"}

// Library is an open MPI library.
type Library struct {
	Family  Family
	Version string // "4.1.4"

	constants
	functions map[string]*dynlib.Func // by name
}

// String is the library's name with its version.
func (l *Library) String() string { return string(l.Family) + " " + l.Version }

// Open opens the library that fits the environment.
func Open(environ []string) (*Library, error) {
	defer keepSignals()()
	var faults []error
	for _, f := range wanted(environ) {
		lib, err := dynlib.Open(dynlib.Spec{Name: string(f), Sonames: sonames[f], Env: EnvLibrary, Hint: hints[f]})
		if err == nil {
			return bind(lib)
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// wanted is the family of the launcher that started this process. Its variables
// tell even where it has started only one rank, or was itself started by srun.
// Without a launcher every process is a world of its own, by either family.
func wanted(environ []string) []Family {
	if job, err := jobenv.Detect(environ); err == nil && job != nil {
		switch job.Launcher {
		case jobenv.OpenMPI:
			return []Family{OpenMPI}
		case jobenv.Hydra:
			return []Family{MPICH}
		}
	}
	env := jobenv.Variables(environ)
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, set := env[name]; return set })
	}
	switch {
	case has("OMPI_COMM_WORLD_SIZE", "PMIX_RANK"):
		return []Family{OpenMPI}
	case has("PMI_RANK", "PMI_FD"):
		return []Family{MPICH}
	}
	return []Family{OpenMPI, MPICH}
}

// bind finds out which library this is and looks up what it has.
func bind(lib *dynlib.Library) (*Library, error) {
	said, err := libraryVersion(lib)
	if err != nil {
		return nil, err
	}
	l := &Library{functions: map[string]*dynlib.Func{}}
	if l.Family, l.Version, err = recognise(said); err != nil {
		return nil, fmt.Errorf("%v: %w", lib, err)
	}
	lib.SetVersion(l.Version)
	for _, name := range names {
		l.functions[name] = new(dynlib.Func)
	}
	if err := lib.Bind(l.functions); err != nil {
		return nil, err
	}
	if l.constants, err = constantsOf(l.Family, lib.Symbol); err != nil {
		return nil, err
	}
	return l, nil
}

// libraryVersion asks the library, which may be done before MPI has started:
//
//	int MPI_Get_library_version(char *version, int *resultlen)
func libraryVersion(lib *dynlib.Library) (string, error) {
	const most = 8192 // MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is 256
	var f dynlib.Func
	if err := lib.Bind(map[string]*dynlib.Func{"MPI_Get_library_version": &f}); err != nil {
		return "", err
	}
	text, length := make([]byte, most), new(int32)
	if code := int32(f.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(length)))); code != 0 {
		return "", fmt.Errorf("%v: MPI_Get_library_version gave %d", lib, code)
	}
	return strings.TrimRight(string(text[:max(0, min(int(*length), most))]), "\x00\n"), nil
}

// known are the releases whose binary interface is the one bound here: of Open
// MPI those with the soname libmpi.so.40, of MPICH those of its ABI initiative.
var known = []struct {
	family      Family
	says        *regexp.Regexp
	first, last int
}{
	{OpenMPI, regexp.MustCompile(`^Open MPI v((\d+)\.[^,\s]+)`), 3, 5},
	{MPICH, regexp.MustCompile(`^MPICH Version:\s*((\d+)\.\S+)`), 3, 4},
}

// recognise reads what a library says of itself.
func recognise(said string) (Family, string, error) {
	for _, k := range known {
		m := k.says.FindStringSubmatch(said)
		if m == nil {
			continue
		}
		if major, _ := strconv.Atoi(m[2]); major < k.first || major > k.last {
			return "", "", fmt.Errorf("%s %s: only versions %d to %d are known here", k.family, m[1], k.first, k.last)
		}
		return k.family, m[1], nil
	}
	first, _, _ := strings.Cut(said, "\n")
	return "", "", fmt.Errorf("this is neither Open MPI nor MPICH: it calls itself %q", first)
}

// Error is what a call to MPI gave.
type Error struct {
	Call string
	Text string
}

func (e *Error) Error() string { return e.Call + ": " + e.Text }

// check makes an error of a code, in the library's own words:
//
//	int MPI_Error_string(int errorcode, char *string, int *resultlen)
func (l *Library) check(call string, code uintptr) error {
	if int32(code) == 0 {
		return nil
	}
	const most = 1024 // MPI_MAX_ERROR_STRING is 256 and 512
	text, length := make([]byte, most), new(int32)
	l.functions["MPI_Error_string"].Call(uintptr(uint32(code)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(unsafe.Pointer(length)))
	return &Error{call, strings.TrimSpace(string(text[:max(0, min(int(*length), most))]))}
}
