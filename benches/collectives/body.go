package collectives

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// joinLimit is how long a rank waits for the others to join the group, including their set-up.
const joinLimit = 30 * time.Second

func body(ctx context.Context, s *bench.State) error {
	sh, err := shapeOf(s.Point())
	if err != nil {
		return err
	}
	if seconds, has := s.Point().Get(bench.SecondsOption); has {
		s.SampleAtMost(seconds.Float())
	}
	return timeCall(ctx, s, sh)
}

// timeCall joins the group of the point, times the operation and verifies it. If the machine lacks something that the
// backend needs, the point does not fail but is not executed.
func timeCall(ctx context.Context, s *bench.State, sh shape) error {
	sh.ranks = s.Size()
	s.Phase("probe")
	recordLimits := newLimitRecorder(ctx, s, hostName(s))
	if err := s.Barrier(ctx); err != nil { // a probe must not disturb another rank's measurement
		return err
	}
	cfg, err := config(s)
	if err != nil {
		return err
	}
	cfg.Knobs = sh.knobs
	s.Phase("set-up")
	g, err := dist.Init(ctx, cfg)
	if err != nil {
		return JoinError(err)
	}
	defer g.Close()
	if c := g.Clock(); c.Deterministic() {
		s.UseClock(c)
	}
	if reason := sh.unsupported(g.Capabilities(), s.Backend()); reason != "" {
		return bench.Skip("%s", reason)
	}
	w, err := newWork(g, sh, s.Seed())
	if err != nil {
		return err
	}
	Describe(s, g)
	if w.plan.Algorithm != "" {
		s.Detail("algorithm", tuning.Choice{Algorithm: w.plan.Algorithm, ChunkBytes: w.plan.Chunk * sh.dtype.Size(),
			Blocks: w.plan.Blocks}.String())
		if sh.algorithm == auto {
			s.Detail("tuning", cmp.Or(cfg.Tuning, tuning.Default()).Hash())
		}
	}
	if sh.op != barrier {
		s.Volume(sh.op, int64(sh.count)*int64(sh.dtype.Size()))
	}
	recordLimits(g, sh, w.plan)
	return w.time(ctx, s, g)
}

// time times the prepared call, and records what else the backend knows about it.
func (w *work) time(ctx context.Context, s *bench.State, g *dist.Group) error {
	if dist.Describe(s.Backend()).Virtual {
		s.Detail(dataDetail, "schedule proved, data not executed")
	} else {
		s.Refresh(w.refresh)
		s.Verify(w.verify)
	}
	if err := s.Time(ctx, w.run, bench.InPlace(w.sh.inPlace)); err != nil {
		return err
	}
	if err := machine.Explain(s, g, w.plan); err != nil {
		return err
	}
	if w.op != nil {
		if err := RecordTimings(ctx, s, g, w.op); err != nil {
			return err
		}
	}
	Observe(s, instrument.ObserverOf(g), "after")
	return nil
}

// RecordTimings times a call with the backend's own methods besides Run, such as many calls in one
// kernel launch. It also records the limit of each method and how close the time comes to it. Every
// bench that times a call uses it.
func RecordTimings(ctx context.Context, s *bench.State, g *dist.Group, op *dist.Op) error {
	list, err := instrument.Timings(g, op)
	if err != nil {
		return err
	}
	for _, t := range list {
		err := s.TimeAs(ctx, t.Name, t.Sample, bench.InPlace(op.Plan().InPlace), bench.AfterSamples(t.Check))
		if err := errors.Join(err, t.Close()); err != nil {
			return err
		}
		if us := s.Metric(t.Name); t.LimitUS > 0 && us > 0 {
			name := strings.TrimSuffix(t.Name, "_us")
			s.Detail(name+"_limit", t.Limit)
			s.Report(name+"_pct_of_limit", 100*t.LimitUS/us, "%", "higher")
			if t.LimitUS > decl.WrongLimit*us {
				s.Condition(string(journal.CodeFast), journal.Named{"share": t.LimitUS / us}, t.Name)
			}
		}
	}
	return nil
}

// Describe records in the row which library does the work and on which devices. Every bench that joins
// a group calls it.
func Describe(s *bench.State, g *dist.Group) {
	facts := g.Facts()
	if facts.Library != "" {
		s.Detail("library", facts.Library)
	}
	if facts.RanksPerDevice > 0 {
		s.Detail(journal.SharingDetail, fmt.Sprint(facts.RanksPerDevice))
		if facts.Device != "" {
			s.Detail(journal.DeviceDetail, facts.Device)
		}
	}
	Observe(s, instrument.ObserverOf(g), "before")
}

// JoinError converts the error of a failed dist.Init. If the machine lacks something that the backend
// needs, the point counts as not executed.
func JoinError(err error) error {
	if reason, yes := errors.AsType[*dist.UnavailableError](err); yes {
		return bench.NotExecuted(false, "%v", reason)
	}
	return err
}

// Observe records in the row the state of rank 0's device, such as its clocks and temperature. when is
// "before" or "after".
func Observe(s *bench.State, device instrument.Observer, when string) {
	if s.Rank() != 0 {
		return
	}
	shown, err := device.Observe()
	if err != nil {
		shown = "unknown: " + err.Error()
	}
	if shown != "" {
		s.Detail("gpu_"+when, shown)
	}
}

// SampleOnDevice lets the clock of a GPU take the samples, and selects it for the row. sample returns the time of some
// calls, and overhead is about the time between an event of the GPU and the work after it, in picoseconds.
func SampleOnDevice(s *bench.State, overhead int64, sample func(calls int) (us float64, err error)) bench.TimeOption {
	s.UseClock(clock.DeviceEvents(overhead))
	return bench.SampledBy(func(batch int, samples []int64) error {
		for i := range samples {
			us, err := sample(batch)
			if err != nil {
				return err
			}
			samples[i] = int64(us * 1e6)
		}
		return nil
	})
}

// hostName returns the host to which the option hosts assigns the rank; neighbouring ranks share one.
// Without the option it is "", and the rank belongs to the host it runs on.
func hostName(s *bench.State) string {
	hosts := int(s.Point().At(hostsOption).Int())
	if hosts < 1 {
		return ""
	}
	return "host" + strconv.Itoa(s.Rank()*hosts/s.Size())
}

// config returns the configuration of the point's group. The ID is unique among all points and
// launches.
func config(s *bench.State) (dist.Config, error) {
	cfg := dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit,
		ID: s.Session() + "/" + s.Point().String(), Exchange: s.Exchange, Host: hostName(s)}
	on, err := machine.Describe(s)
	if err != nil {
		return cfg, err
	}
	if cfg.Machine, cfg.Arrangement = on.File, on.Arrangement; on.Text != "" {
		s.Detail(machineDetail, on.Text)
	}
	if path := s.Point().At(tuningOption).String(); path != "" {
		cfg.Tuning, err = dist.LoadTuning(path)
	}
	return cfg, err
}
