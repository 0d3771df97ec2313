package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// summary is what planning needs to know about a workload.
type summary struct {
	ranks, nodes, messages int
	calls                  map[replay.SizedCall]int
	notes                  []string
}

// summaries caches the summaries by point, because planning asks several times.
var summaries sync.Map // from a string to *summary

// summaryOf reads and matches the traces of a point.
func summaryOf(p, options bench.Point) (*summary, error) {
	prefix := prefixOf(p, options)
	o, err := settings(p, options)
	if err != nil {
		return nil, err
	}
	step, generated, err := stepOf(p, options)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprint(prefix, o, generated, step)
	if s, ok := summaries.Load(key); ok {
		return s.(*summary), nil
	}
	traces, err := load(p, options)
	if err != nil {
		return nil, err
	}
	w, err := replay.New(traces, o)
	if err != nil {
		return nil, err
	}
	s := &summary{w.Ranks(), w.Nodes(), w.Messages(), w.Calls(), w.Notes()}
	summaries.Store(key, s)
	return s, nil
}

// has returns an error if no collective of the traces has the algorithm on a network.
func (s *summary) has(algorithm string) error {
	known := append([]string{replay.Auto, replay.Recorded}, replay.Algorithms()...)
	switch {
	case !slices.Contains(known, algorithm):
		return bench.Unknown("algorithm", algorithm, known)
	case algorithm == replay.Auto || algorithm == replay.Recorded || len(s.calls) == 0:
		return nil
	}
	var missing []string
	for c := range s.calls {
		_, err := replay.Schedule(c, algorithm)
		if err == nil {
			return nil
		}
		missing = append(missing, fmt.Sprintf("%s of %d ranks", c.Collective, c.Ranks))
	}
	slices.Sort(missing)
	return fmt.Errorf("--%s %s: no collective of the traces has this algorithm: %s", algorithmAxis, algorithm,
		strings.Join(slices.Compact(missing), ", "))
}

// The cost of a replay, measured (docs/workload.md): of a node and of a message.
const (
	nodeNS, nodeBytes       = 4000, 900
	messageNS, messageBytes = 700, 24
	baseBytes               = 40 << 20
	maxSeconds, maxBytes    = 500, 32 << 30
	maxMessages             = maxSeconds * 1_000_000_000 / messageNS
)

// cost is an estimate of what a replay takes.
type cost struct {
	messages       int64
	seconds, bytes float64
}

// cost estimates the replay with an algorithm.
func (s *summary) cost(algorithm string) cost {
	choose := replay.Choice(algorithm)
	c := cost{messages: int64(s.messages)}
	if algorithm == replay.Recorded {
		s = &summary{ranks: s.ranks, nodes: s.nodes}
	}
	for call, times := range s.calls {
		built, err := replay.Schedule(call, choose(call))
		if err != nil {
			continue
		}
		n := schedule.Messages(built, maxMessages)
		c.messages = min(c.messages+n*int64(times), 1<<60)
		c.seconds += proofSeconds(built, n)
	}
	c.seconds += float64(c.messages)*messageNS/1e9 + float64(s.nodes)*nodeNS/1e9
	c.bytes = baseBytes + float64(s.nodes)*nodeBytes + float64(min(c.messages, 1<<24))*messageBytes
	return c
}

// proofSeconds estimates how long the proof of a schedule with the given number of messages takes. Schedules that
// access the memory of peers are checked for races, which takes longer (measured: 7 s for 256 ranks). All-reduces that
// package schedule does not know are such schedules.
func proofSeconds(s schedule.Schedule, messages int64) float64 {
	if info, err := schedule.Lookup(s.Collective(), s.Name()); err != nil || info.Direct {
		return 7 * math.Pow(float64(s.Ranks())/256, 2.5)
	}
	return float64(messages) * messageNS / 1e9
}

// text describes the workload and its cost.
func (s *summary) text(c cost) string {
	took := "less than a second"
	if c.seconds >= 1 {
		took = fmt.Sprintf("about %.0f s", c.seconds)
	}
	memory := fmt.Sprintf("%.0f MiB", c.bytes/(1<<20))
	if c.bytes >= 1<<30 {
		memory = fmt.Sprintf("%.1f GiB", c.bytes/(1<<30))
	}
	return fmt.Sprintf("%s with %s, about %s messages: %s of one core and about %s of memory",
		unit.Plural(s.ranks, "rank"),
		unit.Plural(s.nodes, "node"), unit.FormatSI(float64(c.messages)), took, memory)
}

// tooLarge returns an error if the replay would take too long or too much memory.
func (s *summary) tooLarge(p bench.Point) error {
	c := s.cost(p.At(algorithmAxis).String())
	if c.seconds <= maxSeconds && c.bytes <= maxBytes {
		return nil
	}
	return fmt.Errorf("%s; at most %d s and %d GiB are simulated: take fewer ranks or an algorithm with fewer messages",
		s.text(c), maxSeconds, maxBytes>>30)
}

// noteCost returns a decl.Note about the cost of a replay that takes a second or more.
func noteCost(p, options bench.Point) error {
	s, err := summaryOf(p, options)
	if _, ok := dist.As[accelerator](options.At(bench.BackendName).String()); err != nil || ok ||
		prefixOf(p, options)+point.ValueOf(p, options, modelOption).String() == "" {
		return nil
	}
	c := s.cost(p.At(algorithmAxis).String())
	if c.seconds < 1 {
		return nil
	}
	return decl.Note(s.text(c))
}

// noteUnused returns a decl.Note that lists the parts of the traces that have no effect.
func noteUnused(p, options bench.Point) error {
	if s, err := summaryOf(p, options); err == nil && len(s.notes) > 0 {
		return decl.Note("in the traces: " + strings.Join(s.notes, "; "))
	}
	return nil
}
