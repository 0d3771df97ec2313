package probe

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// scripted is a host with round numbers: two cores have twice the bandwidth of one, and small sets
// have ten times the bandwidth of large ones.
func scripted() Result {
	h := hostinfo.Local()
	r := Result{Schema: Schema, Class: Class(h), Version: Version(h.Build), Cores: 4, Profile: "scripted",
		Hops: []Hop{{0, 1, 0.1}, {0, 2, 0.3}, {0, 3, 0.2}}}
	for _, n := range []int{1, 2, 4} {
		for _, c := range []struct {
			bytes int64
			gbps  float64
		}{{1 << 10, 100}, {1 << 20, 10}} {
			r.Copy = append(r.Copy, Cell{n, c.bytes, c.gbps * float64(n)})
			r.Read = append(r.Read, Cell{n, c.bytes, 0.8 * c.gbps * float64(n)})
		}
	}
	return r
}

func TestLookup(t *testing.T) {
	r := scripted()
	for _, c := range []struct {
		cores int
		bytes float64
		want  float64
	}{
		{1, 1 << 10, 100}, {1, 1 << 20, 10}, {2, 1 << 20, 20},
		{1, 1, 100}, {1, 1 << 30, 10}, // outside the range the nearest cell applies
		{1, 1 << 15, 55},                  // half way in the logarithm
		{3, 1 << 20, 30},                  // between two and four cores
		{64, 1 << 20, 40}, {0, 1024, 100}, // more cores than probed, and fewer
	} {
		if got := r.CopyGBps(c.cores, c.bytes); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d cores at %v bytes: %v GB/s, want %v", c.cores, c.bytes, got, c.want)
		}
	}
}

// A smaller set is no slower than a larger one, so a cell that says otherwise was disturbed.
func TestLookupPassesOverDisturbedCells(t *testing.T) {
	cells := []Cell{{1, 1 << 10, 50}, {1, 1 << 12, 3}, {1, 1 << 14, 20}, {1, 1 << 16, 30}, {1, 1 << 18, 10}}
	for bytes, want := range map[float64]float64{1 << 10: 50, 1 << 11: 40, 1 << 12: 30, 1 << 14: 30, 1 << 16: 30,
		1 << 17: 20, 1 << 18: 10, 1 << 20: 10, 1: 50, 0: 50} {
		if got := lookup(cells, 1, bytes); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v bytes: %v GB/s, want %v", bytes, got, want)
		}
	}
}

// TimeUS reproduces the probed times of a pure copy and of a pure read.
func TestTimeOfTraffic(t *testing.T) {
	r := scripted()
	const set = 1 << 20
	if got, want := r.TimeUS(Traffic{Cores: 2, Set: set, Loads: 1e6, Stores: 1e6}), 2e6/20/1e3; math.Abs(got-want) > 1e-9 {
		t.Errorf("a copy of 1 MB takes %v us, want %v", got, want)
	}
	if got, want := r.TimeUS(Traffic{Cores: 2, Set: set, Loads: 1e6}), 1e6/16/1e3; math.Abs(got-want) > 1e-9 {
		t.Errorf("a read of 1 MB takes %v us, want %v", got, want)
	}
	if got := r.TimeUS(Traffic{Cores: 2, Set: set}); got != 0 {
		t.Errorf("no traffic takes %v us", got)
	}
}

// More traffic never takes less time, whatever was probed, even if a copy was faster than its read.
func TestTimeIsMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := scripted()
		for i := range r.Copy {
			r.Copy[i].GBps = rapid.Float64Range(0.1, 1000).Draw(t, "copy")
			r.Read[i].GBps = rapid.Float64Range(0.1, 1000).Draw(t, "read")
		}
		a := Traffic{Cores: rapid.IntRange(1, 9).Draw(t, "cores"), Set: rapid.Float64Range(1, 1e9).Draw(t, "set"),
			Loads: rapid.Float64Range(0, 1e9).Draw(t, "loads"), Stores: rapid.Float64Range(0, 1e9).Draw(t, "stores")}
		b := a
		b.Loads += rapid.Float64Range(0, 1e9).Draw(t, "more loads")
		b.Stores += rapid.Float64Range(0, 1e9).Draw(t, "more stores")
		if x, y := r.TimeUS(a), r.TimeUS(b); !(x >= 0) || !(y >= x) {
			t.Fatalf("%+v takes %v us, %+v takes %v", a, x, b, y)
		}
	})
}

func TestHop(t *testing.T) {
	if got := scripted().HopUS(); got != 0.2 {
		t.Errorf("the hop is %v us, want the median 0.2", got)
	}
	if got := (Result{}).HopUS(); got != 0 {
		t.Errorf("without pairs the hop is %v us", got)
	}
}

// The class does not depend on the binding of the process that asks, but on the cores that the control group
// grants.
func TestClassIgnoresBinding(t *testing.T) {
	h := hostinfo.Host{Arch: "amd64", Memory: 1 << 34,
		CPU: hostinfo.CPU{Model: "X", Threads: 16, Cores: 16, Affinity: 16, Usable: 16}}
	bound := h
	bound.CPU.Affinity, bound.CPU.Usable = 1, 1
	if Class(h) != Class(bound) {
		t.Error("a bound process has another class")
	}
	limited := h
	limited.CPU.Quota = 2
	if Class(h) == Class(limited) {
		t.Error("a quota does not change the class")
	}
}

// Results of another host, version or schema are rejected, and so are results with which nothing can be
// computed.
func TestCheck(t *testing.T) {
	h := hostinfo.Local()
	must.Do(t, scripted().Check(h))
	for name, change := range map[string]func(*Result){
		"class":   func(r *Result) { r.Class = "other" },
		"version": func(r *Result) { r.Version = "v0" },
		"schema":  func(r *Result) { r.Schema++ },
	} {
		r := scripted()
		change(&r)
		if err := r.Check(h); !errors.Is(err, ErrStale) {
			t.Errorf("another %s: %v, want ErrStale", name, err)
		}
	}
	for name, change := range map[string]func(*Result){
		"no copy":       func(r *Result) { r.Copy = nil },
		"zero":          func(r *Result) { r.Read[1].GBps = 0 },
		"not a number":  func(r *Result) { r.Read[1].GBps = math.NaN() },
		"order":         func(r *Result) { slices.Reverse(r.Copy) },
		"no cores":      func(r *Result) { r.Copy[0].Cores = 0 },
		"negative size": func(r *Result) { r.Copy[0].Bytes = -1 },
	} {
		r := scripted()
		change(&r)
		if err := r.Check(h); err == nil || errors.Is(err, ErrStale) {
			t.Errorf("%s: %v, want an error that is not ErrStale", name, err)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "probe.json")
	want := scripted()
	must.Do(t, Save(path, want))
	got := must.Get(Load(path, hostinfo.Local()))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want.Version = "v0"
	must.Do(t, Save(path, want))
	if _, err := Load(path, hostinfo.Local()); !errors.Is(err, ErrStale) {
		t.Errorf("a stale file gives %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzLoad(f *testing.F) {
	good, _ := json.Marshal(scripted())
	f.Add(good)
	f.Add([]byte(`{"schema":1}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "probe.json")
		must.Do(t, os.WriteFile(path, data, 0o600))
		r, err := Load(path, hostinfo.Local())
		if err != nil {
			return
		}
		if us := r.TimeUS(Traffic{Cores: 3, Set: 1e5, Loads: 1e6, Stores: 1e6}); !(us >= 0) {
			t.Errorf("an accepted result gives %v us", us)
		}
	})
}

func TestCoreCountsAndSets(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 16: {1, 2, 4, 8, 16}} {
		if diff := cmp.Diff(want, coreCounts(n)); diff != "" {
			t.Errorf("%d cores: %s", n, diff)
		}
	}
	for _, cores := range []int{1, 2, 16, 96} {
		for _, lastLevel := range []int64{0, 8 << 20, 300 << 20} {
			list := Quick.workingSets(cores, lastLevel, 1<<34)
			if list[0] != smallestSet || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
				t.Errorf("%d cores: %v", cores, list)
			}
			if total := list[len(list)-1] * int64(cores); total > Quick.Memory {
				t.Errorf("%d cores touch %d bytes", cores, total)
			}
			if list[len(list)-1]%blockBytes != 0 {
				t.Errorf("the largest set %d is no whole number of blocks", list[len(list)-1])
			}
		}
	}
}

func TestUsable(t *testing.T) {
	for want, host := range map[int64]hostinfo.Host{8: {Memory: 8}, 2: {Memory: 8, MemoryMax: 2}} {
		if got := usableMemory(host); got != want {
			t.Errorf("%d of %d, limit %d: %d usable", want, host.Memory, host.MemoryMax, got)
		}
	}
}

// With any number of cores and any cache size, at least half of the memory stays free.
func TestRoom(t *testing.T) {
	const memory = 8 << 30
	for _, cores := range []int{1, 2, 6, 16, 128} {
		lists := make(map[int][]int64)
		for _, n := range coreCounts(cores) {
			lists[n] = Thorough.workingSets(n, 1<<30, memory)
		}
		var total int64
		for _, need := range memoryPerCore(cores, lists) {
			total += need
		}
		if total == 0 || total > memory/2 {
			t.Errorf("%d cores: %d bytes of %d", cores, total, int64(memory))
		}
	}
}

func TestPartners(t *testing.T) {
	for _, c := range []struct {
		cores, most int
		want        []int
	}{{2, 3, []int{1}}, {4, 3, []int{1, 2, 3}}, {16, 3, []int{1, 8, 15}}, {16, 1, []int{1}}} {
		if diff := cmp.Diff(c.want, partners(c.cores, c.most)); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

// Measure gives a complete result on any machine. The test does not judge its speed.
func TestMeasure(t *testing.T) {
	p := Profile{Name: "test", Time: time.Millisecond, Step: 1 << 10, Memory: 8 << 20, Hops: 1}
	r, err := Measure(t.Context(), p, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(hostinfo.Local()); err != nil {
		t.Error(err)
	}
	if r.Cores > 1 && (len(r.Hops) != 1 || !(r.HopUS() > 0)) {
		t.Errorf("latencies are missing: %+v", r)
	}
	if len(r.Copy) != len(r.Read) {
		t.Errorf("%d cells of copy, %d of read", len(r.Copy), len(r.Read))
	}

	// Only the requested numbers of cores are probed, in any order; a number that is too large is an error.
	p.Counts = []int{r.Cores, 1, r.Cores}
	r = must.Get(Measure(t.Context(), p, time.Unix(0, 0)))(t)
	counts := make([]int, len(r.Copy))
	for i, c := range r.Copy {
		counts[i] = c.Cores
	}
	if got, want := slices.Compact(counts), slices.Compact([]int{1, r.Cores}); !slices.Equal(got, want) {
		t.Errorf("probed %v cores, want %v", got, want)
	}
	p.Counts = []int{1} // more cores would need memory
	if r, err = Measure(t.Context(), p, time.Unix(0, 0)); err != nil || len(r.Exchange) != 0 {
		t.Errorf("one core exchanges %v, %v", r.Exchange, err)
	}
	for _, n := range []int{0, r.Cores + 1} {
		p.Counts = []int{n}
		if _, err := Measure(t.Context(), p, time.Unix(0, 0)); !errors.Is(err, ErrCoreCount) {
			t.Errorf("%d cores: %v", n, err)
		}
	}
}

// Every core ends up with the data of its counterparts, whichever core is faster.
func TestExchangeMovesTheBytes(t *testing.T) {
	for _, way := range []exchangeMethod{{64 << 10, vec.Copy}, {256 << 10, vec.CopyNT}} {
		for _, cores := range []int{2, 4} {
			for _, pieces := range []int{1, 2, 5} {
				const calls = 3
				bytes := pieces * way.piece
				memory := make([][]byte, cores)
				for i := range memory {
					memory[i] = make([]byte, 2*bytes)
					for j := range memory[i] {
						memory[i][j] = byte(j*7 + i*13 + j>>12)
					}
				}
				var wait sync.WaitGroup
				for _, call := range exchangers(memory, bytes, way) {
					wait.Go(func() {
						for range calls {
							call()
						}
					})
				}
				wait.Wait()
				for i := range memory {
					for p := range pieces {
						from := counterpart(cores, i, (calls-1)*pieces+p)
						off := p * way.piece
						if !slices.Equal(memory[i][bytes+off:][:way.piece], memory[from][off:][:way.piece]) {
							t.Errorf("%d cores, %d pieces of %d: core %d has not got piece %d of core %d", cores, pieces, way.piece, i, p,
								from)
						}
					}
				}
			}
		}
	}
}

// In each round every core has a counterpart, and over all rounds every pair meets once.
func TestEveryPairMeets(t *testing.T) {
	for _, cores := range []int{2, 4, 6, 16, 30} {
		met := make(map[[2]int]int)
		for round := range cores - 1 {
			for i := range cores {
				other := counterpart(cores, i, round)
				if other == i || counterpart(cores, other, round) != i || counterpart(cores, i, round+cores-1) != other {
					t.Errorf("%d cores, round %d: %d meets %d, which meets %d", cores, round, i, other,
						counterpart(cores, other, round))
				}
				met[[2]int{i, other}]++
			}
		}
		if len(met) != cores*(cores-1) {
			t.Errorf("%d cores: %d of %d pairs meet", cores, len(met), cores*(cores-1))
		}
	}
}

func TestExchangeTime(t *testing.T) {
	r := scripted()
	if got := r.ExchangeUS(2, 1e6, 1<<20); got != 0 {
		t.Errorf("not probed, but %v us", got)
	}
	r.Exchange = []Cell{{2, 1 << 10, 8}, {2, 1 << 20, 4}, {4, 1 << 10, 6}, {4, 1 << 20, 2}}
	for _, c := range []struct {
		cores            int
		crossing, memory float64
		want             float64
	}{
		// The probed exchange takes its probed time.
		{2, 1e6, 2e6, 250}, {3, 1e6, 2e6, 1e3 / 3.}, {4, 1e6, 2e6, 500}, {9, 1e6, 2e6, 500},
		// Memory that fits into the caches adds no time.
		{2, 1e6, 1 << 10, 125}, {2, 1e6, 0, 125},
		// Bytes that cross twice come from memory only once.
		{2, 2e6, 2e6, 375},
	} {
		if got := r.ExchangeUS(c.cores, c.crossing, c.memory); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d cores, %v bytes out of %v: %v us, want %v", c.cores, c.crossing, c.memory, got, c.want)
		}
	}
}

// A disturbed probe says so, is measured again after a while, and keeps the better numbers.
func TestDisturbed(t *testing.T) {
	quiet := hostinfo.Load{Times: hostinfo.Times{User: 100, Idle: 1000}}
	for _, c := range []struct {
		after hostinfo.Times
		own   uint64
		want  string
	}{
		{hostinfo.Times{User: 300, Idle: 1200}, 200, ""},
		{hostinfo.Times{User: 300, Idle: 1100, Steal: 100}, 200,
			"took 25 % of this host's CPU time and other programs used 0 %"},
		{hostinfo.Times{User: 300, Idle: 1200}, 100, "took 0 % of this host's CPU time and other programs used 25 %"},
	} {
		if got := disturbance(quiet, hostinfo.Load{Times: c.after}, c.own, 1); (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%+v, own %d: %q, want %q", c.after, c.own, got, c.want)
		}
	}
	now := time.Now()
	for what, c := range map[string]struct {
		r    Result
		want bool
	}{
		"quiet":       {Result{Profile: Quick.Name, Time: now.Add(-time.Hour)}, false},
		"disturbed":   {Result{Profile: Quick.Name, Time: now.Add(-time.Hour), Disturbed: "load"}, true},
		"just now":    {Result{Profile: Quick.Name, Time: now, Disturbed: "load"}, false},
		"tomorrow":    {Result{Profile: Quick.Name, Time: now.Add(time.Hour), Disturbed: "load"}, true},
		"by somebody": {Result{Profile: Thorough.Name, Time: now.Add(-time.Hour), Disturbed: "load"}, false},
	} {
		if got := c.r.needsRemeasure(now); got != c.want {
			t.Errorf("%s: measured again: %v", what, got)
		}
	}
	old := Result{Copy: []Cell{{1, 64, 9}, {2, 64, 5}}, Read: []Cell{{1, 64, 1}}, Hops: []Hop{{0, 1, 0.3}}}
	r := Result{Copy: []Cell{{1, 64, 3}, {2, 64, 8}, {4, 64, 1}}, Read: []Cell{{1, 128, 7}},
		Hops: []Hop{{0, 1, 0.5}, {0, 2, 1}}, Disturbed: "load"}.withBest(old)
	want := Result{Copy: []Cell{{1, 64, 9}, {2, 64, 8}, {4, 64, 1}}, Read: []Cell{{1, 128, 7}},
		Hops: []Hop{{0, 1, 0.3}, {0, 2, 1}}, Disturbed: "load"}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}
