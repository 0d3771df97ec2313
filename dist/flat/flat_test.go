package flat

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// The network of these tests has round numbers: per nanosecond it sends 10 bytes, adds 40 and copies
// 80.
const (
	text = "name: round\nlatency_ns: 1000\noverhead_ns: 100\ngap_ns: 10\nbandwidth_gbs: 10\nreduce_gbs: 40\ncopy_gbs: 80\n"

	latency, overhead, gap = 1000 * event.Nanosecond, 100 * event.Nanosecond, 10 * event.Nanosecond
)

func wire(bytes int) event.Time   { return event.Time(bytes) * 100 }
func adding(bytes int) event.Time { return event.Time(bytes) * 25 }

func fileOf(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "network.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func join(size int, machine string) (*dist.Group, error) {
	return dist.Init(context.Background(), dist.Config{Backend: Name, Size: size, ID: "test", Machine: machine})
}

func joined(t testing.TB, size int, text string) *dist.Group {
	t.Helper()
	g := must.Get(join(size, fileOf(t, text)))(t)
	t.Cleanup(func() { g.Close() })
	return g
}

// timed returns the simulated time of a call with count f32 elements. Operations that reduce run in
// place.
func timed(t testing.TB, g *dist.Group, op dist.Collective, algorithm string, count int) event.Time {
	t.Helper()
	in := must.Get(g.Alloc(dist.F32, count))(t)
	call := dist.Call{Op: op, Algorithm: algorithm, Count: count, In: in, Out: in, Reduction: dist.Sum}
	switch op {
	case dist.Barrier:
		call = dist.Call{Op: op, Algorithm: algorithm}
	case dist.Gather:
		call.In = in.Slice(0, count/g.Size())
	}
	prepared, err := g.Prepare(call)
	if err != nil {
		t.Fatalf("%s %s of %d: %v", op, algorithm, count, err)
	}
	before := g.Clock().Now()
	for range 2 {
		must.Do(t, prepared.Run())
	}
	took := g.Clock().Now() - before
	if took%2 != 0 || !g.Clock().Deterministic() {
		t.Errorf("%s %s: two calls take %d ps together", op, algorithm, took)
	}
	return event.Time(took / 2)
}

// TestFormulas compares times with closed formulas. Without contention, a message between two ranks
// takes 2o + L + k/B, and messages from many ranks to one queue at the receiver. The other formulas
// are from Thakur et al. 2005, for numbers of ranks that are powers of two.
func TestFormulas(t *testing.T) {
	const count = 1 << 12
	const size = 4 * count
	message := func(bytes int) event.Time { return 2*overhead + latency + wire(bytes) }
	for _, ranks := range []int{2, 4, 16, 256} {
		g := joined(t, ranks, text)
		part, others, rounds := size/ranks, event.Time(ranks-1), event.Time(bits.Len(uint(ranks))-1)
		for _, c := range []struct {
			op        dist.Collective
			algorithm string
			want      event.Time
		}{
			{dist.Barrier, "dissemination", rounds * message(0)},
			{dist.AllReduce, "recursive-doubling", rounds * (message(size) + adding(size))},
			{dist.AllReduce, "ring", 2*others*message(part) + others*adding(part)},
			{dist.AllReduce, "halving-doubling", rounds*2*message(0) + 2*wire(size-part) + adding(size-part)},
			{dist.Gather, "linear", max(message(part)+(others-1)*(wire(part)+gap), latency+overhead+wire(part)+others*overhead)},
		} {
			got := timed(t, g, c.op, c.algorithm, count)
			if off := got - c.want; off < -50 || off > 50 { // the time of each message is rounded up to picoseconds
				t.Errorf("%s %s of %d ranks: %v ns, want %v", c.op, c.algorithm, ranks, got.Nanoseconds(), c.want.Nanoseconds())
			}
		}
	}
}

// reference computes, round by round, the time of an algorithm in which all ranks take the same steps
// and each rank sends and receives one message per round.
func reference(s schedule.Schedule, n loggp.Network) event.Time {
	ranks := s.Ranks()
	now, out, in, start := make([]event.Time, ranks), make([]event.Time, ranks), make([]event.Time, ranks),
		make([]event.Time, ranks)
	steps := make([][]schedule.Step, ranks)
	for r := range ranks {
		steps[r] = slices.Collect(s.Steps(r))
	}
	for i := range steps[0] {
		for r, mine := range steps {
			if mine[i].Op.Sends() {
				now[r] += n.Overhead
				start[r] = max(now[r], out[r])
				out[r] = start[r] + n.Bandwidth.Time(4*int64(mine[i].Src.Len)) + n.Gap
			}
		}
		for r, mine := range steps {
			if bytes := 4 * int64(mine[i].Dst.Len); mine[i].Op.Receives() {
				at := max(start[mine[i].From.First]+n.Latency, in[r]) + n.Bandwidth.Time(bytes)
				in[r] = at + n.Gap
				now[r] = max(max(now[r], at)+n.Overhead, out[r]-n.Gap)
			}
			if bytes := 4 * int64(mine[i].Dst.Len); mine[i].Op.Accumulates() {
				now[r] += n.Reduce.Time(bytes)
			}
		}
	}
	return slices.Max(now)
}

// On any network and for any count, times equal the reference. More bytes or a slower network never
// take less time.
func TestReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ranks := 1 << rapid.IntRange(1, 4).Draw(rt, "log ranks")
		algorithm := rapid.SampledFrom([]string{"ring", "recursive-doubling"}).Draw(rt, "algorithm")
		if algorithm == "ring" {
			ranks = rapid.IntRange(2, 20).Draw(rt, "ranks")
		}
		count := ranks + rapid.IntRange(0, 3000).Draw(rt, "count")
		ns := func(name string) int { return rapid.IntRange(0, 3000).Draw(rt, name) }
		l, o, gap := ns("latency"), ns("overhead"), ns("gap")
		rate := rapid.IntRange(1, 100).Draw(rt, "rate")
		network := func(rate int) string {
			return fmt.Sprintf("name: some\nlatency_ns: %d\noverhead_ns: %d\ngap_ns: %d\nbandwidth_gbs: %d\nreduce_gbs: %d\n",
				l, o, gap, rate, 2*rate)
		}
		got := timed(t, joined(t, ranks, network(rate)), dist.AllReduce, algorithm, count)
		s := must.Get(schedule.New(schedule.AllReduce, algorithm,
			schedule.Params{Ranks: ranks, Count: count, InPlace: true}))(rt)
		n, err := loggp.Parse("some", []byte(network(rate)))
		if want := reference(s, n); err != nil || got != want {
			rt.Fatalf("%s of %d by %d ranks: %d ps, want %d; %v", algorithm, count, ranks, got, want, err)
		}
		if more := timed(t, joined(t, ranks, network(rate)), dist.AllReduce, algorithm, count+ranks); more < got {
			rt.Fatalf("%d more elements take %d ps instead of %d", ranks, more, got)
		}
		if faster := timed(t, joined(t, ranks, network(rate+1)), dist.AllReduce, algorithm, count); faster > got {
			rt.Fatalf("a faster network takes %d ps instead of %d", faster, got)
		}
	})
}

// planted maps schedules with one fault each to the expected error. Such a schedule must not get a
// time.
var planted = map[string]string{
	// Rank 0 does not add the data that it receives.
	"planted-deaf": "at the end of rank 0: output[0,64) is not the sum",
	// A contribution is added twice.
	"planted-twice": "at the end of rank",
	// The last rank leaves, and the others wait for it.
	"planted-hang": "deadlock",
	// The last round of a barrier is missing.
	"planted-short": "it leaves the barrier before rank",
	// Data is sent before it was copied to the output.
	"planted-early": "rank 1 step 0 (send output[0,64) to rank 0 (round 0)): reads output[0,64) of rank 1: elements 0 to 63 " +
		"of it have not been written",
}

func init() {
	register := func(collective, name string,
		change func(p schedule.Params, rank, index int, s schedule.Step) []schedule.Step) {
		base := "recursive-doubling"
		if collective == schedule.Barrier {
			base = "dissemination"
		}
		schedule.Register(schedule.Algorithm{
			Info:    schedule.Info{Collective: collective, Name: name, Help: "a fault", Takes: []string{"InPlace"}},
			Scratch: func(p schedule.Params, _ int) int { return p.Count },
			Steps: func(p schedule.Params, rank int) iter.Seq[schedule.Step] {
				return func(yield func(schedule.Step) bool) {
					s, err := schedule.New(collective, base, p)
					if err != nil {
						panic(err)
					}
					index := 0
					for step := range s.Steps(rank) {
						for _, step := range change(p, rank, index, step) {
							if !yield(step) {
								return
							}
						}
						index++
					}
				}
			},
		})
	}
	keep := func(s schedule.Step) []schedule.Step { return []schedule.Step{s} }
	register(schedule.AllReduce, "planted-deaf", func(_ schedule.Params, rank, _ int, s schedule.Step) []schedule.Step {
		if rank == 0 && s.Op == schedule.Reduce {
			return nil
		}
		return keep(s)
	})
	register(schedule.AllReduce, "planted-twice", func(_ schedule.Params, rank, _ int, s schedule.Step) []schedule.Step {
		if rank == 2 && s.Op == schedule.Reduce {
			return []schedule.Step{s, s}
		}
		return keep(s)
	})
	register(schedule.AllReduce, "planted-hang", func(p schedule.Params, rank, _ int, s schedule.Step) []schedule.Step {
		if rank == p.Ranks-1 && s.Op != schedule.Copy {
			return nil
		}
		return keep(s)
	})
	register(schedule.AllReduce, "planted-early", func(_ schedule.Params, rank, _ int, s schedule.Step) []schedule.Step {
		switch {
		case s.Op != schedule.Copy:
			return nil
		case rank == 0:
			return []schedule.Step{s, {Op: schedule.RecvReduce, From: schedule.One(1), Dst: s.Dst}}
		case rank == 1:
			return []schedule.Step{{Op: schedule.Send, To: schedule.One(0), Src: s.Dst}}
		}
		return keep(s)
	})
	register(schedule.Barrier, "planted-short", func(p schedule.Params, _, _ int, s schedule.Step) []schedule.Step {
		if s.Tag == bits.Len(uint(p.Ranks-1))-1 {
			return nil
		}
		return keep(s)
	})
}

// A faulty schedule gets no time. The error names the rank and the step.
func TestPlanted(t *testing.T) {
	g := joined(t, 8, text)
	found := 0
	for _, op := range []dist.Collective{dist.AllReduce, dist.Barrier} {
		for _, name := range g.Capabilities().Algorithms[op] {
			want, wrong := planted[name]
			if !wrong {
				continue
			}
			found++
			call := dist.Call{Op: op, Algorithm: name}
			if op == dist.AllReduce {
				in, _ := g.Alloc(dist.F32, 64)
				out, _ := g.Alloc(dist.F32, 64)
				call = dist.Call{Op: op, Algorithm: name, In: in, Out: out, Reduction: dist.Sum}
			}
			if _, err := g.Prepare(call); err == nil || !strings.Contains(err.Error(), "proving the schedule") ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	if found != len(planted) {
		t.Errorf("%d faults were tried, of %d", found, len(planted))
	}
}

// A faulty network file is refused before anything runs. The error says what is wrong, where, and what
// would be valid.
func TestFiles(t *testing.T) {
	for change, want := range map[string]string{
		"latency_ns: 1000>latency_ns: -1":    `network.yaml:2:13: latency_ns: want a number with at most 3 decimals from 0 to 1000000000, have "-1"`,
		"overhead_ns: 100>overhead_ns: 1us":  `network.yaml:3:14: overhead_ns: want a number`,
		"gap_ns: 10>gap_ns: '10'":            `network.yaml:4:9: gap_ns: want a number`,
		"bandwidth_gbs: 10>bandwidth_gbs: 0": `network.yaml:5:16: bandwidth_gbs: want a number with at most 6 decimals from 0.001`,
		"reduce_gbs>reduce_gps":              `did you mean "reduce_gbs"`,
		"gap_ns: 10\n>":                      `gap_ns`,
		"gap_ns: 10>gap_ns: 10\ngap_ns: 11":  `gap_ns`,
		"name: round>name: ''":               `no name`,
		text + ">":                           `latency_ns`,
		text + ">[1, 2]":                     `network.yaml:1:1`,
	} {
		old, new, _ := strings.Cut(change, ">")
		path := fileOf(t, strings.Replace(text, old, new, 1))
		_, joining := join(2, path)
		checking := backend{}.CheckMachine(path, "", 2)
		for _, err := range []error{joining, checking} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %v, want %q", change, err, want)
			}
		}
	}
	torus := fileOf(t, "name: t\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}\n")
	if err := (backend{}).CheckMachine(torus, "", 5); err == nil ||
		!strings.Contains(err.Error(), "it has 4 ranks, want 5") {
		t.Errorf("more ranks than the network has: %v", err)
	}
	if got, err := (backend{}).DescribeMachine(torus, ""); err != nil || got.Text != "network t: 4 torus" ||
		got.Ranks != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := join(2, "nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "nowhere.yaml: no such file") {
		t.Errorf("a file that is missing: %v", err)
	}
	if _, err := (backend{}).DescribeMachine("nowhere.yaml", ""); err == nil {
		t.Error("a file that is missing was described")
	}
	if got, err := (backend{}).DescribeMachine(fileOf(t, text), ""); err != nil ||
		got.Text != "network round: latency 1000 ns, overhead 100 ns, gap 10 ns, 10 GB/s" {
		t.Errorf("%q, %v", got.Text, err)
	}
}

// Operations that a virtual group does not offer return an error with the reason, and the group stays
// usable.
func TestNotOffered(t *testing.T) {
	g := joined(t, 4, text)
	if _, err := g.Split(0, 0); err == nil || !strings.Contains(err.Error(), "no groups") {
		t.Errorf("splitting: %v", err)
	}
	b, err := g.Alloc(dist.F32, 4)
	memory, _ := b.Memory().(dist.DeviceMemory)
	if err != nil || memory.Read(make([]byte, 4), 0) == nil || memory.Write(0, make([]byte, 4)) == nil {
		t.Errorf("memory that is nowhere was read or written; %v", err)
	}
	if err := g.AllReduce(b, b, dist.Sum); err != nil {
		t.Errorf("the group has failed by it: %v", err)
	}
	if err := g.Free(b); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		rank, size int
		want       string
	}{{1, 4, "only rank 0"}, {0, maxRanks + 1, "1048576 at most"}} {
		_, err := dist.Init(t.Context(), dist.Config{Backend: Name, Rank: c.rank, Size: c.size, ID: "test"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("rank %d of %d: %v", c.rank, c.size, err)
		}
	}
	has := func(size int) bool {
		return slices.Contains((&engine{size: size}).Capabilities().Algorithms[dist.AllReduce], "two-stage")
	}
	if !has(maxDirectRanks) || has(maxDirectRanks+1) {
		t.Error("what reads peers' memory is offered to more ranks than it is proved for, or to fewer")
	}
}

// Calls that are too large are refused before anything runs, with the number of messages; large ones get a note.
func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		ranks     int
		note, err string
	}{
		{"ring", 512, "", ""}, {"recursive-doubling", 65536, "", ""},
		{"ring", 4096, "allreduce ring with 4096 ranks sends about 33.5M messages: about 22 CPU-seconds and 0.8 GiB of memory", ""},
		{"recursive-doubling", 1 << 20,
			"sends about 21M messages: about 29 CPU-seconds and 2.3 GiB of memory", ""},
		{"ring", 16384, "", "sends about 537M messages, and at most 67.1M are simulated: take fewer ranks"},
		{"", 16384, "", "allreduce ring with 16384 ranks"},
		{"one-stage", 4096, "", "sends about 67.1M messages and reads the memory of peers, which is proved for at most 1024"},
		{"ring", 1 << 20, "", "messages, and at most 67.1M are simulated"},
	} {
		note, err := backend{}.Estimate(dist.AllReduce, c.algorithm, c.ranks, 1<<18)
		if !strings.Contains(note, c.note) || (note == "") != (c.note == "") || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s with %d ranks: %q, %v", c.algorithm, c.ranks, note, err)
		}
	}
}

// The estimated messages are exact, and the estimated memory is within a factor of 1.5 of what a proof and a simulation
// allocate.
func TestEstimateIsClose(t *testing.T) {
	network := loggp.Default()
	for _, c := range []struct {
		algorithm string
		ranks     int
	}{{"recursive-doubling", 1 << 11}, {"recursive-doubling", 1 << 13}, {"recursive-doubling", 1 << 15},
		{"halving-doubling", 1 << 13}} {
		s := must.Get(schedule.New(schedule.AllReduce, c.algorithm, schedule.Params{Ranks: c.ranks, Count: 1 << 18}))(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		kept := schedule.Keep(s)
		must.Do(t, schedule.Prove(kept))
		r := must.Get(loggp.Run(kept, 4, network))(t)
		runtime.ReadMemStats(&after)
		messages := schedule.Messages(s, maxMessages)
		if messages != r.Messages {
			t.Errorf("%s with %d ranks: %d messages estimated, %d sent", c.algorithm, c.ranks, messages, r.Messages)
		}
		estimated := float64(memory(c.ranks, messages) - fixedBytes)
		if ratio := float64(after.TotalAlloc-before.TotalAlloc) / estimated; ratio < 1/1.5 || ratio > 1.5 {
			t.Errorf("%s with %d ranks: %.2f times as much memory as estimated", c.algorithm, c.ranks, ratio)
		} else {
			t.Logf("%s with %d ranks: %.2f times the estimated memory", c.algorithm, c.ranks, ratio)
		}
	}
}
