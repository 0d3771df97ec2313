// Package wheel writes a Python wheel that holds a kernbench program, the Python package, and the
// console script, so that `pip install` gives all of kernbench. A wheel is a zip archive with known
// metadata (PEP 427 and PEP 491); no Python is needed to write it.
package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Wheel describes a wheel.
type Wheel struct {
	Version  string // as [Version] returns it
	Program  string // path of the kernbench program
	Licences []byte // licences of everything that is linked into the program, or nil
}

// platforms are the platform tags by architecture. The programs import symbols of glibc without
// versions, so the oldest tag that pip knows in this form fits.
var platforms = map[elf.Machine]string{
	elf.EM_X86_64: "manylinux_2_17_x86_64", elf.EM_AARCH64: "manylinux_2_17_aarch64",
}

// pythonVersion matches the versions that Python tools can compare, as far as kernbench uses them.
var pythonVersion = regexp.MustCompile(`^\d+(\.\d+)*((a|b|rc)\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?$`)

// Version returns the version of a build in Python's form. Builds without a version are development
// builds of the next release.
func Version(b hostinfo.Build) string {
	if v := strings.TrimPrefix(b.Version, "v"); pythonVersion.MatchString(v) {
		return v
	}
	v := hostinfo.Number() + ".dev0"
	if b.Revision != "" {
		v += "+g" + b.Revision[:min(len(b.Revision), 12)]
	}
	return v
}

// Name returns the file name of the wheel, which depends on the architecture of the program.
func (w Wheel) Name() (string, error) {
	_, tag, err := w.read()
	return fmt.Sprintf("kernbench-%s-%s.whl", w.Version, tag), err
}

// read returns the program and its platform as a tag of wheels.
func (w Wheel) read() (program []byte, tag string, err error) {
	if program, err = infile.ReadRegular(w.Program, infile.Trace); err != nil {
		return nil, "", fmt.Errorf("making a wheel: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, "", fmt.Errorf("making a wheel: reading the program %s: %w", w.Program, err)
	}
	platform, known := platforms[f.Machine]
	if !known {
		return nil, "", fmt.Errorf("making a wheel: %s is a program for %v: there are wheels for x86-64 and AArch64",
			w.Program, f.Machine)
	}
	return program, "py3-none-" + platform, nil
}

// Write writes the wheel. Equal inputs give equal bytes.
func (w Wheel) Write(out io.Writer) error {
	program, tag, err := w.read()
	if err != nil {
		return err
	}
	info := fmt.Sprintf("kernbench-%s.dist-info/", w.Version)
	files := map[string][]byte{
		programPath:               program,
		"kernbench_iris.pth":      []byte(startup),
		info + "METADATA":         fmt.Appendf(nil, metadata, w.Version),
		info + "WHEEL":            fmt.Appendf(nil, wheelFile, tag),
		info + "entry_points.txt": []byte(entryPoints),
	}
	if w.Licences != nil {
		files[info+"licenses/THIRD_PARTY_NOTICES"] = w.Licences
	}
	for name, source := range python.Sources() {
		files["kernbench/"+name] = source
	}
	for name, source := range python.TopLevel() {
		files[name] = source
	}
	var record bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files[info+"RECORD"] = record.Bytes()
	return archive(out, files)
}

// programPath is the place of the program in the wheel. The Python package finds it there.
const programPath = "kernbench/bin/kernbench"

// startup is run at the start of every interpreter, so that `import iris.bench` means kernbench in files
// that use it, with or without an installed iris.
const startup = "import kernbench_iris; kernbench_iris.install()\n"

// The metadata files. The Python package itself needs nothing but the standard library.
const (
	metadata = `Metadata-Version: 2.1
Name: kernbench
Version: %s
Summary: How fast a distributed kernel is, whether its result is right, and how far it is from the limit
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Framework :: Pytest
Classifier: Typing :: Typed
`
	wheelFile = `Wheel-Version: 1.0
Generator: kernbench
Root-Is-Purelib: false
Tag: %s
`
	entryPoints = `[console_scripts]
kernbench = kernbench._command:main

[pytest11]
kernbench = kernbench._pytest
`
)

// archive writes the files in the order of their names, as the standard recommends metadata last.
func archive(out io.Writer, files map[string][]byte) error {
	names := slices.Sorted(maps.Keys(files))
	isInfo := func(name string) bool { return strings.Contains(name, ".dist-info/") }
	names = append(slices.DeleteFunc(slices.Clone(names), isInfo), lists.Filter(names, isInfo)...)
	z := zip.NewWriter(out)
	for _, name := range names {
		// The earliest date that a zip file can have makes the archive reproducible.
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(0o644)
		if name == programPath {
			h.SetMode(0o755)
		}
		entry, err := z.CreateHeader(h)
		if err == nil {
			_, err = entry.Write(files[name])
		}
		if err != nil {
			return fmt.Errorf("writing the wheel: %s: %w", name, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("writing the wheel: %w", err)
	}
	return nil
}
