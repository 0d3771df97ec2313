package python

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// Program is the interpreter, or the program, beside one worker.
type Program struct {
	program *program
	hello   hello
}

// Rank is which rank of a launch a program is.
type Rank struct {
	Rank, Ranks, Local int
	Backend            string
	Environ            []string // of the program
	Watch              []string // variables to report as the program sees them
}

// Start imports the file in an interpreter with the given output, or starts the program.
func Start(script []string, rank Rank, output, errors *os.File) (*Program, error) {
	p, err := start(script, rank.Environ, output, errors)
	if err != nil {
		return nil, err
	}
	watch := append([]string{}, rank.Watch...)
	r, err := p.greet(context.Background(), greeting{protocol, rank.Rank, rank.Ranks, rank.Local, rank.Backend, watch})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("importing %s: %w", script[1], err)
	}
	if r.Source != script[2] {
		p.close()
		return nil, fmt.Errorf("%s has changed since the run was planned: start it again", script[1])
	}
	return &Program{p, r}, nil
}

// Environ is what the interpreter saw of the watched variables.
func (p *Program) Environ() map[string]*string { return p.hello.Environ }

// Close ends the interpreter.
func (p *Program) Close() { p.program.close() }

// request names a bench of the file and a point of it.
type request struct {
	Bench string       `json:"bench"`
	Point []coordinate `json:"point"`
}

type coordinate struct {
	Name  string      `json:"name"`
	Type  bench.Kind  `json:"type"`
	Value bench.Value `json:"value"`
}

func coordinates(p bench.Point) []coordinate {
	list := []coordinate{}
	for _, c := range p {
		list = append(list, coordinate{c.Name, c.Value.Kind(), c.Value})
	}
	return list
}

// prepared is what a body reported at a point, before anything is timed.
type prepared struct {
	Exec     bool      `json:"exec"`
	Preamble bool      `json:"preamble"`
	Verify   bool      `json:"verify"`
	Bytes    float64   `json:"bytes"`
	Flops    float64   `json:"flops"`
	Counters []counter `json:"counters"`
}

type counter struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Better string  `json:"better"`
}

// programClock describes the clock of the program, in nanoseconds.
type programClock struct {
	Label      string `json:"name"`
	Overhead   int64  `json:"overhead"`
	Resolution int64  `json:"resolution"`
}

func (programClock) Now() int64          { return clock.Monotonic().Now() }
func (programClock) Deterministic() bool { return false }
func (c programClock) Name() string      { return cmp.Or(c.Label, "perf_counter") }

// check demands what a clock can be: what it takes off each sample must not be a time
// that calls take.
func (c programClock) check() error {
	const most = 1_000_000
	if c.Overhead < 0 || c.Resolution < 0 || c.Overhead > most || c.Resolution > most {
		return fmt.Errorf("clock %q: overhead %d ns, resolution %d ns: want 0 to %d", c.Name(), c.Overhead, c.Resolution,
			most)
	}
	return nil
}

// Calibration is in picoseconds.
func (c programClock) Calibration() clock.Calibration {
	return clock.Calibration{Overhead: 1000 * c.Overhead, Resolution: 1000 * c.Resolution}
}

// Body returns the body of a bench of the file: it has the program run its own, and
// then times the calls that it names.
func (p *Program) Body(name string) (bench.Body, error) {
	if !slices.ContainsFunc(p.hello.Benches, func(d declared) bool { return d.Name == name }) {
		return nil, fmt.Errorf("the file no longer declares a bench %q", name)
	}
	return func(ctx context.Context, s *bench.State) error {
		skip, err := p.run(ctx, name, s)
		if skip != nil {
			return bench.Skip("%s", *skip)
		}
		var own *failure
		var wrong *bench.Wrong
		if err != nil && !errors.As(err, &own) && !errors.As(err, &wrong) && !errors.Is(err, decl.ErrElsewhere) {
			p.program.kill() // another rank hangs or has failed: the stacks show where this one was
		}
		return err
	}, nil
}

// run has the program run its body, and times what that names, unless it says why not.
func (p *Program) run(ctx context.Context, name string, s *bench.State) (skip *string, err error) {
	barrier := func() error { return s.Barrier(ctx) }
	ask := func(verb string, arguments any) (reply, error) {
		return p.program.ask(ctx, verb, arguments, barrier)
	}
	do := func(verb string) func() error {
		return func() error { _, err := ask(verb, struct{}{}); return err }
	}
	r, err := ask("point", request{name, coordinates(s.Point())})
	if err != nil || r.Skip != nil {
		return r.Skip, err
	}
	for _, c := range r.Counters {
		s.Report(c.Name, c.Value, c.Unit, c.Better)
	}
	s.Bytes(int64(r.Bytes))
	s.Flops(r.Flops)
	if p.hello.Version != "" {
		s.Detail(p.program.kind, p.hello.Version)
	}
	switch {
	case !r.Exec && len(r.Counters) == 0:
		return nil, errors.New("the body returned without state.exec, state.counter or state.skip")
	case !r.Exec:
		return nil, nil
	}
	if r.Verify {
		s.Verify(func() error { return verdict(ask("verify", struct{}{})) })
	}
	timed := cmp.Or(r.Clock, p.hello.Clock, &programClock{})
	if err := timed.check(); err != nil {
		return nil, err
	}
	s.UseClock(*timed)
	timings := []bench.TimeOption{bench.SampledBy(func(batch int, samples []int64) error {
		return take(samples, func() (reply, error) {
			return ask("sample", map[string]int{"batch": batch, "count": len(samples)})
		})
	})}
	if r.Preamble {
		timings = append(timings, bench.Preamble(do("preamble")))
	}
	return nil, s.Time(ctx, do("call"), timings...)
}

func verdict(r reply, err error) error {
	switch {
	case err != nil:
		return err
	case r.Wrong == nil || *r.Wrong < 0: // silence is no proof
		return errors.New("the program did not say how many elements are wrong")
	case *r.Wrong > 0:
		return &bench.Wrong{Count: *r.Wrong, Detail: "the bench's own check counts them"}
	}
	return nil
}

// take stores the samples of one answer, in picoseconds.
func take(samples []int64, ask func() (reply, error)) error {
	r, err := ask()
	if err != nil {
		return err
	}
	if len(r.Samples) != len(samples) {
		return fmt.Errorf("the program took %d samples of %d", len(r.Samples), len(samples))
	}
	for i, ns := range r.Samples {
		if ns < 0 {
			return fmt.Errorf("the program measured %d ns", ns)
		}
		samples[i] = 1000 * ns
	}
	return nil
}
