package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Hold is an exclusive lock on one run. Only the process that has it may write the run's records and
// launch its ranks. The kernel releases the lock when the process dies. Other runs in the same folder
// have their own locks.
type Hold struct{ file *os.File }

// HeldError is the error for a run that another process holds. It is also the content of the lock file.
type HeldError struct {
	Run   string    `json:"run"`
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (e *HeldError) Error() string {
	if e.PID == 0 { // the holder has not written the file yet
		return fmt.Sprintf("run %s is still under way in another process", e.Run)
	}
	return fmt.Sprintf("run %s is still under way: process %d on host %s, since %s", e.Run, e.PID, e.Host,
		e.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// HoldRun locks a run of the RUN folder dir. The error is a *HeldError if a live process holds the run.
// Like the journal's lock, it is a file lock (flock), so it works between hosts only if the file system
// supports that.
func HoldRun(dir, id string) (*Hold, error) {
	path, err := lockPath(dir, id)
	if err != nil {
		return nil, fmt.Errorf("holding a run: %w", err)
	}
	for {
		f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, fmt.Errorf("holding run %s: %w", id, err)
		}
		locked, err := takeHold(f, path, id)
		if locked {
			return &Hold{f}, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// HolderOf returns the process that holds a run of the RUN folder dir, or nil if there is none. It tests
// the lock itself with a shared lock that it releases at once. So the lock file of a dead process does
// not mislead it, and it does not keep other processes from locking the run.
func HolderOf(dir, id string) (*HeldError, error) {
	path, err := lockPath(dir, id)
	if err != nil {
		return nil, err
	}
	f, err := openOwn(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) { // not a lock file of kernbench
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finding the holder of run %s: %w", id, err)
	}
	defer f.Close()
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return readHolder(f, id), nil
	case err != nil:
		return nil, fmt.Errorf("finding the holder of run %s: %w", id, err)
	}
	return nil, nil
}

func lockPath(dir, id string) (string, error) {
	if id == "" || strings.ContainsAny(id, "/\\\x00") {
		return "", fmt.Errorf("the id %q is not a plain name", id)
	}
	return filepath.Join(dir, "."+id+".lock"), nil
}

// maxHolder is the largest size of a lock file that is read, in bytes.
const maxHolder = 4096

// readHolder returns the holder that a lock file names.
func readHolder(f *os.File, id string) *HeldError {
	holder := &HeldError{}
	if text, err := io.ReadAll(io.NewSectionReader(f, 0, maxHolder)); err != nil || json.Unmarshal(text, holder) != nil {
		holder = &HeldError{}
	}
	holder.Run = id
	return holder
}

// takeHold locks an open lock file and writes this process into it. It returns false without an error
// if the caller must open the file again and retry: another process is just testing the lock, or the
// last holder has just removed the file.
func takeHold(f *os.File, path, id string) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == nil { // the other lock is a shared one, by HolderOf
			err := flock(f, syscall.LOCK_UN)
			time.Sleep(time.Millisecond)
			return false, err
		}
		return false, readHolder(f, id)
	}
	if err != nil {
		return false, fmt.Errorf("holding run %s: locking %s: %w", id, path, err)
	}
	opened, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("holding run %s: %w", id, err)
	}
	if current, err := os.Stat(path); err != nil || !os.SameFile(current, opened) {
		return false, nil
	}
	host, _ := os.Hostname() // only shown in messages
	text, err := json.Marshal(HeldError{Run: id, PID: os.Getpid(), Host: host, Since: time.Now().UTC()})
	if err == nil {
		err = f.Truncate(0) // the file may name a dead process
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return false, fmt.Errorf("holding run %s: writing %s: %w", id, path, err)
	}
	return true, nil
}

// Release unlocks the run. It removes the file before it releases the lock: otherwise another process
// could lock a file that is about to be removed.
func (h *Hold) Release() error {
	return errors.Join(os.Remove(h.file.Name()), h.file.Close())
}
