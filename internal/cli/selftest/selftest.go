// Package selftest checks a kernbench where it is installed: it proves the
// schedules of every registered algorithm, runs the conformance suite of every
// backend that is here, and tries what runs rely on: kernels, journal, figures,
// shared memory, sockets and worker processes. It measures nothing, and it leaves
// nothing behind.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kernbench/kernbench/dist"
)

// Status is what became of a check.
type Status string

// What becomes of a check.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // does not apply here; the detail says why
)

// Result is one line of the report.
type Result struct {
	Area    string  `json:"area"`
	Name    string  `json:"name"`
	Status  Status  `json:"status"`
	Detail  string  `json:"detail"` // what was checked, what is wrong, or why it was skipped
	Seconds float64 `json:"seconds"`
}

// Options are the choices of a self-test.
type Options struct {
	Backend  string // check only this backend's conformance; "": check everything
	Launcher string // what starts the ranks of that backend; "": its own choice
	Environ  []string
	Report   func(Result) // is told each result as it comes
}

// session is one self-test.
type session struct {
	Options
	dir string // temporary
}

// Run makes the checks. The error is about the self-test itself; what a check
// finds is reported. A cancelled context ends it early.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "kernbench-selftest-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	s := session{o, dir}
	if o.Backend != "" {
		s.products(ctx, o.Backend)
		return s.backends(ctx, []string{o.Backend})
	}
	s.host()
	s.kernels(ctx)
	s.schedules(ctx)
	if err := s.workers(ctx); err != nil {
		return err
	}
	return s.backends(ctx, dist.Backends())
}

// skipError is the error of a check that does not apply here.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// skip says why a check does not apply here.
func skip(format string, args ...any) error { return &skipError{fmt.Sprintf(format, args...)} }

// check makes one check and reports it; detail says what was checked.
func (s session) check(area, name string, check func() (detail string, err error)) {
	began := time.Now()
	detail, err := check()
	r := Result{Area: area, Name: name, Status: Passed, Detail: detail, Seconds: time.Since(began).Seconds()}
	var skipped *skipError
	switch {
	case errors.Is(err, context.Canceled):
		return // the user ended it: neither passed nor failed
	case errors.As(err, &skipped):
		r.Status, r.Detail = Skipped, skipped.reason
	case err != nil:
		r.Status, r.Detail = Failed, err.Error()
	}
	s.Report(r)
}
