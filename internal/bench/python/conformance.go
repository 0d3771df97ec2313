package python

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// Demand is something that the protocol demands of a program. Check starts a file of
// its own and says what it saw; the error is what is wrong, or [ErrNotApplicable].
type Demand struct {
	Name  string
	Check func(ctx context.Context, path, interpreter string) (saw string, err error)
}

// ErrNotApplicable is the error of a demand that a program need not meet.
var ErrNotApplicable = errors.New("does not apply")

// Demands lists all of them.
func Demands() []Demand {
	return []Demand{
		{"greeting", checked(greets)},
		{"environment", checked(reportsEnvironment)},
		{"other version", examined(refusesVersion)},
		{"unknown request", checked(refusesUnknown)},
		{"points", checked(preparesPoints)},
		{"samples", checked(takesSamples)},
		{"time", checked(tellsTime)},
		{"verification", checked(verifies)},
		{"stacks", checked(showsStacks)},
		{"end", checked(ends)},
	}
}

// answerLimit bounds one answer: importing a library takes seconds, where a disk is slow
// many. endLimit is how long a program may run on without its socket.
const answerLimit, endLimit = 2 * time.Minute, 10 * time.Second

// examinee is a program under examination.
type examinee struct {
	*program
	ctx   context.Context
	hello hello // once it has greeted
}

// The variables that an examinee must report, one set to a text that is not easily
// written and one that is not set.
const (
	setVar, unsetVar = "KERNBENCH_SELFTEST_SET", "KERNBENCH_SELFTEST_UNSET"
	setValue         = "a \"quoted\" \\ text, \u00fc"
)

// checked is the check of a program that has been greeted.
func checked(check func(*examinee) (string, error)) func(context.Context, string, string) (string, error) {
	return examined(func(e *examinee) (string, error) {
		if err := e.begin(); err != nil {
			return "", err
		}
		return check(e)
	})
}

func examined(check func(*examinee) (string, error)) func(context.Context, string, string) (string, error) {
	return func(ctx context.Context, path, interpreter string) (string, error) {
		script, err := script(path, interpreter)
		if err != nil {
			return "", err
		}
		var output strings.Builder
		p, err := start(script, append(os.Environ(), setVar+"="+setValue), &output, &output)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
		defer cancel()
		saw, err := check(&examinee{program: p, ctx: ctx})
		p.close() // before its output is read
		if err != nil && !errors.Is(err, ErrNotApplicable) {
			err = withOutput(err, output.String())
		}
		return saw, err
	}
}

func (e *examinee) request(verb string, arguments any) (reply, error) {
	r, err := e.ask(e.ctx, verb, arguments, func() error { return nil })
	if err != nil {
		return r, fmt.Errorf("%s: %w", verb, err)
	}
	return r, nil
}

// begin greets, with a key that is not in this version: later ones may have more.
func (e *examinee) begin() (err error) {
	e.hello, err = e.greet(e.ctx, struct {
		Future []string `json:"future"`
		greeting
	}{[]string{"later"}, greeting{Protocol: protocol, Ranks: 1, Watch: []string{setVar, unsetVar}}})
	if err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	return nil
}

func greets(e *examinee) (string, error) {
	var names []string
	for _, d := range e.hello.Benches {
		if _, err := d.bench(e.ctx, e.program); err != nil {
			return "", fmt.Errorf("bench %s: %w", d.Name, err)
		}
		names = append(names, d.Name)
	}
	switch {
	case len(names) == 0:
		return "", errors.New("hello: the answer has no benches")
	case e.hello.Clock == nil:
		return "", errors.New("hello: the answer has no clock")
	}
	return "benches " + strings.Join(names, ", "), e.hello.Clock.check()
}

func reportsEnvironment(e *examinee) (string, error) {
	if v := e.hello.Environ[setVar]; v == nil || *v != setValue {
		return "", fmt.Errorf("hello: environ must have %s as the program sees it: %q", setVar, setValue)
	}
	if v, has := e.hello.Environ[unsetVar]; !has || v != nil {
		return "", fmt.Errorf("hello: environ must have %s as null: it is not set", unsetVar)
	}
	return "a set and an unset variable as they are", nil
}

// refused demands that a request is answered by an error.
func (e *examinee) refused(verb string, arguments any) (string, error) {
	_, err := e.request(verb, arguments)
	var f *failure
	switch {
	case err == nil:
		return "", fmt.Errorf("%s: want an error, not an answer", verb)
	case !errors.As(err, &f):
		return "", err
	case f.Reason == "":
		return "", fmt.Errorf("%s: the error has no reason", verb)
	}
	return f.Reason, nil
}

func refusesVersion(e *examinee) (string, error) {
	return e.refused("hello", greeting{Protocol: protocol + 1000, Ranks: 1, Watch: []string{}})
}

func refusesUnknown(e *examinee) (string, error) {
	said, err := e.refused("frobnicate", map[string]any{"deeply": []int{1, 2}})
	if err != nil {
		return "", err
	}
	_, err = e.refused("point", request{"no such bench", []coordinate{}})
	return said, err
}

// first prepares the first point of a bench, unless its body skips it.
func (e *examinee) first(d declared) (r reply, err error) {
	b, err := d.bench(e.ctx, e.program)
	if err != nil {
		return r, err
	}
	backend := append(slices.Clone(d.Backends), "")[0]
	p, err := plan.Make(b, plan.Request{Backend: backend})
	if err != nil {
		return r, err
	}
	at := bench.Point{{Name: bench.RanksAxis, Value: point.IntValue(1)}}
	at = append(append(at, p.Groups[0].Tasks[0].Point...), p.Options...)
	r, err = e.request("point", request{d.Name, coordinates(at)})
	if err == nil && r.Skip == nil && !r.Exec && len(r.Counters) == 0 {
		err = errors.New("point: the answer has neither exec nor counters, and is no skip")
	}
	return r, err
}

func preparesPoints(e *examinee) (string, error) {
	var saw []string
	for _, d := range e.hello.Benches {
		r, err := e.first(d)
		var own *failure // of a body that wants an environment, or another number of ranks
		switch {
		case errors.As(err, &own) && own.Reason != "":
			saw = append(saw, d.Name+" fails: "+own.Reason)
		case err != nil:
			return "", fmt.Errorf("bench %s: %w", d.Name, err)
		case r.Skip != nil:
			saw = append(saw, d.Name+" skips: "+*r.Skip)
		default:
			saw = append(saw, d.Name)
		}
	}
	return "the first of " + strings.Join(saw, "; "), nil
}

// ready prepares a point of a bench that can be timed.
func (e *examinee) ready(wanted func(reply) bool) (reply, error) {
	for _, d := range e.hello.Benches {
		r, err := e.first(d)
		var own *failure
		switch {
		case err != nil && !errors.As(err, &own):
			return r, fmt.Errorf("bench %s: %w", d.Name, err)
		case err == nil && r.Skip == nil && r.Exec && wanted(r):
			return r, nil
		}
	}
	return reply{}, ErrNotApplicable
}

// sample asks for samples and says how long the answer took.
func (e *examinee) sample(count, batch int) (samples []int64, took time.Duration, err error) {
	samples = make([]int64, count)
	began := time.Now()
	err = take(samples, func() (reply, error) {
		return e.request("sample", map[string]int{"batch": batch, "count": count})
	})
	for i := range samples {
		samples[i] /= 1000
	}
	return samples, time.Since(began), err
}

// called makes one call of a point that fits.
func (e *examinee) called(fits func(reply) bool) error {
	r, err := e.ready(fits)
	if err == nil && r.Preamble {
		_, err = e.request("preamble", struct{}{})
	}
	if err == nil {
		_, err = e.request("call", struct{}{})
	}
	return err
}

func takesSamples(e *examinee) (string, error) {
	if err := e.called(func(reply) bool { return true }); err != nil {
		return "", err
	}
	for _, count := range []int{1, 3, 7} {
		if _, _, err := e.sample(count, 1); err != nil {
			return "", err
		}
	}
	return "as many as were asked for", nil
}

// noticeable is how long calls must take for their time to be compared with that of
// the answer, which has the time of the message in it.
const noticeable = 20 * time.Millisecond

// timed takes one sample, which cannot have taken longer than its answer.
func (e *examinee) timed(batch int) (said, took time.Duration, err error) {
	samples, took, err := e.sample(1, batch)
	said = time.Duration(samples[0])
	if err == nil && said > took {
		err = fmt.Errorf("sample: a batch of %d is said to take %v, its answer took %v: are these nanoseconds?", batch, said,
			took)
	}
	return said, took, err
}

// tellsTime compares what the program says with how long its answer takes: a batch must
// be that many calls, and the unit nanoseconds.
func tellsTime(e *examinee) (string, error) {
	if _, err := e.ready(func(r reply) bool { return !r.Preamble && r.Clock == nil }); err != nil {
		return "", err
	}
	if _, _, err := e.sample(1, 1); err != nil {
		return "", err
	}
	for batch := 1; batch < 1<<40; batch *= 4 {
		// Another process may have had the processor between the message and the calls,
		// but not every time.
		ns, took, err := e.timed(batch)
		for tries := 1; err == nil && tries < 5 && took >= noticeable && ns <= took/100; tries++ {
			ns, took, err = e.timed(batch)
		}
		switch {
		case err != nil:
			return "", err
		case took < noticeable: // a larger one
		case ns <= took/100:
			return "", fmt.Errorf("sample: a batch of %d is said to take %v, its answer took %v: are these nanoseconds, of "+
				"the whole batch?",
				batch, ns, took)
		default:
			return fmt.Sprintf("%d calls take %v, as they say", batch, ns), nil
		}
	}
	return "", errors.New("sample: a batch takes no longer when it is larger: it must be that many calls")
}

func verifies(e *examinee) (string, error) {
	if err := e.called(func(r reply) bool { return r.Verify }); err != nil {
		return "", err
	}
	return "the result of a call is right", verdict(e.request("verify", struct{}{}))
}

func showsStacks(e *examinee) (string, error) {
	e.cmd.Process.Signal(unix.SIGQUIT) // one that has ended says so below
	_, err := e.refused("frobnicate", struct{}{})
	if err != nil {
		return "", fmt.Errorf("%w: it ends at SIGQUIT, and a hang will not show where it was", ErrNotApplicable)
	}
	return "it goes on after SIGQUIT", nil
}

func ends(e *examinee) (string, error) {
	if err := unix.Shutdown(int(e.socket.Fd()), unix.SHUT_WR); err != nil {
		return "", fmt.Errorf("ending the connection: %w", err)
	}
	rest, _ := io.ReadAll(e.lines)
	if len(rest) > 0 {
		return "", fmt.Errorf("it sent %.80q without a request", rest)
	}
	select {
	case <-e.ended:
	case <-time.After(endLimit):
		return "", fmt.Errorf("it still runs %v after the end of its socket", endLimit)
	}
	if !e.cmd.ProcessState.Success() {
		return "", fmt.Errorf("it ended with %s", e.endedBy)
	}
	return "with its socket", nil
}
