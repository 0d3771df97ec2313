package python

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// Program is the interpreter or other program that executes the body for one worker.
type Program struct {
	program *program
	hello   hello
}

// Rank describes the rank that a program belongs to.
type Rank struct {
	Rank, Ranks, Local int
	Backend            string
	Environ            []string // environment of the program
	Watch              []string // variables that the program must report
	ImportLimit        time.Duration
}

// Start starts an interpreter that imports the file, or starts the program itself. Its output goes
// to the given files.
func Start(script []string, rank Rank, output, errors *os.File) (*Program, error) {
	p, err := start(script, rank.Environ, output, errors)
	if err != nil {
		return nil, err
	}
	watch := append([]string{}, rank.Watch...)
	limited, cancel := limitImport(context.Background(), rank.ImportLimit)
	defer cancel()
	r, err := p.greet(limited, greeting{protocol, rank.Rank, rank.Ranks, rank.Local, rank.Backend, watch})
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

// Environ returns the watched variables as the program saw them; nil means unset.
func (p *Program) Environ() map[string]*string { return p.hello.Environ }

// Close ends the interpreter.
func (p *Program) Close() { p.program.close() }

// request names a bench of the file and a point of it.
type request struct {
	Bench string        `json:"bench"`
	Point []coordinate  `json:"point"`
	Cache measure.Cache `json:"cache,omitempty"` // cold: the program must flush the caches before each call
}

type coordinate struct {
	Name  string      `json:"name"`
	Type  bench.Kind  `json:"type"`
	Value bench.Value `json:"value"`
}

// coordinates returns a point as the program declared it.
func (d declared) coordinates(p bench.Point) []coordinate {
	list := []coordinate{}
	for _, c := range p {
		list = append(list, coordinate{d.ownName(c.Name), c.Value.Kind(), c.Value})
	}
	return list
}

// prepared is the answer to a point: what the body reported before the timing.
type prepared struct {
	Exec     bool      `json:"exec"`
	Preamble bool      `json:"preamble"`
	Verify   bool      `json:"verify"`
	Bytes    float64   `json:"bytes"`
	Flops    float64   `json:"flops"`
	Counters []counter `json:"counters"`
	// Cache is cold if the program flushes the caches before each call.
	Cache measure.Cache `json:"cache"`
	// Warmup and Repeat are the numbers of calls before the timing and of samples, if the body fixes
	// them. Flags of the run take precedence.
	Warmup int `json:"warmup"`
	Repeat int `json:"repeat"`
	// Late means that timed calls may report counters, which the request "report" returns.
	Late bool `json:"late"`
	// Details are texts about the point for its row.
	Details map[string]string `json:"details"`
}

// programClock describes the clock of the program, in nanoseconds.
type programClock struct {
	Label      string `json:"name"`
	Overhead   int64  `json:"overhead"`
	Resolution int64  `json:"resolution"`
	// Device means that a device measures the time, not the host.
	Device bool `json:"device"`
}

func (programClock) Now() int64          { return clock.Monotonic().Now() }
func (programClock) Deterministic() bool { return false }
func (c programClock) OnDevice() bool    { return c.Device }
func (c programClock) Name() string      { return cmp.Or(c.Label, "perf_counter") }

// check rejects implausible calibrations. The overhead is subtracted from each sample, so it must
// be far below the time of a call.
func (c programClock) check() error {
	const maxNS = 1_000_000
	if c.Overhead < 0 || c.Resolution < 0 || c.Overhead > maxNS || c.Resolution > maxNS {
		return fmt.Errorf("clock %q: overhead %d ns, resolution %d ns: want 0 to %d", c.Name(), c.Overhead, c.Resolution,
			maxNS)
	}
	return nil
}

// Calibration converts the values to picoseconds.
func (c programClock) Calibration() clock.Calibration {
	return clock.Calibration{Overhead: 1000 * c.Overhead, Resolution: 1000 * c.Resolution}
}

// Body returns the body of a bench of the file. It lets the program run its body, and then times
// the calls that the program's body names.
func (p *Program) Body(name string) (decl.Body, error) {
	if !slices.ContainsFunc(p.hello.Benches, func(d declared) bool { return d.Name == name }) {
		return nil, fmt.Errorf("the file no longer declares a bench %q", name)
	}
	body := func(ctx context.Context, s *bench.State) error {
		skip, err := p.run(ctx, name, s)
		if skip != nil {
			return bench.Skip("%s", *skip)
		}
		var own *failure
		var wrong *bench.Wrong
		var differs *disagreement
		if err != nil && !errors.As(err, &own) && !errors.As(err, &wrong) && !errors.As(err, &differs) &&
			!errors.Is(err, decl.ErrElsewhere) {
			p.program.kill() // another rank hangs or has failed: the printed stacks show where this one was
		}
		return err
	}
	return bench.New(name, body).Parts[0].Body, nil
}

// barrierAnswer tells a body that all ranks have arrived.
var barrierAnswer = map[string]any{"barrier": map[string]any{}}

// session is one execution of the program's body for one point, on one rank.
type session struct {
	*Program
	ctx   context.Context
	name  string // of the bench
	state *bench.State
	timed bool // a call has been timed
}

// run lets the program run its body and times the named calls. skip is the reason if the body skips
// the point.
func (p *Program) run(ctx context.Context, name string, s *bench.State) (skip *string, err error) {
	at := &session{Program: p, ctx: ctx, name: name, state: s}
	asked := request{Bench: name, Point: p.declared(name).coordinates(s.Point())}
	if s.Sampling().Cache == measure.Cold {
		asked.Cache = measure.Cold
	}
	r, err := at.ask("point", asked)
	if err != nil {
		return nil, err
	}
	if err := share(ctx, s, report{r.Skip, r.prepared}); err != nil {
		return nil, err
	}
	if r.Skip != nil {
		return r.Skip, nil
	}
	if p.hello.Version != "" {
		s.Detail(p.program.kind, p.hello.Version)
	}
	switch {
	case !r.Exec && !at.timed && len(r.Counters) == 0:
		return nil, errors.New("the body returned without state.exec, state.counter or state.skip")
	case !r.Exec:
		return nil, nil
	}
	if err := at.time(r); err != nil || !r.Late {
		return nil, err
	}
	if r, err = at.ask("report", struct{}{}); err != nil {
		return nil, err
	}
	return nil, share(ctx, s, report{prepared: r.prepared})
}

func (at *session) ask(verb string, arguments any) (reply, error) {
	return at.program.ask(at.ctx, verb, arguments, at.inside)
}

// inside answers a request that the body makes while it runs: for a barrier, or to time a call.
func (at *session) inside(r reply) (any, error) {
	if !r.Time {
		return barrierAnswer, at.state.Barrier(at.ctx)
	}
	if at.timed {
		at.state.Warn("the body timed several calls: the row has the time of the last one")
	}
	err := at.time(r)
	return map[string]any{"timed": map[string]any{"time_us": at.state.Metric("time_us"),
		"samples": at.state.Samples()}}, err
}

// time times the call that the program has prepared.
func (at *session) time(r reply) error {
	at.timed = true
	s := at.state
	do := func(verb string) func() error {
		return func() error { _, err := at.ask(verb, struct{}{}); return err }
	}
	s.Bytes(int64(r.Bytes))
	s.Flops(r.Flops)
	at.fixCalls(at.name, s.Sampling(), r.prepared)
	if r.Verify {
		s.Verify(func() error { return verdict(at.ask("verify", struct{}{})) })
	}
	timed := cmp.Or(r.Clock, at.hello.Clock, &programClock{})
	if err := timed.check(); err != nil {
		return err
	}
	s.UseClock(*timed)
	warning := ""
	timings := []bench.TimeOption{bench.SampledCold(r.Cache == measure.Cold),
		bench.SampledBy(func(batch int, samples []int64) error {
			return take(samples, func() (reply, error) {
				r, err := at.ask("sample", map[string]int{"batch": batch, "count": len(samples)})
				warning = r.Warning // later requests know more
				return r, err
			})
		})}
	if r.Preamble {
		timings = append(timings, bench.Preamble(do("preamble")))
	}
	err := s.Time(at.ctx, do("call"), timings...)
	if warning != "" {
		s.Warn("%s", warning)
	}
	return err
}

// fixCalls applies the numbers of calls that the body chose, unless flags of the run changed the
// declared ones.
func (p *Program) fixCalls(name string, c *bench.Config, r prepared) {
	declared := p.declared(name).Sampling.config()
	if r.Repeat == 0 {
		return
	}
	if c.Stop == declared.Stop {
		c.Stop = fixedCount(r.Repeat)
	}
	if c.Warmup == declared.Warmup {
		c.Warmup = fixedWarmup(r.Warmup)
	}
}

// declared returns the declaration of a bench of the file, or an empty one.
func (p *Program) declared(name string) (d declared) {
	d, _ = lists.First(p.hello.Benches, func(d declared) bool { return d.Name == name })
	return d
}

func verdict(r reply, err error) error {
	switch {
	case err != nil:
		return err
	case r.Wrong == nil || *r.Wrong < 0: // a missing count must not pass
		return errors.New("verify: the answer has no number of wrong elements")
	case *r.Wrong > 0:
		return &bench.Wrong{Count: *r.Wrong, Detail: "counted by the bench's own check"}
	}
	return nil
}

// take stores the samples of one answer, converted from nanoseconds to picoseconds.
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
