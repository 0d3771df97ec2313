// Package mpi calls the C interface of Open MPI and MPICH without cgo. It opens the library of the launcher that
// started this process, recognises the family (Open MPI or MPICH) by the library's version string, and refuses any
// other library.
//
// The two families have the same functions but different binary interfaces. Handles are addresses of the library's data
// in Open MPI and numbers in MPICH. This package hides that difference and nothing else. MPI's rules still apply: which
// thread may call when, and that the memory of an unfinished call must stay in place. The package does not check its
// arguments and has no process groups; see dist/mpi.
package mpi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/jobenv"
)

// EnvLibrary names the environment variable with the file to open instead of the launcher's library.
const EnvLibrary = "KERNBENCH_MPI_LIB"

// Family is one of the two binary interfaces.
type Family string

// The families.
const (
	OpenMPI Family = "Open MPI"
	MPICH   Family = "MPICH"
)

// sonames lists the names under which each family is installed. The first that opens is used.
var sonames = map[Family][]string{
	OpenMPI: {"libmpi.so.40"},
	MPICH:   {"libmpich.so.12", "libmpi.so.12"},
}

var hints = map[Family]string{OpenMPI: "Debian: openmpi-bin", MPICH: "Debian: mpich"}

// Library is an open MPI library.
type Library struct {
	Family  Family
	Version string // "4.1.4"
	// SignedBytes means that the library compares unsigned bytes as if they had a sign, so Init has replaced its min and
	// max of u8.
	SignedBytes bool

	constants
	functions map[string]*dynlib.Func // by name
	// The types and operations that Init creates.
	ownTypes []dtype.DType
	ownOps   map[combination]Op
}

// String returns the library's name and version, and which of its operations are replaced.
func (l *Library) String() string {
	text := string(l.Family) + " " + l.Version
	if l.SignedBytes {
		text += " (min and max of u8 by kernbench, because the library's are wrong)"
	}
	return text
}

// Open opens the library that fits the environment.
func Open(environ []string) (*Library, error) {
	defer keepSignals()()
	var faults []error
	for _, f := range candidateFamilies(environ) {
		lib, err := dynlib.Open(dynlib.Spec{Name: string(f), Sonames: sonames[f], Env: EnvLibrary, Hint: hints[f]})
		if err == nil {
			return bind(lib)
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// candidateFamilies returns the families to try, the preferred one first. If a launcher of MPI started this process,
// that is only the launcher's family. Its environment variables identify it even if it started only one rank, or was
// itself started by srun. Without a launcher, every process is a world of its own, and either family will do.
func candidateFamilies(environ []string) []Family {
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

// bind recognises the library and looks up its functions and constants.
func bind(lib *dynlib.Library) (*Library, error) {
	text, err := lib.MPIVersion()
	if err != nil {
		return nil, err
	}
	l := &Library{functions: map[string]*dynlib.Func{}}
	if l.Family, l.Version, err = recognise(text); err != nil {
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

// known lists the releases with the binary interface that is bound here: Open MPI with the soname
// libmpi.so.40, and MPICH releases of the MPICH ABI initiative.
var known = []struct {
	family      Family
	says        *regexp.Regexp
	first, last int
}{
	{OpenMPI, regexp.MustCompile(`^Open MPI v((\d+)\.[^,\s]+)`), 3, 5},
	{MPICH, regexp.MustCompile(`^MPICH Version:\s*((\d+)\.\S+)`), 3, 4},
}

// recognise parses a library's version string.
func recognise(version string) (Family, string, error) {
	for _, k := range known {
		m := k.says.FindStringSubmatch(version)
		if m == nil {
			continue
		}
		if major, _ := strconv.Atoi(m[2]); major < k.first || major > k.last {
			return "", "", fmt.Errorf("%s %s: only versions %d to %d are supported", k.family, m[1], k.first, k.last)
		}
		return k.family, m[1], nil
	}
	first, _, _ := strings.Cut(version, "\n")
	return "", "", fmt.Errorf("this is neither Open MPI nor MPICH: it calls itself %q", first)
}

// Error is a failed MPI call.
type Error struct {
	Call string
	Text string
}

func (e *Error) Error() string { return e.Call + ": " + e.Text }

// check turns an error code into an error with the library's own text:
//
//	int MPI_Error_string(int errorcode, char *string, int *resultlen)
func (l *Library) check(call string, code uintptr) error {
	if int32(code) == 0 {
		return nil
	}
	const maxLength = 1024 // MPI_MAX_ERROR_STRING is 256 and 512
	text, length := make([]byte, maxLength), new(int32)
	l.functions["MPI_Error_string"].Call(uintptr(uint32(code)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(unsafe.Pointer(length)))
	return &Error{call, strings.TrimSpace(string(text[:max(0, min(int(*length), maxLength))]))}
}
