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

// Where the files of rows lie inside a RUN folder: raw samples, and what was seen inside kernels.
const (
	samplesDir = "samples"
	insideDir  = "inside"
)

// WriteFileAtomic puts data at path so that a reader sees either the former
// content or all of the new one, also after a crash. A symbolic link at path is
// replaced, not followed, unless it leads to a pipe or a device such as /dev/stdout or
// /dev/null: these get the data, and stay. The folder must exist.
func WriteFileAtomic(path string, data []byte) error {
	return WriteAtomic(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// WriteAtomic is WriteFileAtomic for content that is written piece by piece.
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
	// The name is random so that two writers never share it, and hidden so that
	// one left by a killed process is not taken for a result. os.CreateTemp
	// would give the file mode 0600; results are for everyone the umask allows.
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
		return fmt.Errorf("writing %s: it is in place but may not outlive a power failure: %w", path, err)
	}
	return nil
}

// writeSynced makes a new file on the disk, or leaves none.
func writeSynced(path string, content func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<16)
	err = content(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// syncDir makes the names in a folder durable. File systems that cannot do so
// for folders answer EINVAL, and there is nothing better to do on them.
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

// WriteRaw stores the raw samples of a row in the RUN folder dir, under the
// plain file name that Row.Raw then holds. A file of that name is replaced.
func WriteRaw(dir, name string, data []byte) error { return writeBeside(dir, samplesDir, name, data) }

// WriteInside does the same for what was seen inside a row's kernel, and Row.Inside.
func WriteInside(dir, name string, data []byte) error { return writeBeside(dir, insideDir, name, data) }

func writeBeside(dir, folder, name string, data []byte) error {
	path, err := pathBeside(dir, folder, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s/%s: %w", folder, name, err)
	}
	return WriteFileAtomic(path, data)
}

// ReadRaw returns what WriteRaw stored.
func ReadRaw(dir, name string) ([]byte, error) {
	path, err := pathBeside(dir, samplesDir, name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading raw samples: %w", err)
	}
	return data, nil
}

// ReadInside returns what WriteInside stored, if it is a plain file of at most so many bytes.
func ReadInside(dir, name string, most int64) ([]byte, error) {
	path, err := pathBeside(dir, insideDir, name)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		err = fmt.Errorf("%s is not a plain file of at most %d bytes", path, most)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was seen inside a kernel: %w", err)
	}
	return data, nil
}

// pathBeside keeps names inside their folder: they also come from journals that
// somebody else wrote.
func pathBeside(dir, folder, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
		return "", fmt.Errorf("%s/%q: want a plain file name that does not start with a dot", folder, name)
	}
	return filepath.Join(dir, folder, name), nil
}
