package python

import (
	"archive/zip"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

//go:embed kernbench/*.py kernbench/py.typed kernbench_iris.py kernbench_file.py
var files embed.FS

// Module is the source of the package's main file. `kernbench python` prints it, for editors and type
// checkers.
var Module = string(Sources()["__init__.py"])

// Sources returns the files of the Python package kernbench by name.
func Sources() map[string][]byte { return sources("kernbench") }

// TopLevel returns the modules beside the package: one resolves imports of iris.bench, the other lets
// processes that a bench spawns import its file.
func TopLevel() map[string][]byte { return sources(".") }

func sources(folder string) map[string][]byte {
	found := map[string][]byte{}
	entries, err := files.ReadDir(folder)
	for _, e := range entries {
		if err == nil && !e.IsDir() {
			found[e.Name()], err = files.ReadFile(path.Join(folder, e.Name()))
		}
	}
	if err != nil {
		panic(err) // the files are part of this program
	}
	return found
}

// archive returns a file in memory with all modules as a zip archive, from which Python imports.
// Nothing needs to be installed or written. The archive is not compressed, because interpreters may
// lack zlib.
var archive = sync.OnceValues(func() (*os.File, error) {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return err
		}
		source, err := files.ReadFile(name)
		if err == nil {
			_, err = entry.Write(source)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("packing the Python module: %w", err)
	}
	fd, err := unix.MemfdCreate("kernbench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file for the Python module: %w", err)
	}
	f := os.NewFile(uintptr(fd), "kernbench.zip")
	if _, err := f.Write(packed.Bytes()); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing the Python module: %w", err)
	}
	return f, nil
})

// bootstrap makes the modules of the archive importable. An installed package of the same name is not
// used. The path names this process, so that processes which the bench spawns find the archive too.
// The current folder, which -c puts first, is removed before anything is imported: only the script's
// folder and the interpreter's own path are searched, as for `python3 FILE.py`.
const bootstrap = `import sys
if sys.path and sys.path[0] == "": del sys.path[0]
if sys.version_info < (3, 8): sys.exit("kernbench needs Python 3.8 or later, this is %d.%d" % sys.version_info[:2])
import os
def start(fd):
    os.set_inheritable(fd, False)
    sys.path.insert(0, "/proc/%d/fd/%d" % (os.getpid(), fd))
    import kernbench
    return kernbench
`

// serve lets the interpreter answer requests, and runScript lets it run a file as `python3 FILE.py`
// does.
const (
	serve     = `start(4)._main(sys.argv[1])`
	runScript = `start(int(sys.argv.pop(1)))._script()`
)

// Exec replaces this process by an interpreter (default python3) that runs a file with arguments. The
// file can import kernbench and iris.bench. Exec returns only if that fails.
func Exec(interpreter, file string, args, environ []string) error {
	found, err := findInterpreter(interpreter)
	if err != nil {
		return err
	}
	f, err := archive()
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 3) // unlike the original, the interpreter inherits it
	if err != nil {
		return fmt.Errorf("passing the Python module: %w", err)
	}
	argv := append([]string{found, "-c", bootstrap + runScript, strconv.Itoa(fd), file}, args...)
	return fmt.Errorf("starting %s: %w", found, unix.Exec(found, argv, environ))
}
