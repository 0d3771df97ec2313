package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// samplesDir is where raw samples lie inside a RUN folder.
const samplesDir = "samples"

// WriteFileAtomic puts data at path so that a reader sees either the former
// content or all of the new one, also after a crash. A symbolic link at path is
// replaced, not followed. The folder must exist.
func WriteFileAtomic(path string, data []byte) error {
	// The name is random so that two writers never share it, and hidden so that
	// one left by a killed process is not taken for a result. os.CreateTemp
	// would give the file mode 0600; results are for everyone the umask allows.
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, ".kernbench-"+rand.Text()[:16]+".tmp")
	if err := writeSynced(temp, data); err != nil {
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

// writeSynced makes a new file of data on the disk, or leaves none.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
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
func WriteRaw(dir, name string, data []byte) error {
	path, err := rawPath(dir, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing raw samples: %w", err)
	}
	return WriteFileAtomic(path, data)
}

// ReadRaw returns what WriteRaw stored.
func ReadRaw(dir, name string) ([]byte, error) {
	path, err := rawPath(dir, name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading raw samples: %w", err)
	}
	return data, nil
}

// rawPath keeps names inside samples/: they also come from journals that
// somebody else wrote.
func rawPath(dir, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
		return "", fmt.Errorf("raw samples %q: want a plain file name that does not start with a dot", name)
	}
	return filepath.Join(dir, samplesDir, name), nil
}
