// Package infile reads files that come from outside: named on the command line, in a declaration, or
// stored in a RUN folder by somebody else. Each read is bounded. Devices, sockets and folders are
// refused, and a file larger than the limit of its kind is an error before it fills the memory.
//
// A test of the module's root forbids other packages to read such files by themselves.
package infile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// Limits of the kinds of files, in bytes.
const (
	Config = 1 << 20  // YAML files, tables of settings and probe results
	Table  = 64 << 20 // measurements: logs and CSV files to import, indexes, figures
	Trace  = 1 << 30  // execution traces of one rank
	Data   = 64 << 30 // matrices, journals and executables, which are read as a stream
)

// raised is the limit that the user has set for all kinds, in bytes, or 0.
var raised atomic.Int64

// Raise sets the limit of all kinds that have a smaller one, as the flag --max-input does.
func Raise(limit int64) { raised.Store(limit) }

// deadline is how long a file of the kernel such as /proc/kmsg may deliver nothing. Tests shorten it.
var deadline = 30 * time.Second

// ErrTooLarge is wrapped by the errors of files above the limit.
var ErrTooLarge = errors.New("too large")

// ErrInterrupted is wrapped by the error of a read that a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// Read returns the content of a regular file, or of a pipe that the user named, such as
// /dev/stdin or the <(command) of a shell. limit is its largest size in bytes.
func Read(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		return readPipe(path, limit)
	}
	return ReadRegular(path, limit)
}

// ReadRegular is Read without pipes, for files that the user has not named: the parts of a RUN
// folder and files found in the current folder.
func ReadRegular(path string, limit int64) ([]byte, error) {
	f, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadAll()
}

// File is an open regular file.
type File struct {
	file  *os.File
	waits bool // reading may wait for data, as in some files of the kernel
	path  string
	limit int64
}

// openFlags let open return at once, even for a pipe without a writer.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// Open opens a regular file of at most limit bytes. It never waits, not even for the writer of a pipe.
func Open(path string, limit int64) (*File, error) {
	f, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return nil, err
	}
	return checked(f, path, limit)
}

// OpenBelow is Open for a file of a folder from somebody else, such as a RUN. Symbolic links must not lead
// out of the folder.
func OpenBelow(folder *os.Root, name string, limit int64) (*File, error) {
	path := filepath.Join(folder.Name(), name)
	f, err := folder.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, Escapes(err))
	}
	return checked(f, path, limit)
}

// ReadBelow returns the content of such a file.
func ReadBelow(dir, name string, limit int64) ([]byte, error) {
	f, err := openIn(dir, name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadAll()
}

// TailBelow returns the last bytes of such a file, at most most.
func TailBelow(dir, name string, most int64) ([]byte, error) {
	f, err := openIn(dir, name, Data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Tail(most)
}

func openIn(dir, name string, limit int64) (*File, error) {
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return OpenBelow(folder, name, limit)
}

// Escapes returns an error of os.Root without the name of the file, and explains the one about a symbolic link
// that leads out of the folder.
func Escapes(err error) error {
	if strings.Contains(err.Error(), "path escapes from parent") { // os.Root has no error value for it
		return errors.New("a symbolic link leads out of the folder, and is not followed")
	}
	if of, is := errors.AsType[*fs.PathError](err); is {
		return of.Err
	}
	return err
}

// checked returns the open file if it is regular and not too large, and closes it otherwise.
func checked(f *os.File, path string, limit int64) (*File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is %s: want a regular file", path, kindOf(info.Mode()))
	case info.Size() > atLeast(limit):
		err = tooLarge(path, info.Size(), limit)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, f.SetReadDeadline(time.Time{}) == nil, path, limit}, nil
}

// Read fails if the file delivers nothing for 30 s.
func (f *File) Read(p []byte) (int, error) {
	if f.waits {
		if err := f.file.SetReadDeadline(time.Now().Add(deadline)); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it delivered nothing for %v", deadline)
	}
	return n, err
}

// ReadAll returns the rest of the file. It fails if the file has grown beyond its limit.
func (f *File) ReadAll() ([]byte, error) { return readAll(f, f.path, f.limit) }

// Tail returns the last bytes of the file, at most most.
func (f *File) Tail(most int64) ([]byte, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(size-most, 0), io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// Seek, Stat and Close call the methods of the same names of os.File.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.file.Seek(offset, whence) }
func (f *File) Stat() (fs.FileInfo, error)                   { return f.file.Stat() }
func (f *File) Close() error                                 { return f.file.Close() }

// atLeast returns the limit, or the larger one that the user has set.
func atLeast(limit int64) int64 { return max(limit, raised.Load()) }

func tooLarge(path string, size, limit int64) error {
	return fmt.Errorf("%s is %w: it has %s bytes, and the limit is %s (--max-input raises it)",
		path, ErrTooLarge, unit.FormatBytes(size), unit.FormatBytes(atLeast(limit)))
}

// readAll reads to the end, and fails if there is more than the limit: a file may grow while it is
// read, and the size of a pipe is not known beforehand.
func readAll(r io.Reader, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, atLeast(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if int64(len(data)) > atLeast(limit) {
		return nil, tooLarge(path, int64(len(data)), limit)
	}
	return data, nil
}

// readPipe reads a pipe in a goroutine of its own, because opening or reading it may block for
// ever: only the user knows how long its writer takes. The goroutine is abandoned when the user ends the program.
func readPipe(path string, limit int64) ([]byte, error) {
	type content struct {
		data []byte
		err  error
	}
	done := make(chan content, 1)
	go func() {
		f, err := os.Open(path)
		if err != nil {
			done <- content{nil, err}
			return
		}
		defer f.Close()
		data, err := readAll(f, path, limit)
		done <- content{data, err}
	}()
	ended := make(chan os.Signal, 1)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	signal.Notify(ended, signals...)
	defer signal.Stop(ended)
	select {
	case c := <-done:
		return c.data, c.err
	case s := <-ended:
		return nil, fmt.Errorf("reading %s: %w (%v)", path, ErrInterrupted, s)
	}
}

// kindOf describes what a path is if it is not a regular file.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
