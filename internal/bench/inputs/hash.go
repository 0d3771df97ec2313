package inputs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// hugeSize is the size in bytes from which a file is not hashed: hashing 1 GiB takes about 1.5 s.
	hugeSize = 1 << 30
	hugeText = "1 GiB"
	// storedSize is the size from which sums are kept between invocations.
	storedSize = 1 << 20
	// maxStored is the number of sums that are kept.
	maxStored = 256
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

// storedSum is the sum of a file in a certain state.
type storedSum struct {
	stamp
	SHA256 string
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
		if sum := cached.find(before); sum != "" {
			return sum, false, nil
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
				cached.store(storedSum{before, sum})
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

// sumCache keeps the sums of this process in memory, and the sums of large files in the user's
// cache folder.
type sumCache struct {
	mu     sync.Mutex // guards the fields below
	sums   map[stamp]string
	loaded bool
}

var cached = &sumCache{sums: map[stamp]string{}}

// find returns the sum of a file in a state, "" if it is not known.
func (c *sumCache) find(st stamp) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sum := c.sums[st]; sum != "" || st.Size < storedSize {
		return sum
	}
	if !c.loaded {
		c.loaded = true
		for _, s := range loadSums() {
			c.sums[s.stamp] = s.SHA256
		}
	}
	return c.sums[st]
}

func (c *sumCache) store(s storedSum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums[s.stamp] = s.SHA256
	if s.Size < storedSize {
		return
	}
	list := append([]storedSum{s}, loadSums()...)
	text, err := json.Marshal(list[:min(len(list), maxStored)])
	path, pathErr := cacheFile()
	if errors.Join(err, pathErr) != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return // without the cache, hashing only takes longer
	}
	_ = journal.WriteFileAtomic(path, text)
}

// loadSums reads the stored sums. It returns none if the file is missing or damaged.
func loadSums() (list []storedSum) {
	path, err := cacheFile()
	if err != nil {
		return nil
	}
	text, err := infile.ReadRegular(path, infile.Table)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}

func cacheFile() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "kernbench", "sums.json"), nil
}
