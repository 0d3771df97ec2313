package model

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// rivalsAt returns samples of two algorithms whose lines cross at 50 kB: one has less latency, the
// other more bandwidth.
func rivalsAt(s Series) []Sample {
	small, large := s, s
	small.Algorithm, large.Algorithm = "one-stage", "ring"
	return slices.Concat(line(small, 5, 10, 0, powers(10, 24), nil), line(large, 9.5, 100, 0, powers(10, 24), nil))
}

// choice is the fastest algorithm at one size in one setting.
type choice struct {
	setting Series
	bytes   int64
	best    Sample
}

func choicesOf(samples []Sample) (out []choice) {
	for _, g := range groupBy(samples, func(s Sample) Series { return s.Setting() }) {
		for bytes, times := range bySize(g.Items) {
			best, _ := fastest(times)
			out = append(out, choice{g.Key, bytes, best})
		}
	}
	return out
}

// The fastest algorithm is known at each size.
func TestFastest(t *testing.T) {
	samples := rivalsAt(series("", 4))
	auto := series(Auto, 4)
	samples = append(samples, line(auto, 1, 1000, 0, powers(10, 24), nil)...) // auto is not an algorithm of its own
	for _, c := range choicesOf(samples) {
		want := "one-stage"
		if c.bytes > 50_000 {
			want = "ring"
		}
		if c.best.Algorithm != want {
			t.Errorf("%d bytes: %+v, want %s", c.bytes, c, want)
		}
	}
}

const here = "node17"

// measuredHere returns times of four algorithms and of auto, which takes the choice of the built-in
// table, on both kinds of buffers. The intervals cover the noise.
func measuredHere(rnd *rand.Rand) (samples []Sample) {
	for _, ranks := range []int{2, 4, 6} {
		for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
			for _, buffers := range []string{"symmetric", "private"} {
				s := Series{DType: d.String(), Backend: "cpu", Ranks: ranks, Buffers: buffers}
				at := map[string]map[int64]Sample{}
				for _, s.Algorithm = range []string{"one-stage", "two-stage", "ring", "tree"} {
					at[s.Algorithm] = map[int64]Sample{}
					for _, m := range line(s, 1+10*rnd.Float64(), 1+20*rnd.Float64(), 0.03, powers(8, 20), rnd) {
						m.Host, m.Executed = here, m.Algorithm
						samples, at[s.Algorithm][m.Bytes] = append(samples, m), m
					}
				}
				for _, bytes := range powers(8, 20) {
					m := at[tuning.Default().Choose("cpu", schedule.AllReduce, ranks, d, int(bytes),
						buffers == "symmetric").Algorithm][bytes]
					m.Algorithm = Auto
					samples = append(samples, m)
				}
			}
		}
	}
	return samples
}

func tableOf(t rapid.TB, samples []Sample) *dist.Tuning {
	dir := must.Get(os.MkdirTemp("", "tuning"))(t)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tuning.json")
	must.Do(t, os.WriteFile(path, must.Get(Tuning(samples, Sample.Comparable))(t), 0o600))
	return must.Get(tuning.Load(path))(t)
}

// With the exported table, no measured point is significantly slower than auto was, and no point where
// auto was significantly slower than the best stays so.
func TestTuningMakesNothingSlower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := measuredHere(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3)))
		table := tableOf(t, samples).For(tuning.Group{Host: here})
		times := map[Series]map[int64]Sample{}
		for _, s := range samples {
			if times[s.Series] == nil {
				times[s.Series] = map[int64]Sample{}
			}
			times[s.Series][s.Bytes] = s
		}
		switched := 0
		for _, c := range choicesOf(samples) {
			d, _ := dtype.Parse(c.setting.DType)
			of := func(algorithm string) Sample {
				s := c.setting
				s.Algorithm = algorithm
				return times[s][c.bytes]
			}
			auto, best := of(Auto), c.best
			got := of(table.Choose("cpu", schedule.AllReduce, c.setting.Ranks, d, int(c.bytes),
				c.setting.Buffers == "symmetric").Algorithm)
			switch {
			case got.TimeUS == 0:
				t.Fatalf("%s at %d: the table names nothing that was measured", c.setting, c.bytes)
			case got.Slower(auto):
				t.Fatalf("%s at %d: the table takes %s (%v us) for %s (%v us)", c.setting, c.bytes, got.Algorithm, got.TimeUS,
					auto.Executed, auto.TimeUS)
			case auto.Slower(best) && got.Slower(best):
				t.Fatalf("%s at %d: the table takes %s (%v us), best is %s (%v us)", c.setting, c.bytes, got.Algorithm, got.TimeUS,
					best.Algorithm, best.TimeUS)
			case !auto.Slower(best) && got.Algorithm != auto.Executed:
				t.Fatalf("%s at %d: %s for %s within noise", c.setting, c.bytes, got.Algorithm, auto.Executed)
			case got.Algorithm != auto.Executed:
				switched++
			}
		}
		if switched == 0 {
			t.Fatal("the table changes nothing: this test shows nothing")
		}
	})
}

// Times without intervals, and times that do not beat auto, change no choice.
func TestTuningNeedsProof(t *testing.T) {
	s := Series{DType: "f32", Backend: "cpu", Ranks: 4, Buffers: "private"}
	samples := rivalsAt(s)
	s.Algorithm = "two-stage" // the built-in choice at 1 MiB, much slower
	samples = append(samples, line(s, 50, 1, 0, powers(10, 24), nil)...)
	at := func(samples []Sample) string {
		return tableOf(t, samples).Choose("cpu", schedule.AllReduce, 4, dtype.F32, 1<<20, false).Algorithm
	}
	if got := at(samples); got != "ring" {
		t.Errorf("with intervals: %s, want ring", got)
	}
	once := slices.Clone(samples)
	for i := range samples {
		samples[i].LowUS, samples[i].HighUS = 0, 0
		once[i].Launches = 1
	}
	for what, samples := range map[string][]Sample{"without intervals": samples, "one launch each": once} {
		if got := at(samples); got != "two-stage" {
			t.Errorf("%s: %s, want the built-in two-stage", what, got)
		}
		text := string(must.Get(Tuning(samples, Sample.Comparable))(t))
		if !strings.HasPrefix(text, `{"note": "no entries: `) || !strings.HasSuffix(text, `"entries": []}`+"\n") {
			t.Errorf("%s: the table is %s", what, text)
		}
	}
}

// A size that cannot be compared keeps today's choice, also between sizes where another algorithm is faster. The
// table ends at the largest size with a comparison.
func TestTuningLeavesGaps(t *testing.T) {
	s := Series{DType: "f32", Backend: "cpu", Ranks: 4, Buffers: "private"}
	slow, fast := s, s
	slow.Algorithm, fast.Algorithm = "two-stage", "ring"
	sizes := powers(16, 20)
	samples := slices.Concat(line(slow, 50, 1, 0, sizes, nil), line(fast, 9, 100, 0, sizes, nil))
	for i := range samples {
		if samples[i].Bytes == 1<<18 || samples[i].Bytes == 1<<20 {
			samples[i].Launches = 1
		}
	}
	var got []string
	entries, _ := TuningEntries(samples, Sample.Comparable)
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s from %d to %d", e.Algorithm, e.MinBytes, e.MaxBytes))
	}
	want := []string{"ring from 65536 to 131072", "two-stage from 131073 to 262144", "ring from 262145 to 524288"}
	if !slices.Equal(got, want) {
		t.Errorf("entries %q, want %q", got, want)
	}
}

// A measured size that cannot be compared is in no entry if today's choice is unknown. A sample without an algorithm
// leaves the comparison of calls in place as it is.
func TestTuningLeavesUnknownChoices(t *testing.T) {
	s := Series{DType: "f32", Backend: "another", Ranks: 4, Buffers: "private", Algorithm: "ring"}
	for _, s.InPlace = range []bool{false, true} {
		samples := line(s, 9, 100, 0, powers(16, 20), nil)
		samples[2].Algorithm, samples[2].InPlace = "", false
		entries, _ := TuningEntries(samples, Sample.Comparable)
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%s from %d to %d", e.Algorithm, e.MinBytes, e.MaxBytes))
		}
		if want := []string{"ring from 65536 to 131072", "ring from 262145 to 1048576"}; !slices.Equal(got, want) {
			t.Errorf("in place %v: entries %q, want %q", s.InPlace, got, want)
		}
	}
}

// Entries apply only to what was measured: the same host, backend, buffers, number of ranks, element
// type and sizes. All other calls keep the built-in choice.
func TestTuningLeavesTheRest(t *testing.T) {
	s := Series{Algorithm: "two-stage", DType: "f32", Backend: "cpu", Ranks: 4, Buffers: "symmetric"}
	samples := append(rivalsAt(s), line(s, 50, 1, 0, powers(10, 24), nil)...)
	for i := range samples {
		samples[i].Host = here
	}
	table := tableOf(t, samples)
	if got := table.For(tuning.Group{Host: here}).Choose("cpu", schedule.AllReduce, 4, dtype.F32, 1<<20,
		true).Algorithm; got != "ring" {
		t.Fatalf("where it was measured: %s, want ring", got)
	}
	type call struct {
		host, backend string
		ranks         int
		d             dtype.DType
		bytes         int
		symmetric     bool
	}
	for what, c := range map[string]call{
		"another host":       {"node18", "cpu", 4, dtype.F32, 1 << 20, true},
		"several hosts":      {"", "cpu", 4, dtype.F32, 1 << 20, true},
		"another backend":    {here, "mpi", 4, dtype.F32, 1 << 20, true},
		"fewer ranks":        {here, "cpu", 3, dtype.F32, 1 << 20, true},
		"more ranks":         {here, "cpu", 64, dtype.F32, 1 << 20, true},
		"another type":       {here, "cpu", 4, dtype.BF16, 1 << 20, true},
		"private buffers":    {here, "cpu", 4, dtype.F32, 1 << 20, false},
		"beyond the largest": {here, "cpu", 4, dtype.F32, 1 << 30, true},
		"below the smallest": {here, "cpu", 4, dtype.F32, 512, true},
	} {
		got := table.For(tuning.Group{Host: c.host}).Choose(c.backend, schedule.AllReduce, c.ranks, c.d, c.bytes, c.symmetric)
		want := tuning.Default().Choose(c.backend, schedule.AllReduce, c.ranks, c.d, c.bytes, c.symmetric)
		if got.Algorithm != want.Algorithm {
			t.Errorf("%s: %q, want the built-in %q", what, got.Algorithm, want.Algorithm)
		}
	}
	for what, samples := range map[string][]Sample{
		"nothing but auto": line(series(Auto, 2), 1, 1, 0, powers(8, 9), nil),
		"unknown buffers":  rivalsAt(Series{DType: "f32", Backend: "cpu", Ranks: 4}),
	} {
		if entries, why := TuningEntries(samples, Sample.Comparable); len(entries) > 0 ||
			!strings.Contains(why, "no named algorithm") {
			t.Errorf("%s: %v, %s", what, entries, why)
		}
	}
}

// Times measured on a GPU apply to GPUs of the same kind shared by as many ranks, on any host. Times
// on a GPU without a name apply to none.
func TestTuningOfGPUs(t *testing.T) {
	times := func(device string, sharing int) (samples []Sample) {
		s := Series{DType: "bf16", Backend: "cuda", Ranks: 8, Buffers: "symmetric", Sharing: sharing}
		for algorithm, us := range map[string]float64{Auto: 20, "one-stage": 20, "one-stage#4": 10} {
			s.Algorithm = algorithm
			m := Sample{Series: s, Bytes: 8192, TimeUS: us, LowUS: 0.99 * us, HighUS: 1.01 * us, Kind: "measured", Samples: 100,
				Launches: judge.MinLaunches, Host: here, Device: device, Executed: algorithm}
			if algorithm == Auto {
				m.Executed = "one-stage"
			}
			samples = append(samples, m)
		}
		return samples
	}
	table := tableOf(t, append(times("NVIDIA H200", 8), times("NVIDIA H200", 0)...))
	processes := dist.Describe("cuda").KnobValues(nil)
	builtIn := tuning.Default().Choose("cuda", schedule.AllReduce, 8, dtype.BF16, 8192, true).Algorithm
	for _, c := range []struct {
		device  string
		sharing int
		knobs   map[string]string
		want    string
	}{
		{"NVIDIA H200", 8, processes, "one-stage#4"}, {"NVIDIA H200", 1, processes, "one-stage#4"},
		{"NVIDIA H200", 4, processes, builtIn},
		{"NVIDIA H100", 8, processes, builtIn},
		{"NVIDIA H200", 8, dist.Describe("cuda").KnobValues(map[string]string{"ranks_as": "blocks"}), builtIn},
	} {
		e := table.For(tuning.Group{Device: c.device, PerDevice: c.sharing, Knobs: c.knobs}).Choose("cuda",
			schedule.AllReduce, 8, dtype.BF16, 8192, true)
		if got := e.Choice().String(); got != c.want {
			t.Errorf("%+v: auto takes %s", c, got)
		}
	}
	if entries, why := TuningEntries(times("", 8), Sample.Comparable); len(entries) > 0 ||
		!strings.Contains(why, "the GPU has no name") {
		t.Errorf("a GPU without a name has a table: %+v, %s", entries, why)
	}
}

// On sizes that the table has not seen, it is not slower than today's choice beyond the 95 % interval. Times are
// a + S/b with noise; sizes are a factor of 2 apart, and held-out ones lie between them.
func TestTuningOnHeldOutSizes(t *testing.T) {
	const noise = 0.03
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 5))
	switched := 0
	for range 100 {
		line := map[string][2]float64{} // alpha in us, bytes in a us
		for _, name := range []string{"ring", "two-stage"} {
			line[name] = [2]float64{5 + 20*rnd.Float64(), 1e3 * (1 + 9*rnd.Float64())}
		}
		us := func(name string, bytes int64) float64 { return line[name][0] + float64(bytes)/line[name][1] }
		sample := func(name, executed string, bytes int64) Sample {
			v := us(executed, bytes) * (1 + noise/2*(2*rnd.Float64()-1))
			return Sample{Bytes: bytes, TimeUS: v, LowUS: v * (1 - noise), HighUS: v * (1 + noise), Samples: 40,
				Launches: judge.MinLaunches, Kind: "measured", Host: here, Executed: executed,
				Series: Series{Algorithm: name, DType: "f32", Backend: "cpu", Ranks: 4,
					Buffers: "symmetric"}}
		}
		var samples []Sample
		for bytes := int64(1 << 10); bytes <= 1<<20; bytes *= 2 {
			samples = append(samples, sample("ring", "ring", bytes), sample("two-stage", "two-stage", bytes),
				sample(Auto, "two-stage", bytes))
		}
		table := tableOf(t, samples).For(tuning.Group{Host: here})
		for bytes := int64(1 << 10); bytes < 1<<20; bytes *= 2 {
			at := bytes * 3 / 2
			got := table.Choose("cpu", schedule.AllReduce, 4, dtype.F32, int(at), true).Algorithm
			if got != "two-stage" {
				switched++
			}
			if now, then := us("two-stage", at), us(got, at); then > now*(1+2*noise) {
				t.Fatalf("seed %d: at %d the table takes %s, %v us instead of %v us", seed, at, got, then, now)
			}
		}
	}
	if switched == 0 {
		t.Error("the tables change nothing: this test shows nothing")
	}
}
