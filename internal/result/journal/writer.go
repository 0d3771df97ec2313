package journal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// FileName is the journal's name inside a RUN folder.
const FileName = "journal.jsonl"

// Writer appends records to a journal. It is safe for use by several goroutines, and
// several Writers, even in different processes, can append to the same file.
type Writer struct {
	mu   sync.Mutex // held during Append; the file lock excludes other Writers
	file *os.File
	path string
	size int64 // of the file after this writer's last record; other writers only add to it

	chains  chainer // of the rows in the first scanned bytes of the file
	scanned int64
}

// ErrReplaced is the cause if a record cannot be appended because the file was deleted, replaced or truncated.
var ErrReplaced = errors.New("the file was deleted, replaced or truncated while in use")

// Open opens the journal in the RUN folder dir for appending. It creates the folder and the
// file if they do not exist.
func Open(dir string) (_ *Writer, err error) {
	path := dir
	defer func() {
		if err != nil {
			hint := ""
			for _, e := range []error{fs.ErrPermission, fs.ErrNotExist, syscall.EROFS, syscall.ENOTDIR} {
				if errors.Is(err, e) {
					hint = ": choose a folder that can be written to"
				}
			}
			err = fmt.Errorf("opening %s for appending: %w%s", path, err, hint)
		}
	}()
	if dir, err = filepath.Abs(dir); err != nil { // the program may change its working directory later
		return nil, err
	}
	path = filepath.Join(dir, FileName)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := openOwn(path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	// Syncing the file does not make its name durable; syncing the folder does.
	if err := syncDir(dir); err != nil {
		file.Close()
		return nil, err
	}
	return &Writer{file: file, path: path, chains: chainer{}}, nil
}

// errNotRegular is the error if something other than a regular file has the name of a journal or lock file.
var errNotRegular = errors.New("it is not a regular file: remove it, or choose another folder")

// openOwn opens a file that only this package creates. The folder may come from somebody else, so openOwn refuses
// links, pipes and devices. It does not block on a pipe that has no writer.
func openOwn(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO): // a symbolic link, a socket
		return nil, errNotRegular
	case err != nil:
		return nil, errors.Unwrap(err) // the caller names the file
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, errNotRegular)
	}
	return f, nil
}

// Append records a Header, Begin, Row, Note, Label or End. If it returns nil, the whole line is in the
// file and, except for a Begin, on the disk. After an error, the earlier records are still readable, and
// the caller may append further records.
func (w *Writer) Append(rec any) (err error) {
	e, err := encode(rec)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("appending to %s: %w", w.path, err)
		}
	}()
	if err := flock(w.file, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("%s is lost: locking: %w", e.what, err)
	}
	// Unlocking an open file cannot fail, and closing it unlocks as well.
	defer func() { _ = flock(w.file, syscall.LOCK_UN) }()

	torn, size, err := w.endsInsideLine()
	if err != nil {
		return fmt.Errorf("%s is lost: %w", e.what, err)
	}
	line, err := w.chained(e, size)
	if err != nil {
		return fmt.Errorf("%s is lost: %w", e.what, err)
	}
	if torn {
		line = append([]byte{'\n'}, line...)
	}
	if n, err := w.file.Write(line); err != nil {
		return fmt.Errorf("%s is lost, with %d of %d bytes written (records before it are intact): %w", e.what, n, len(line),
			err)
	}
	w.size = size + int64(len(line))
	if !e.sync {
		return nil
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("%s is written but may not survive a power failure: %w", e.what, err)
	}
	return nil
}

// chained returns the line of a record, with the checksum of the run's previous row if it is a row or an end. Another
// process may have recorded that row, so chained reads what others have appended since this writer's last row.
func (w *Writer) chained(e entry, size int64) ([]byte, error) {
	if !e.chained {
		return seal(e.line, ""), nil
	}
	in := bufio.NewReader(io.NewSectionReader(w.file, w.scanned, size-w.scanned))
	for {
		line, err := in.ReadBytes('\n')
		w.chains.addLine(line)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the rows before it: %w", err)
		}
	}
	w.scanned = size
	return seal(e.line, w.chains[e.run]), nil
}

// endsInsideLine reports whether the file ends in the middle of a line, because a writer died or the disk
// was full, and the size of the file. The next record then starts with a newline.
func (w *Writer) endsInsideLine() (torn bool, size int64, err error) {
	info, err := w.file.Stat()
	if err != nil {
		return false, 0, err
	}
	if now, err := os.Stat(w.path); err != nil || !os.SameFile(now, info) || info.Size() < w.size {
		// Records in a deleted file would vanish when this process ends. A shorter file lacks earlier records.
		return false, 0, ErrReplaced
	}
	if size = info.Size(); size == 0 {
		return false, 0, nil
	}
	var last [1]byte
	if _, err := w.file.ReadAt(last[:], size-1); err != nil {
		return false, 0, fmt.Errorf("reading its last byte: %w", err)
	}
	return last[0] != '\n', size, nil
}

// Close closes the file. Appended records are valid even if Close is never called.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file.Close()
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}
