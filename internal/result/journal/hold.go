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

// Hold is an exclusive lock on one run. Only its holder may write the run's records and
// launch its ranks. The kernel releases it when the process dies. Other runs in the same
// folder have their own holds.
type Hold struct{ file *os.File }

// HeldError describes the process that holds a run. It is also the content of the lock file.
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

// HoldRun locks a run of the RUN folder dir. The error is a *HeldError if a live process
// holds it. The lock is a file lock like the journal's: it works between hosts if the file
// system supports that.
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
		got, err := takeHold(f, path, id)
		if got {
			return &Hold{f}, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// HolderOf returns the holder of a run of the RUN folder dir, or nil if nobody holds it. It
// probes with a shared lock that it releases at once, so it keeps nobody from taking the
// hold and is not misled by the lock file of a dead process.
func HolderOf(dir, id string) (*HeldError, error) {
	path, err := lockPath(dir, id)
	if err != nil {
		return nil, err
	}
	f, err := openOwn(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) { // no process made that lock file
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking who holds run %s: %w", id, err)
	}
	defer f.Close()
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return readHolder(f, id), nil
	case err != nil:
		return nil, fmt.Errorf("looking who holds run %s: %w", id, err)
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
	held := &HeldError{}
	if text, err := io.ReadAll(io.NewSectionReader(f, 0, maxHolder)); err != nil || json.Unmarshal(text, held) != nil {
		held = &HeldError{}
	}
	held.Run = id
	return held
}

// takeHold locks an open lock file and writes the holder into it. It returns false without
// an error if the caller must open the file and try again: another process is probing it,
// or its last holder has just removed it.
func takeHold(f *os.File, path, id string) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == nil { // only a shared lock, HolderOf's
			err := flock(f, syscall.LOCK_UN)
			time.Sleep(time.Millisecond)
			return false, err
		}
		return false, readHolder(f, id)
	}
	if err != nil {
		return false, fmt.Errorf("holding run %s: locking %s: %w", id, path, err)
	}
	mine, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("holding run %s: %w", id, err)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(now, mine) {
		return false, nil
	}
	host, _ := os.Hostname() // only shown in messages
	text, err := json.Marshal(HeldError{Run: id, PID: os.Getpid(), Host: host, Since: time.Now().UTC()})
	if err == nil {
		err = f.Truncate(0) // may name a dead holder
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return false, fmt.Errorf("holding run %s: writing %s: %w", id, path, err)
	}
	return true, nil
}

// Release gives up the hold. It removes the file before it releases the lock: otherwise
// another process could lock a file that is about to be removed.
func (h *Hold) Release() error {
	return errors.Join(os.Remove(h.file.Name()), h.file.Close())
}
