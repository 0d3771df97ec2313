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

// WriteFileAtomic writes data to path. A reader sees either the old content or all of the new content,
// even after a crash. A symbolic link at path is replaced and not followed. If path is a pipe or a
// device such as /dev/stdout, the data is written to it. The folder must exist. Use WriteIn for files of
// a RUN folder.
func WriteFileAtomic(path string, data []byte) error {
	return WriteAtomic(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// WriteAtomic is like WriteFileAtomic, for content that a function writes in pieces.
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

// WriteIn is like WriteAtomic, for a file of the RUN folder dir. name is its path below dir, with slashes.
// WriteIn creates missing folders. It writes nothing outside dir: a folder that is a symbolic link out of
// dir is an error, and a symbolic link in place of the file itself is replaced.
func WriteIn(dir, name string, content func(io.Writer) error) error {
	root, err := folderIn(dir, path.Dir(name))
	if err == nil {
		defer root.Close()
		err = writeBelow(root, filepath.FromSlash(name), content)
	}
	return writing(filepath.Join(dir, filepath.FromSlash(name)), err)
}

// MakeNewIn creates a folder below the RUN folder dir, and its missing parents. The error is fs.ErrExist if the
// folder already exists.
func MakeNewIn(dir, name string) error {
	root, err := folderIn(dir, path.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Mkdir(filepath.FromSlash(name), 0o755)
}

// folderIn opens the RUN folder dir. It creates dir, and the folder name below it, if they do not exist.
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

// writing returns the error of writing path. It names the file instead of the steps that writing takes.
func writing(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing %s: %w", path, cause(err))
}

// cause returns an error without the name of the temporary file, which would confuse a user.
func cause(err error) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr) && strings.Contains(pathErr.Path, tempPrefix):
		return pathErr.Err
	case errors.As(err, &linkErr) && strings.Contains(linkErr.Old, tempPrefix):
		return linkErr.Err
	}
	return err
}

// tempPrefix begins the names of temporary files.
const tempPrefix = ".kernbench-"

// writeBelow writes a file below root by renaming a temporary file in the same folder.
func writeBelow(root *os.Root, name string, content func(io.Writer) error) error {
	// The temporary name is random, so that two writers never use the same one. It is hidden, so that a
	// file left behind by a killed process is not taken for a result. os.CreateTemp is not used because
	// it creates files with mode 0600 instead of following the umask.
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

// maxRaw is the largest file of raw samples that is read, in bytes. The RUN folder may come from somebody
// else, so the file may have any size.
const maxRaw = 256 << 20

func writeRowFile(dir, folder, name string, data []byte) error {
	if err := checkRowFile(folder, name); err != nil {
		return err
	}
	return WriteIn(dir, folder+"/"+name, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// readRowFile reads a file that a row names. The journal may come from somebody else, so readRowFile
// refuses links that lead out of the folder, pipes, devices, and files of more than most bytes.
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

// checkRowFile returns an error for a name that could lead out of the folder. The journal may come from
// somebody else.
func checkRowFile(folder, name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%s/%q: want a plain file name that does not start with a dot", folder, name)
	}
	return nil
}
