// Package dynlib opens C libraries at run time and calls their functions without cgo, so that one
// binary works on machines with and without them.
//
// The package that uses a library knows its prototypes and the rules for arguments. If a library
// is missing, Open returns an error that lists the files it tried; there is no fallback. In a
// binary built with the tag nodl, Open always fails.
package dynlib

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
)

// Spec describes a library and where to find it.
type Spec struct {
	Name    string   // as users know it: "METIS"
	Sonames []string // tried in this order
	Env     string   // environment variable with the file to open instead
	Hint    string   // how to install it, for errors
	// Folders lists where to look for the sonames if the loader of the system does not find
	// them. They are patterns for filepath.Glob that may begin with a variable, such as
	// $HOME/lib. If the variable is a list, such as $PATH, each of its parts is tried.
	Folders []string
	// Version reads the version from the library. It is nil if the library has no such function.
	Version func(*Library) (string, error)
}

// Libraries is the registry of libraries that packages of this program may open.
// `kernbench doctor` looks for each of them.
var Libraries = registry.New("library", func(s Spec) registry.Entry {
	return registry.Entry{Name: s.Name, Help: s.Hint}
})

// Register adds a library to Libraries and returns its spec, for use in a variable declaration.
func Register(s Spec) Spec {
	Libraries.Register(s)
	return s
}

// Library is an open library. It stays open until the process ends, because functions of it may
// still be in use.
type Library struct {
	name, path, version string
	handle              uintptr
}

// Func is the address of a C function.
type Func uintptr

// ErrNoLoader is the error of Open in a binary that was built without a loader.
var ErrNoLoader = errors.New("this static build of kernbench cannot load C libraries: use the build for glibc, " +
	"kernbench-VERSION-linux-ARCH")

// Program finds a program like Open finds a library: the file in the environment variable, or
// else the named program on the path.
func Program(variable, name string) (string, error) {
	if file := os.Getenv(variable); file != "" {
		name = file
	}
	return exec.LookPath(name)
}

// Open loads a library. If the environment variable is set, only its file is tried.
func Open(s Spec) (*Library, error) {
	if !HasLoader { // installing the library or naming its file would not help
		return nil, &OpenError{fmt.Errorf("opening %s: %w", s.Name, ErrNoLoader)}
	}
	names := slices.Concat(s.Sonames, s.inFolders(os.Getenv))
	if file := os.Getenv(s.Env); s.Env != "" && file != "" {
		names = []string{file}
	}
	var faults []error
	for _, name := range names {
		handle, err := load(name)
		if err == nil {
			return &Library{name: s.Name, path: name, handle: handle}, nil
		}
		faults = append(faults, err)
	}
	err := fmt.Errorf("opening %s: %w", s.Name, errors.Join(faults...))
	if len(s.Folders) > 0 && len(faults) == len(s.Sonames) {
		err = fmt.Errorf("%w, nor in %d folders such as %s", err, len(s.Folders), s.Folders[0])
	}
	if s.Hint != "" || s.Env != "" {
		err = fmt.Errorf("%w (%s)", err, hint(s))
	}
	return nil, &OpenError{err}
}

// inFolders returns the files found in the folders. The matches of a pattern are in reverse
// order, so that the highest version comes first.
func (s Spec) inFolders(getenv func(string) string) (files []string) {
	for _, soname := range s.Sonames {
		for _, pattern := range s.Folders {
			for _, root := range expand(pattern, getenv) {
				found, _ := filepath.Glob(filepath.Join(root, soname)) // the only error is a malformed pattern
				slices.Reverse(found)
				files = append(files, found...)
			}
		}
	}
	return files
}

// expand replaces a variable at the start of a pattern by each absolute path in it. The result is
// empty if the variable is not set.
func expand(pattern string, getenv func(string) string) (list []string) {
	rest, variable := strings.CutPrefix(pattern, "$")
	if !variable {
		return []string{pattern}
	}
	name, rest, _ := strings.Cut(rest, "/")
	for _, part := range filepath.SplitList(getenv(name)) {
		if filepath.IsAbs(part) {
			list = append(list, part+"/"+rest)
		}
	}
	return list
}

// OpenError is the error for a library that could not be opened.
type OpenError struct{ err error }

func (e *OpenError) Error() string { return e.err.Error() }

func (e *OpenError) Unwrap() error { return e.err }

func hint(s Spec) string {
	env := ""
	if s.Env != "" {
		env = s.Env + " may name its file"
	}
	return strings.Join(lists.NonEmpty(s.Hint, env), "; ")
}

// SetFile stores the path of the library. Open knows only the soname.
func (l *Library) SetFile(path string) {
	if path != "" {
		l.path = path
	}
}

// SetVersion stores the version, for String and errors.
func (l *Library) SetVersion(v string) { l.version = v }

// String returns name, version if known, and file of the library.
func (l *Library) String() string {
	if l.version == "" {
		return fmt.Sprintf("%s (%s)", l.name, l.path)
	}
	return fmt.Sprintf("%s %s (%s)", l.name, l.version, l.path)
}

// Symbol returns the address of a function or variable.
func (l *Library) Symbol(name string) (uintptr, error) {
	addr, err := lookup(l.handle, name)
	if err != nil {
		return 0, fmt.Errorf("%v has no %s: %w", l, name, err)
	}
	return addr, nil
}

// Bind looks up functions by name. The error lists all missing ones.
func (l *Library) Bind(funcs map[string]*Func) error {
	var faults []error
	for name, f := range funcs {
		addr, err := l.Symbol(name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		*f = Func(addr)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// FileOf returns the file that a function was loaded from, with links resolved, or "" if it is
// unknown.
func FileOf(f Func) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		var lo, hi, offset, inode uint64
		var mode, device, file string
		_, err := fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &lo, &hi, &mode, &offset, &device, &inode, &file)
		if err == nil && lo <= uint64(f) && uint64(f) < hi {
			return file
		}
	}
	return ""
}

// Bytes returns n bytes of C memory without copying. They are valid as long as C keeps them.
func Bytes(addr uintptr, n int) []byte {
	// The conversion goes through the address of the variable, because go vet takes a direct one
	// for arithmetic on a Go pointer.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}

// maxText is the largest length of a C string that String reads.
const maxText = 1024

// String copies a NUL-terminated C string. It returns "" for a null pointer.
func String(addr uintptr) string {
	if addr == 0 {
		return ""
	}
	n := 0
	for n < maxText && Bytes(addr, n+1)[n] != 0 {
		n++
	}
	return string(Bytes(addr, n))
}
