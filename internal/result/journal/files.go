package journal

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kernbench/kernbench/internal/base/infile"
)

// Subfolders of a RUN folder for the files that belong to rows.
const (
	samplesDir = "samples" // raw samples
	insideDir  = "inside"  // profiles of simulated kernels
)

// WriteFileAtomic writes data to path so that a reader sees either the old content or all
// of the new, even after a crash. A symbolic link at path is replaced and not followed,
// unless it leads to a pipe or a device such as /dev/stdout: then the data is written into
// that. The folder must exist. Files of a RUN folder are written with WriteIn.
func WriteFileAtomic(path string, data []byte) error {
	return WriteAtomic(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// WriteAtomic is WriteFileAtomic for content that a function writes in pieces.
func WriteAtomic(path string, content func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&(os.ModeCharDevice|os.ModeNamedPipe) != 0 {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(content(f), f.Close())
		}
		return writing(path, err)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return writing(path, err)
	}
	defer root.Close()
	return writing(path, writeBelow(root, filepath.Base(path), content))
}

// WriteIn is WriteAtomic for a file of the RUN folder dir. name is its path below dir, with slashes. WriteIn
// creates the folders on the way. It writes nothing outside dir: a symbolic link that leads out of dir is an
// error, and one at the name itself is replaced.
func WriteIn(dir, name string, content func(io.Writer) error) error {
	root, err := folderIn(dir, path.Dir(name))
	if err == nil {
		defer root.Close()
		err = writeBelow(root, filepath.FromSlash(name), content)
	}
	return writing(filepath.Join(dir, filepath.FromSlash(name)), err)
}

// MakeNewIn creates a folder of the RUN folder dir, and the folders on the way. The error is fs.ErrExist if it
// exists already.
func MakeNewIn(dir, name string) error {
	root, err := folderIn(dir, path.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Mkdir(filepath.FromSlash(name), 0o755)
}

// folderIn opens the RUN folder dir and creates the folder name below it, unless they exist.
func folderIn(dir, name string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := root.MkdirAll(filepath.FromSlash(name), 0o777); err != nil {
		root.Close()
		return nil, fmt.Errorf("the folder %s: %w", name, infile.Escapes(err))
	}
	return root, nil
}

// writing adds the name of the file to an error, in place of the names of the steps.
func writing(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing %s: %w", path, cause(err))
}

// cause returns an error without the name of the temporary file, which means nothing to a user.
func cause(err error) error {
	var of *fs.PathError
	var renamed *os.LinkError
	switch {
	case errors.As(err, &of) && strings.Contains(of.Path, tempPrefix):
		return of.Err
	case errors.As(err, &renamed) && strings.Contains(renamed.Old, tempPrefix):
		return renamed.Err
	}
	return err
}

// tempPrefix begins the names of temporary files.
const tempPrefix = ".kernbench-"

// writeBelow writes a file of a folder.
func writeBelow(root *os.Root, name string, content func(io.Writer) error) error {
	// The temporary name is random, so that two writers never share it, and hidden, so that
	// a file left by a killed process is not taken for a result. os.CreateTemp is no
	// alternative: it creates files with mode 0600 instead of following the umask.
	dir := filepath.Dir(name)
	temp := filepath.Join(dir, tempPrefix+rand.Text()[:16]+".tmp")
	if err := writeSynced(root, temp, content); err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		_ = root.Remove(temp)
		return err
	}
	d, err := root.Open(dir)
	if err == nil {
		err = errors.Join(syncFolder(d), d.Close())
	}
	if err != nil {
		return fmt.Errorf("the file is in place but may not survive a power failure: %w", cause(err))
	}
	return nil
}

// writeSynced creates a file and syncs it to disk. After an error it leaves no file.
func writeSynced(root *os.Root, name string, content func(io.Writer) error) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<16)
	for _, step := range []func() error{func() error { return content(b) }, b.Flush, f.Sync} {
		if err = step(); err != nil {
			break
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = root.Remove(name)
	}
	return err
}

// syncDir syncs a folder, so that the names of new files survive a power failure. File
// systems that cannot sync folders return EINVAL, which is ignored.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncFolder(d)
}

func syncFolder(d *os.File) error {
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// WriteRaw stores the raw samples of a row in the RUN folder dir. name is the plain file
// name stored in Row.Raw. An existing file of that name is replaced.
func WriteRaw(dir, name string, data []byte) error { return writeRowFile(dir, samplesDir, name, data) }

// ReadRaw returns what WriteRaw stored.
func ReadRaw(dir, name string) ([]byte, error) {
	return readRowFile(dir, samplesDir, name, maxRaw)
}

// WriteInside stores the kernel profile of a row under the name stored in Row.Inside.
func WriteInside(dir, name string, data []byte) error {
	return writeRowFile(dir, insideDir, name, data)
}

// ReadInside returns what WriteInside stored. It refuses files of more than most bytes.
func ReadInside(dir, name string, most int64) ([]byte, error) {
	return readRowFile(dir, insideDir, name, most)
}

// maxRaw limits the raw samples of a row, in bytes: a file in a RUN folder of somebody else may
// have any size.
const maxRaw = 256 << 20

func writeRowFile(dir, folder, name string, data []byte) error {
	if err := checkRowFile(folder, name); err != nil {
		return err
	}
	return WriteIn(dir, folder+"/"+name, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// readRowFile reads a file that a row names. A journal may come from somebody else: links that
// lead out of the folder, pipes, devices and files of more than most bytes are refused.
func readRowFile(dir, folder, name string, most int64) ([]byte, error) {
	if err := checkRowFile(folder, name); err != nil {
		return nil, fmt.Errorf("reading %w", err)
	}
	data, err := infile.ReadBelow(dir, filepath.Join(folder, name), most)
	if err != nil {
		return nil, fmt.Errorf("reading a file of a row: %w", err)
	}
	return data, nil
}

// checkRowFile refuses names that lead out of the folder, since a journal may come from somebody
// else.
func checkRowFile(folder, name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%s/%q: want a plain file name that does not start with a dot", folder, name)
	}
	return nil
}
