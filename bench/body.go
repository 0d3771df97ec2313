package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"

	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Body is the code of a benchmark. It runs once per point on every rank. Everything before
// [State.Time] is untimed set-up. To leave the point out, it returns [Skip] or [NotExecuted].
// Any other error makes a failed row, and so does a panic.
type Body func(ctx context.Context, s *State) error

// Run executes the body at a point on one rank in this process, as backend cpu, and returns the row that it would
// record. Tests call it to run a body without worker processes. The returned error is the cause of the row's Reason.
// A panic in the body becomes an error with its stack.
func (b Body) Run(ctx context.Context, p Point) (Row, error) {
	row := Row{Point: p, Backend: "cpu", Metrics: map[string]float64{}, Units: map[string]string{}}
	o, err := b.perform(ctx, decl.Setting{Point: p, Backend: row.Backend, Seed: 1})
	o.Fill(&row)
	return row, err
}

// perform executes the body on one rank. It is the body of the declaration.
func (b Body) perform(ctx context.Context, set decl.Setting) (decl.Outcome, error) {
	s := newState(set)
	err := protect(func() error { return b(ctx, s) })
	return s.finish(err), err
}

// protect calls f and converts a panic to an error with the stack.
func protect(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

func newState(set decl.Setting) *State {
	if set.Group == nil {
		set.Group = syncgroup.Solo()
	}
	if set.Measure.Cadence == "" {
		set.Measure = measure.Default()
	}
	if set.Clock == nil {
		set.Clock = clock.Monotonic()
	}
	if set.Phase == nil {
		set.Phase = func(string) {}
	}
	return &State{set: set, out: decl.Outcome{
		Kind: journal.Measured, Metrics: map[string]float64{}, Stats: map[string]journal.Stat{},
		Limits: map[string]float64{}, Details: map[string]string{}, Raws: map[string][]byte{},
	}}
}

// finish returns this rank's outcome. err is the error that the body returned. Only rows with status
// ok keep samples and profiles.
func (s *State) finish(err error) decl.Outcome {
	o := s.out
	_, verified := o.Metrics["wrong"] // a verification alone is not a measurement
	var skip *skipError
	var missing *missingError
	switch {
	case errors.As(err, &skip):
		o.Status, o.Reason = journal.Skipped, skip.reason
	case errors.As(err, &missing):
		o.Status, o.Reason, o.Optional = journal.NotExecuted, missing.reason, !missing.required
	case err != nil:
		o.Status, o.Reason = journal.Failed, err.Error()
		if call, is := errors.AsType[*measure.CallError](err); is && call.Stack != nil {
			o.Reason += "\n" + string(call.Stack)
		}
	case len(o.Metrics) == 0 || len(o.Metrics) == 1 && verified && o.Samples == 0:
		o.Status = journal.Failed
		o.Reason = "the body returned without recording anything: call State.Time or State.Report, or return Skip"
	default:
		o.Status = journal.OK
	}
	if o.Status != journal.OK {
		o.Raw, o.Raws, o.Inside = nil, nil, nil
	}
	return o
}

// skipError is the error of [Skip].
type skipError struct{ reason string }

func (e *skipError) Error() string { return "skipped: " + e.reason }

// Skip returns the error with which a body leaves out a point that does not apply. The row gets
// the status "skipped" with this reason. All ranks must return it for the same point.
func Skip(format string, args ...any) error {
	return &skipError{fmt.Sprintf(format, args...)}
}

// missingError is the error of [NotExecuted].
type missingError struct {
	reason   string
	required bool
}

func (e *missingError) Error() string { return "not executed: " + e.reason }

// NotExecuted returns the error for a point that should run but cannot here, because the
// backend or the machine lacks something. The reason states what is missing. The run fails if
// the point is required; otherwise the point is only counted. All ranks must return it for the
// same point.
func NotExecuted(required bool, format string, args ...any) error {
	return &missingError{fmt.Sprintf(format, args...), required}
}

// Helper declares a function that bodies run in a separate process, because it may crash or
// hang. [HelperCommand] starts it.
func Helper(name string, f func(args []string) error) Clause {
	return func(d *decl.Declaration) {
		if d.Bench.Helpers == nil {
			d.Bench.Helpers = map[string]func(args []string) error{}
		}
		d.Bench.Helpers[name] = f
	}
}

// HelperCommand returns the command that starts this program as a helper of the bench. The
// helper's function receives args. The process is killed when ctx ends or when this process
// dies.
func HelperCommand(ctx context.Context, bench, name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("helper %s of bench %s: %w", name, bench, err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), launch.HelperVar+"="+bench+"/"+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}
