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
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// Demand is a requirement of the protocol. Check starts the program and returns a description of what it
// observed. The error describes the violation, or is [ErrNotApplicable].
type Demand struct {
	Name  string
	Check func(ctx context.Context, path, interpreter string) (saw string, err error)
}

// ErrNotApplicable is returned for a requirement that does not apply to a program.
var ErrNotApplicable = errors.New("does not apply")

// Demands returns all requirements.
func Demands() []Demand {
	return []Demand{
		{"greeting", checked(greets)},
		{"environment", checked(reportsEnvironment)},
		{"other version", examined(refusesVersion)},
		{"unknown request", checked(refusesUnknown)},
		{"points", checked(preparesPoints)},
		{"samples", checked(takesSamples)},
		{"time", checked(checkTimes)},
		{"verification", checked(verifies)},
		{"stacks", checked(showsStacks)},
		{"end", checked(ends)},
	}
}

// answerLimit limits the time of a check; importing libraries from a slow disk can take many
// seconds. endLimit is the time for a program to exit after its socket was closed.
const answerLimit, endLimit = 2 * time.Minute, 10 * time.Second

// examinee is a program under test.
type examinee struct {
	*program
	ctx   context.Context
	hello hello // set by begin
}

// The variables that an examinee must report: one set to a text that needs escaping, and one unset.
const (
	setVar, unsetVar = "KERNBENCH_SELFTEST_SET", "KERNBENCH_SELFTEST_UNSET"
	setValue         = "a \"quoted\" \\ text, \u00fc"
)

// checked wraps a check so that the program is started and greeted first.
func checked(check func(*examinee) (string, error)) func(context.Context, string, string) (string, error) {
	return examined(func(e *examinee) (string, error) {
		if err := e.begin(); err != nil {
			return "", err
		}
		return check(e)
	})
}

// examined wraps a check so that the program is started first.
func examined(check func(*examinee) (string, error)) func(context.Context, string, string) (string, error) {
	return func(ctx context.Context, path, interpreter string) (string, error) {
		script, err := script(path, interpreter)
		if err != nil {
			return "", err
		}
		var output strings.Builder
		if isSocket(script[1]) {
			return "", errRunning
		}
		p, err := start(script, append(os.Environ(), setVar+"="+setValue), &output, &output)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
		defer cancel()
		saw, err := check(&examinee{program: p, ctx: ctx})
		p.close() // before its output is read
		if err != nil && !errors.Is(err, ErrNotApplicable) {
			err = texttab.WithDetail(err, output.String())
		}
		return saw, err
	}
}

func (e *examinee) request(verb string, arguments any) (reply, error) {
	r, err := e.ask(e.ctx, verb, arguments, func(r reply) (any, error) {
		if r.Time {
			return nil, ErrNotApplicable // the body times its own calls
		}
		return barrierAnswer, nil
	})
	if err != nil {
		return r, fmt.Errorf("%s: %w", verb, err)
	}
	return r, nil
}

// begin sends the greeting with an additional key, which programs must ignore, because later
// versions may add keys.
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

// refused checks that the program answers a request with an error, and returns its reason.
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
	reason, err := e.refused("frobnicate", map[string]any{"deeply": []int{1, 2}})
	if err != nil {
		return "", err
	}
	_, err = e.refused("point", request{Bench: "no such bench", Point: []coordinate{}})
	return reason, err
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
	r, err = e.request("point", request{Bench: d.Name, Point: d.coordinates(at)})
	if err == nil && r.Skip == nil && !r.Exec && len(r.Counters) == 0 {
		err = errors.New("point: the answer has neither exec nor counters nor skip")
	}
	return r, err
}

func preparesPoints(e *examinee) (string, error) {
	var saw []string
	for _, d := range e.hello.Benches {
		r, err := e.first(d)
		var own *failure // allowed: the body may need an environment or another number of ranks
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

// ready prepares the first point that can be timed and is wanted.
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

// sample requests samples, in nanoseconds, and returns how long the answer took.
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

// called prepares a fitting point and makes one call.
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

// noticeable is the shortest time of calls that can be compared with the time until the answer, which
// includes the latency of the messages.
const noticeable = 20 * time.Millisecond

// timed takes one sample and checks that it is not longer than its answer took.
func (e *examinee) timed(batch int) (reported, took time.Duration, err error) {
	samples, took, err := e.sample(1, batch)
	reported = time.Duration(samples[0])
	if err == nil && reported > took {
		err = fmt.Errorf("sample: a batch of %d reports %v, but its answer took %v: are these nanoseconds?", batch, reported,
			took)
	}
	return reported, took, err
}

// checkTimes compares reported times with the time until the answer arrived. A batch of n must make n
// calls, and the unit must be nanoseconds.
func checkTimes(e *examinee) (string, error) {
	if _, err := e.ready(func(r reply) bool { return !r.Preamble && r.Clock == nil }); err != nil {
		return "", err
	}
	if _, _, err := e.sample(1, 1); err != nil {
		return "", err
	}
	for batch := 1; batch < 1<<40; batch *= 4 {
		// Another process may delay the answer occasionally, so try several times.
		ns, took, err := e.timed(batch)
		for tries := 1; err == nil && tries < 5 && took >= noticeable && ns <= took/100; tries++ {
			ns, took, err = e.timed(batch)
		}
		switch {
		case err != nil:
			return "", err
		case took < noticeable: // too short to compare: try a larger batch
		case ns <= took/100:
			return "", fmt.Errorf("sample: a batch of %d reports %v, but its answer took %v: are these nanoseconds, of the "+
				"whole batch?", batch, ns, took)
		default:
			return fmt.Sprintf("%d calls take %v, as reported", batch, ns), nil
		}
	}
	return "", errors.New("sample: a larger batch does not take longer: a batch of n must make n calls")
}

func verifies(e *examinee) (string, error) {
	if err := e.called(func(r reply) bool { return r.Verify }); err != nil {
		return "", err
	}
	return "the result of a call is right", verdict(e.request("verify", struct{}{}))
}

func showsStacks(e *examinee) (string, error) {
	e.cmd.Process.Signal(unix.SIGQUIT) // a program that has ended fails below
	_, err := e.refused("frobnicate", struct{}{})
	if err != nil {
		return "", fmt.Errorf("%w: it ends at SIGQUIT, so a hang will not show its stacks", ErrNotApplicable)
	}
	return "it continues after SIGQUIT", nil
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
