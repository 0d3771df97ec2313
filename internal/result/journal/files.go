package journal

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Subfolders of a RUN folder for the files that belong to rows.
const (
	samplesDir = "samples" // raw samples
	insideDir  = "inside"  // profiles of simulated kernels
)

// WriteFileAtomic writes data to path so that a reader sees either the old content or all
// of the new, even after a crash. A symbolic link at path is replaced and not followed,
// unless it leads to a pipe or a device such as /dev/stdout: then the data is written into
// that. The folder must exist.
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
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		return nil
	}
	// The temporary name is random, so that two writers never share it, and hidden, so that
	// a file left by a killed process is not taken for a result. os.CreateTemp is no
	// alternative: it creates files with mode 0600 instead of following the umask.
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, ".kernbench-"+rand.Text()[:16]+".tmp")
	if err := writeSynced(temp, content); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("writing %s: the file is in place but may not survive a power failure: %w", path, err)
	}
	return nil
}

// writeSynced creates a file and syncs it to disk. After an error it leaves no file.
func writeSynced(path string, content func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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
		os.Remove(path)
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
	path, err := Inside(dir, folder+"/"+name)
	if err != nil {
		return err
	}
	return WriteFileAtomic(path, data)
}

// Inside returns the path of a file of a RUN folder and creates the folders on the way. A folder
// that is a symbolic link to somewhere outside is an error, so that nothing is written there.
func Inside(dir, name string) (string, error) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(dir); err == nil {
			defer root.Close()
			err = root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o777)
		}
	}
	if err != nil && strings.Contains(err.Error(), "path escapes from parent") { // os.Root has no error value for it
		err = fmt.Errorf("no link may lead out of the folder: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	return path, nil
}

// readRowFile reads a file that a row names. A journal may come from somebody else: links that
// lead out of the folder, pipes, devices and files of more than most bytes are refused.
func readRowFile(dir, folder, name string, most int64) ([]byte, error) {
	data, err := func() ([]byte, error) {
		if err := checkRowFile(folder, name); err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		f, err := root.OpenFile(filepath.Join(folder, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
			return nil, fmt.Errorf("want a plain file of at most %d bytes", most)
		}
		return io.ReadAll(io.LimitReader(f, most))
	}()
	if err != nil {
		return nil, fmt.Errorf("reading %s/%s: %w", folder, name, err)
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
