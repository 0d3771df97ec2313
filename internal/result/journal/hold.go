package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Hold is a live process's claim to a run: only who has it may write the run's
// records and launch its ranks. The system drops it when the process dies,
// however it dies. Other runs of the folder have holds of their own.
type Hold struct{ file *os.File }

// HeldError says who is at work on a run.
type HeldError struct {
	Run   string    `json:"run"`
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (e *HeldError) Error() string {
	if e.PID == 0 { // it has not signed yet
		return fmt.Sprintf("run %s is still under way in another process", e.Run)
	}
	return fmt.Sprintf("run %s is still under way: process %d on host %s, since %s", e.Run, e.PID, e.Host,
		e.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// HoldRun claims a run of the RUN folder dir. The error is a *HeldError when a live process has it.
// The claim is a lock on a file, as for the journal itself, so it holds between hosts where the file
// system's locks do.
func HoldRun(dir, id string) (*Hold, error) {
	path, err := lockPath(dir, id)
	if err != nil {
		return nil, fmt.Errorf("holding a run: %w", err)
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
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

// HolderOf tells who is at work on a run of the RUN folder dir, nil for nobody: the system knows
// also of the dead, and of other hosts where the file system's locks do. It looks by a shared
// lock, which is gone at once and keeps nobody from taking hold of the run.
func HolderOf(dir, id string) (*HeldError, error) {
	path, err := lockPath(dir, id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking who holds run %s: %w", id, err)
	}
	defer f.Close()
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return signature(path, id), nil
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

// signature is who says to hold a run.
func signature(path, id string) *HeldError {
	held := &HeldError{}
	if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, held) != nil {
		held = &HeldError{}
	}
	held.Run = id
	return held
}

// takeHold locks and signs an open lock file. Without an error and without the
// hold it is to be tried again: somebody just looks who holds it, or the file was one
// that its holder has just removed and another has its name.
func takeHold(f *os.File, path, id string) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == nil { // nobody holds it: somebody looks, as HolderOf does
			err := flock(f, syscall.LOCK_UN)
			time.Sleep(time.Millisecond)
			return false, err
		}
		return false, signature(path, id)
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
	host, _ := os.Hostname() // it is for the reader only
	text, err := json.Marshal(HeldError{Run: id, PID: os.Getpid(), Host: host, Since: time.Now().UTC()})
	if err == nil {
		err = f.Truncate(0) // a dead holder's signature
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return false, fmt.Errorf("holding run %s: signing %s: %w", id, path, err)
	}
	return true, nil
}

// Release gives the run up. The file goes before the lock does, so that nobody
// can take a lock on a file that is about to lose its name and keep it.
func (h *Hold) Release() error {
	return errors.Join(os.Remove(h.file.Name()), h.file.Close())
}
