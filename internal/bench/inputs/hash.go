package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
)

const (
	// hugeSize is the size in bytes from which a file is not hashed: hashing 1 GiB takes about 1.5 s.
	hugeSize = 1 << 30
	hugeText = "1 GiB"
	// settleTime is how old a change must be before a sum may be reused. A file can change
	// twice within one tick of the file system's clock.
	settleTime = 2 * time.Second
)

// stamp identifies a state of a file without reading it. It includes the time at which the inode changed,
// because a copy that preserves times sets the time of modification back.
type stamp struct {
	Device, Inode uint64
	Size          int64
	Modified      int64 // in nanoseconds
	Changed       int64 // in nanoseconds
}

func stampOf(info os.FileInfo) (st stamp, ok bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	return stamp{Device: uint64(sys.Dev), Inode: sys.Ino, Size: sys.Size, Modified: sys.Mtim.Nano(),
		Changed: sys.Ctim.Nano()}, true
}

// settled reports whether the file was last changed long enough ago.
func (st stamp) settled(now time.Time) bool {
	return now.UnixNano()-max(st.Modified, st.Changed) > int64(settleTime)
}

// hashFile returns the SHA-256 of a regular file. For a huge file it returns its size and time
// of change instead.
func hashFile(path string) (sum string, huge bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", false, err
	case !info.Mode().IsRegular(): // reading a pipe or a device might never end
		return "", false, fmt.Errorf("%s is not a regular file", path)
	case info.Size() >= hugeSize:
		return fmt.Sprintf("%d bytes, changed %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), true, nil
	}
	before, known := stampOf(info)
	if known {
		if sum, found := cached.Load(before); found {
			return sum.(string), false, nil
		}
	}
	const attempts = 3
	for range attempts {
		began := time.Now()
		sum, after, err := readSum(path)
		if err != nil {
			return "", false, err
		}
		if !known || after == before {
			if known && before.settled(began) {
				cached.Store(before, sum)
			}
			return sum, false, nil
		}
		before = after
	}
	return "", false, fmt.Errorf("%s changes while it is read: wait until it is complete", path)
}

// readSum hashes a file and returns its state afterwards.
func readSum(path string) (string, stamp, error) {
	f, err := infile.Open(path, infile.Data)
	if err != nil {
		return "", stamp{}, err
	}
	defer f.Close()
	h := sha256.New()
	// Without the wrappers io.CopyBuffer would ignore the buffer.
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 1<<18)); err != nil {
		return "", stamp{}, fmt.Errorf("reading %s: %w", path, err)
	}
	info, err := os.Stat(path) // by name: it may have been replaced
	if err != nil {
		return "", stamp{}, fmt.Errorf("%s vanished while it was read: %w", path, err)
	}
	after, _ := stampOf(info)
	return hex.EncodeToString(h.Sum(nil)), after, nil
}

// cached holds the SHA-256 of files by their stamp, for the further runs of this process.
var cached sync.Map
