// Package dynlib opens C libraries at run time and calls their functions
// without cgo, so that one binary serves machines with and without them.
//
// It knows no library: the prototypes, and what must be true of the arguments,
// belong to the package that uses the library. It never falls back to another
// library or to nothing; what is missing is an error that says what was
// tried. A binary built with the tag nodl has no dynamic loader, and every Open
// says so.
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

	"github.com/kernbench/kernbench/internal/base/registry"
)

// Spec says which library is wanted.
type Spec struct {
	Name    string   // as people call it: "METIS"
	Sonames []string // tried in this order
	Env     string   // a variable that names the file to open instead
	Hint    string   // how to get it, for the error
	// Folders are where else to look for the sonames, if the system's loader does not
	// find them: patterns as of filepath.Glob that may begin with a variable, such as
	// $HOME/lib. Of a variable that is a list, such as $PATH, every part is tried.
	Folders []string
	// Version asks the library for its version; nil where it cannot tell.
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

// Library is an open library. It stays open until the process ends: code that
// was handed out cannot be taken back safely.
type Library struct {
	name, path, version string
	handle              uintptr
}

// Func is the address of a C function.
type Func uintptr

// ErrNoLoader is the error of a binary that was built without a loader.
var ErrNoLoader = errors.New("this binary was built without a dynamic loader (tag nodl)")

// Program finds a program that does what a library would: the file that the variable names,
// and where it names none the one of that name on the path.
func Program(variable, name string) (string, error) {
	if file := os.Getenv(variable); file != "" {
		name = file
	}
	return exec.LookPath(name)
}

// Open loads the library. When the variable is set, its file alone is tried:
// a user who names a file does not want another one.
func Open(s Spec) (*Library, error) {
	names := slices.Concat(s.Sonames, s.elsewhere(os.Getenv))
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
		if errors.Is(err, ErrNoLoader) {
			break
		}
	}
	err := fmt.Errorf("opening %s: %w", s.Name, errors.Join(faults...))
	if len(s.Folders) > 0 && len(faults) == len(s.Sonames) {
		err = fmt.Errorf("%w, nor in %d folders such as %s", err, len(s.Folders), s.Folders[0])
	}
	if s.Hint != "" || s.Env != "" {
		err = fmt.Errorf("%w (%s)", err, advice(s))
	}
	return nil, &OpenError{err}
}

// elsewhere lists the files in the folders, of each pattern the last in order first:
// that of the highest version.
func (s Spec) elsewhere(getenv func(string) string) (files []string) {
	for _, soname := range s.Sonames {
		for _, pattern := range s.Folders {
			for _, root := range expand(pattern, getenv) {
				found, _ := filepath.Glob(filepath.Join(root, soname)) // only a bad pattern is an error
				slices.Reverse(found)
				files = append(files, found...)
			}
		}
	}
	return files
}

// expand replaces the variable that a pattern begins with by each of its parts; none
// is left where it is not set.
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

// OpenError is the error of a library that could not be opened.
type OpenError struct{ err error }

func (e *OpenError) Error() string { return e.err.Error() }

func (e *OpenError) Unwrap() error { return e.err }

func advice(s Spec) string {
	var parts []string
	if s.Hint != "" {
		parts = append(parts, s.Hint)
	}
	if s.Env != "" {
		parts = append(parts, s.Env+" may name its file")
	}
	return strings.Join(parts, "; ")
}

// SetFile notes where the library was found, where Open knows only its soname.
func (l *Library) SetFile(path string) {
	if path != "" {
		l.path = path
	}
}

// SetVersion notes what the library said of itself, for later errors.
func (l *Library) SetVersion(v string) { l.version = v }

// String is the library's name, version where known, and file.
func (l *Library) String() string {
	if l.version == "" {
		return fmt.Sprintf("%s (%s)", l.name, l.path)
	}
	return fmt.Sprintf("%s %s (%s)", l.name, l.version, l.path)
}

// Symbol gives the address of a function or of data.
func (l *Library) Symbol(name string) (uintptr, error) {
	addr, err := lookup(l.handle, name)
	if err != nil {
		return 0, fmt.Errorf("%v has no %s: %w", l, name, err)
	}
	return addr, nil
}

// Bind fills in functions by name and reports every missing one.
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

// FileOf is the file that a function was loaded from, links followed; "" where the
// system does not tell.
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

// Bytes views n bytes at an address that C gave, for as long as C keeps them.
func Bytes(addr uintptr, n int) []byte {
	// By way of the variable's own address: to the compiler a plain conversion
	// looks like arithmetic on a Go pointer.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}

// mostText is how much of a text of C is read.
const mostText = 1024

// String copies a text that C gave, "" where it gave none.
func String(addr uintptr) string {
	if addr == 0 {
		return ""
	}
	n := 0
	for n < mostText && Bytes(addr, n+1)[n] != 0 {
		n++
	}
	return string(Bytes(addr, n))
}
