package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Path is where the result of a host is kept unless the user names a file: in
// the user's cache folder, by class.
func Path(h hostinfo.Host) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the probe result: %w", err)
	}
	return filepath.Join(dir, "kernbench", "probe-"+Class(h)+".json"), nil
}

// Load reads a result and checks that it belongs to this host and build.
func Load(path string, h hostinfo.Host) (Result, error) {
	return read(path, func(r Result) error { return r.Check(h) })
}

// Read reads a result of any host and build, for those who only compute with it.
func Read(path string) (Result, error) {
	return read(path, func(r Result) error {
		if r.Schema != Schema {
			return fmt.Errorf("%w: its schema is %d, this kernbench's is %d", ErrStale, r.Schema, Schema)
		}
		return r.valid()
	})
}

func read(path string, check func(Result) error) (Result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Result{}, err
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return Result{}, fmt.Errorf("reading probe result %s: %w", path, err)
	}
	if err := check(r); err != nil {
		return Result{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Save writes a result; the file appears whole or not at all.
func Save(path string, r Result) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = journal.WriteFileAtomic(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("storing the probe result: %w", err)
	}
	return nil
}

// LoadOrMeasure returns this host's result: the stored one, or a quick one measured and
// stored now where none can be used, or where that one was disturbed some time ago. A result that
// was measured but could not be stored comes with the error.
func LoadOrMeasure(ctx context.Context) (Result, error) {
	host := hostinfo.Local()
	path, pathErr := Path(host)
	var old Result // with no numbers where there is none that can be used
	if pathErr == nil {
		var err error
		if old, err = Load(path, host); err == nil && !old.again(time.Now()) {
			return old, nil
		}
	}
	r, err := Measure(ctx, Quick, time.Now())
	if err != nil {
		return Result{}, err
	}
	r = r.better(old)
	if pathErr != nil {
		return r, pathErr
	}
	return r, Save(path, r)
}
