package journal

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Follower reads a journal that may still grow.
type Follower struct {
	at     location
	offset int64 // bytes read so far
	file   os.FileInfo
	r      *reader
	read   atomic.Int64
}

// BytesRead returns how much of the file has been read. It may be called while Next reads, to show progress.
func (f *Follower) BytesRead() int64 { return f.read.Load() }

// countingReader adds the bytes that pass through it to n.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Follow returns a Follower of a journal. It accepts the same paths as Read.
func Follow(path string) (*Follower, error) {
	at, err := locate(path)
	if err != nil {
		return nil, err
	}
	return &Follower{at: at}, nil
}

// Next reads the records that were appended since the last call, and reports whether there were any. It
// returns the same Journal each time, unless the file was replaced or truncated: then it starts a new
// one. A line that is still being written is left for the next call.
func (f *Follower) Next() (j *Journal, grown bool, err error) {
	file, err := f.at.open()
	if err != nil {
		return nil, false, fmt.Errorf("reading a journal: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("reading a journal: %w", err)
	}
	if f.r == nil || info.Size() < f.offset || !os.SameFile(info, f.file) {
		f.r, f.offset, f.file, grown = newReader(), 0, info, true
		f.r.j.Path = f.at.path
	}
	if info.Size() == f.offset {
		return f.r.j, grown, nil
	}
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", f.at.path, err)
	}
	f.read.Store(f.offset)
	consumed, err := f.r.read(countingReader{file, &f.read}, info.Size()-f.offset, false)
	f.offset += consumed
	if err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", f.at.path, err)
	}
	return f.r.j, grown || consumed > 0, nil
}
