package shm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// agreeing runs do on all ranks of a new call checker. The ranks are goroutines. It returns their
// errors by rank.
func agreeing(t *testing.T, size int, do func(a *CallChecker) error) []error {
	t.Helper()
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			a, err := JoinCallChecker(t.Context(),
				Identity{ID: fmt.Sprintf("%s-%d", t.Name(), os.Getpid()), Rank: r, Size: size, Timeout: hangGuard})
			if errs[r] = err; err == nil {
				errs[r] = do(a)
				a.Close()
			}
		})
	}
	ranks.Wait()
	return errs
}

func named(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// Every rank gets the files of all ranks, in rank order, whatever number each passes. The exchange can
// be repeated.
func TestExchangeFiles(t *testing.T) {
	const size, times = 3, 2
	dir := t.TempDir()
	errs := agreeing(t, size, func(a *CallChecker) error {
		for n := range times {
			var mine []*os.File
			for i := range a.Rank() + 1 - n {
				f, err := named(dir, fmt.Sprintf("%d.%d.%d", n, a.Rank(), i))
				if err != nil {
					return err
				}
				mine = append(mine, f)
			}
			all, err := a.ExchangeFiles("a test", mine...)
			if err != nil {
				return err
			}
			for r, files := range all {
				if len(files) != r+1-n {
					return fmt.Errorf("rank %d gave %d files, not %d", r, r+1-n, len(files))
				}
				for i, f := range files {
					have, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
					if want := fmt.Sprintf("%d.%d.%d", n, r, i); err != nil || string(have) != want {
						return fmt.Errorf("%s is %q (%v)", want, have, err)
					}
					f.Close()
				}
			}
			if err := a.Check(NewLabel("read")); err != nil {
				return err
			}
		}
		return nil
	})
	must.Do(t, errors.Join(errs...))
}

// If a rank leaves instead of passing files, all waiting ranks get an error at once that names it.
func TestExchangeFilesWithoutOne(t *testing.T) {
	for gone := range 3 {
		errs := agreeing(t, 3, func(a *CallChecker) error {
			if a.Rank() == gone {
				return nil
			}
			_, err := a.ExchangeFiles("a test", os.Stdin)
			return err
		})
		for r, err := range errs {
			var f *PeerError
			if r != gone && (!errors.As(err, &f) || f.Rank != gone || !strings.Contains(f.Text, "in a test")) {
				t.Errorf("without rank %d, rank %d: %v", gone, r, err)
			}
		}
	}
}
