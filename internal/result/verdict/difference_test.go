package verdict

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// machineHeader returns the header of a run on an ordinary machine.
func machineHeader(id string) *journal.Header {
	return &journal.Header{Run: id, Bench: "allreduce", Version: "3", Seed: 1, Launcher: "local", Bind: "core",
		Host: hostinfo.Host{Hostname: "node1", OS: "Debian 12", Kernel: "6.1.0-18", Memory: 64 << 30,
			CPU: hostinfo.CPU{Model: "Xeon 6338", Threads: 64, Usable: 64}, GPUDriver: "NVIDIA 550.54.15",
			Build: hostinfo.Build{Version: "v1.2.0", Revision: "0123456789abcdef"}},
		Environ: map[string]string{"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "8"},
		Inputs:  map[string]string{"prog": "aaaaaaaaaaaaaaaa"},
		Metrics: []journal.MetricInfo{{Name: dataset.TimeMetric, Unit: "us", Better: "lower"}}}
}

// TestDifferences changes one fact at a time and checks that it is listed, alone and in every
// format.
func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(h *journal.Header, r *journal.Row)
	}{
		{"nothing", "", func(*journal.Header, *journal.Row) {}},
		{"host", "host: node1 -> node2", func(_ *journal.Header, r *journal.Row) { r.Host = "node2" }},
		{"cpu", "cpu: Xeon 6338 -> EPYC 9654 (not comparable; --ignore cpu compares anyway)",
			func(h *journal.Header, _ *journal.Row) { h.Host.CPU.Model = "EPYC 9654" }},
		{"gpu", "gpu: NVIDIA H200 -> NVIDIA L4 (not comparable; --ignore gpu compares anyway)",
			func(_ *journal.Header, r *journal.Row) { r.Details = map[string]string{"gpu": "NVIDIA L4"} }},
		{"machine", "machine: 64 threads, 64 usable, about 64GiB -> 64 threads, 4 usable, about 64GiB",
			func(h *journal.Header, _ *journal.Row) { h.Host.CPU.Usable = 4 }},
		{"share of a machine", "machine: 64 threads, 64 usable, about 64GiB -> 64 threads, 6.67 usable, about 64GiB",
			func(h *journal.Header, _ *journal.Row) { h.Host.CPU.Usable = 20.0 / 3 }},
		{"kernel", "kernel: 6.1.0-18 -> 6.8.0", func(h *journal.Header, _ *journal.Row) { h.Host.Kernel = "6.8.0" }},
		{"driver", "driver: NVIDIA 550.54.15 -> NVIDIA 570.1",
			func(h *journal.Header, _ *journal.Row) { h.Host.GPUDriver = "NVIDIA 570.1" }},
		{"build", "kernbench: v1.2.0 01234567 -> v1.2.0 fedcba98 modified", func(h *journal.Header, _ *journal.Row) {
			h.Host.Build.Revision, h.Host.Build.Modified = "fedcba9876543210", true
		}},
		{"build without a version", "kernbench: v1.2.0 01234567 -> 01234567",
			func(h *journal.Header, _ *journal.Row) { h.Host.Build.Version = "" }},
		{"version", "version: 3 -> 4", func(h *journal.Header, _ *journal.Row) { h.Version = "4" }},
		{"direction", "better: lower -> higher (not comparable; --ignore better compares anyway)",
			func(h *journal.Header, _ *journal.Row) { h.Metrics[0].Better = "higher" }},
		{"unknown direction", "", func(h *journal.Header, _ *journal.Row) { h.Metrics[0].Better = "" }},
		{"seed", "seed: 1 -> 7", func(h *journal.Header, _ *journal.Row) { h.Seed = 7 }},
		{"environment", "NCCL_ALGO: Ring -> Tree",
			func(h *journal.Header, _ *journal.Row) {
				h.Environ = map[string]string{"NCCL_ALGO": "Tree", "OMP_NUM_THREADS": "8"}
			}},
		{"environment unset", "OMP_NUM_THREADS: 8 -> unset",
			func(h *journal.Header, _ *journal.Row) { h.Environ = map[string]string{"NCCL_ALGO": "Ring"} }},
		{"inputs", "inputs: prog aaaaaaaa -> prog bbbbbbbb",
			func(h *journal.Header, _ *journal.Row) { h.Inputs = map[string]string{"prog": "bbbbbbbbbbbbbbbb"} }},
		{"sampling", "sampling: 10 to 1000 samples, ±1% -> 10 to 1000 samples, ±5%",
			func(_ *journal.Header, r *journal.Row) {
				r.Sampling = &journal.Sampling{MinSamples: 10, MaxSamples: 1000, Target: 0.05}
			}},
		{"bind", "bind: core -> none", func(h *journal.Header, _ *journal.Row) { h.Bind = "none" }},
		{"cadence", "cadence: burst -> isolated", func(_ *journal.Header, r *journal.Row) { r.Cadence = "isolated" }},
		{"kind of host of simulated rows", "kind: measured -> simulated", func(h *journal.Header, r *journal.Row) {
			r.Kind, h.Host.Kernel, h.Host.CPU.Model = journal.Simulated, "6.8.0", "EPYC 9654"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := sideOf("", machineHeader("a"), dataset.All(trialsOf(1, 10)))
			new := sideOf("", machineHeader("b"), dataset.All(trialsOf(1, 11)))
			for _, rows := range []dataset.Set{old.Rows, new.Rows} {
				for i := range rows {
					rows[i].Host, rows[i].Cadence, rows[i].Details = "node1", "burst", map[string]string{"gpu": "NVIDIA H200"}
					rows[i].Sampling = &journal.Sampling{MinSamples: 10, MaxSamples: 1000, Target: 0.01}
				}
			}
			for i := range new.Rows {
				c.change(&new.Header, new.Rows[i])
			}
			r := compare(t, old, new, Options{})
			got := []string{}
			for _, d := range r.Differences {
				got = append(got, d.String())
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("differences are %q, want %q", got, c.want)
			}
			for _, format := range Formats() {
				var b bytes.Buffer
				must.Do(t, r.Write(&b, format, "", 0))
				name, _, _ := strings.Cut(c.want, ":")
				if !strings.Contains(b.String(), name) {
					t.Errorf("%s does not name it:\n%s", format, b.String())
				}
			}
		})
	}
}

// TestDifferencesOfAllRows changes the program, a variable and a file for some trials of some points:
// all rows are compared, and the number of points that differ is given.
func TestDifferencesOfAllRows(t *testing.T) {
	side := func(id string) dataset.Named {
		h := machineHeader(id)
		h.Fingerprints = map[string]journal.Inputs{
			"1": {"program ./a": "1111111111", "unit time_us": "us"}, "2": {"program ./a": "2222222222"},
			"3": {"program ./a": "1111111111", "file x": "3333333333"},
		}
		return sideOf("", h, dataset.All(slices.Concat(trialsOf(1, 10), trialsOf(2, 10), trialsOf(3, 10))))
	}
	for _, c := range []struct {
		name   string
		change func(new *dataset.Named)
		want   string
	}{
		{"none", func(*dataset.Named) {}, ""},
		{"last trial", func(new *dataset.Named) { new.Rows[5].Inputs = "2" },
			"inputs: program ./a 11111111 -> program ./a 11111111, program ./a 22222222 in 1 of 3 points"},
		{"two points", func(new *dataset.Named) { new.Rows[5].Inputs, new.Rows[17].Inputs = "2", "2" },
			"inputs: program ./a 11111111 -> program ./a 11111111, program ./a 22222222 in 2 of 3 points"},
		{"a file of some rows", func(new *dataset.Named) { new.Rows[8].Inputs = "3" },
			"inputs: file x absent -> file x 33333333, file x absent in 1 of 3 points"},
		{"a unit is compared elsewhere", func(new *dataset.Named) { delete(new.Header.Fingerprints["1"], "unit time_us") }, ""},
		{"another run", func(new *dataset.Named) {
			other := machineHeader("other")
			other.Fingerprints, other.Environ = new.Header.Fingerprints, map[string]string{"NCCL_ALGO": "Ring"}
			new.Rows[3].Origin = &journal.Origin{Header: other}
		}, "OMP_NUM_THREADS: 8 -> 8, unset in 1 of 3 points"},
	} {
		old, new := side("a"), side("b")
		for _, rows := range []dataset.Set{old.Rows, new.Rows} {
			for i := range rows {
				rows[i].Inputs = "1"
			}
		}
		c.change(&new)
		var got []string
		for _, d := range differencesOf(old, new, Options{Metric: dataset.TimeMetric}) {
			got = append(got, d.String())
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestForgedLines puts line ends and escape sequences into the texts of two runs: no format may print
// a line that they forge.
func TestForgedLines(t *testing.T) {
	const evil = "x\nFORGED 1\r\nFORGED\x1b[31m"
	side := func(us float64) dataset.Named {
		h := machineHeader("run" + evil)
		h.Bench, h.Environ, h.Host.Kernel = "b"+evil, map[string]string{"V" + evil: fmt.Sprint(us, evil)},
			fmt.Sprint(us, evil)
		run := sideOf("", h, dataset.All(slices.Concat(trialsOf(1, us), trialsOf(2, us))))
		for i := range run.Rows {
			row := run.Rows[i]
			row.Bench, row.Part, row.Point = evil, evil, row.Point.With("n"+evil, point.StringValue(evil))
			row.Env = point.Env{{Name: "E" + evil, Value: evil, Set: true}}
			row.Conditions.Add(journal.Remarkf("%s", evil))
		}
		*run.Rows[3] = bad(*run.Rows[3], journal.Failed, evil)
		return run
	}
	r := compare(t, side(10), side(30), Options{})
	for _, format := range Formats() {
		var b bytes.Buffer
		must.Do(t, r.Write(&b, format, "", 0))
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(strings.TrimLeft(line, " |*#-"), "FORGED") ||
				strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r") {
				t.Errorf("%s prints %q", format, line)
			}
		}
	}
}

// TestGPUOf checks whose GPU counts: the row's own, or the host's unless the ranks of the backend use none.
func TestGPUOf(t *testing.T) {
	h := machineHeader("r")
	h.Host.GPUs = "H200"
	two := 2
	for _, c := range []struct {
		row  journal.Row
		want string
	}{
		{journal.Row{Backend: "cpu", NumRanks: &two}, ""},
		{journal.Row{Backend: "cpu"}, "H200"}, // a program that starts its own ranks may use it
		{journal.Row{Backend: "unknown", NumRanks: &two}, "H200"},
		{journal.Row{Backend: "cpu", NumRanks: &two, Details: map[string]string{"device": "A100"}}, "A100"},
		{journal.Row{Details: map[string]string{"device": "A100", journal.DeviceDetail: "L4"}}, "L4"},
	} {
		if got := gpuOf(h, &c.row); got != c.want {
			t.Errorf("backend %s, %v: %q, want %q", c.row.Backend, c.row.Details, got, c.want)
		}
	}
}

// TestNotComparable checks that another CPU leaves no verdict, unless it is ignored, and that other differences do not
// prevent one.
func TestNotComparable(t *testing.T) {
	old := sideOf("", machineHeader("a"), dataset.All(trialsOf(1, 10)))
	new := sideOf("", machineHeader("b"), dataset.All(trialsOf(1, 30)))
	new.Header.Host.CPU.Model = "EPYC 9654"
	r := compare(t, old, new, Options{})
	p := r.Points[0]
	if p.Verdict != NotComparable || p.Effect != nil || r.ExitCode() != 3 ||
		!slices.Contains(p.Notes, "not comparable: different cpu") {
		t.Errorf("another CPU: %s, %+v, exit %d, %q", p.Verdict, p.Effect, r.ExitCode(), p.Notes)
	}
	r = compare(t, old, new, Options{Ignore: []string{"cpu"}})
	if r.Points[0].Verdict != judge.Slower || len(r.Differences) != 1 || !r.Differences[0].Ignored {
		t.Errorf("ignored: %s, %+v", r.Points[0].Verdict, r.Differences)
	}
	_, err := Compare(old, new, Options{Ignore: []string{"cpus"}})
	if err == nil || !strings.Contains(err.Error(), `did you mean "cpu"?`) {
		t.Errorf("an unknown name gives %v", err)
	}
}

// declared returns a run whose metric lat has a unit, and six trials of a value.
func declared(unit string, value float64) dataset.Named {
	run := sideOf("", &journal.Header{Run: unit, Bench: "allreduce",
		Metrics: []journal.MetricInfo{{Name: "lat", Unit: unit, Better: "lower"}}}, dataset.All(trialsOf(1, value)))
	for i := range run.Rows {
		run.Rows[i].Metrics = map[string]float64{"lat": run.Rows[i].Metrics[dataset.TimeMetric]}
		run.Rows[i].Units = map[string]string{"lat": unit}
	}
	return run
}

// TestUnits compares one metric in different units: 12.5 µs and 0.0125 ms are the same.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		old, new dataset.Named
		want     judge.Verdict
		differs  string
	}{
		{declared("us", 12.5), declared("ms", 0.0125), judge.Same, "unit: us -> ms (converted)"},
		{declared("ms", 0.0125), declared("us", 14), judge.Slower, "unit: ms -> us (converted)"},
		{declared("us", 12.5), declared("GB/s", 12.5), NotComparable,
			"unit: us -> GB/s (not comparable; --ignore unit compares anyway)"},
		{declared("us", 12.5), declared("", 12.5), NotComparable,
			"unit: us -> none (not comparable; --ignore unit compares anyway)"},
		{declared("widgets", 12.5), declared("widgets", 12.5), judge.Same, ""},
	} {
		r := compare(t, c.old, c.new, Options{Metric: "lat"})
		p := r.Points[0]
		differs := ""
		if len(r.Differences) > 0 {
			differs = r.Differences[0].String()
		}
		if p.Verdict != c.want || differs != c.differs {
			t.Errorf("%s and %s: %s, %q; want %s, %q", c.old.ID(), c.new.ID(), p.Verdict, differs, c.want, c.differs)
		}
	}
	p := compare(t, declared("us", 12.5), declared("GB/s", 12.5), Options{Metric: "lat"}).Points[0]
	if p.Old.text() != "12.5 µs" || p.New.text() != "12.5" {
		t.Errorf("values are shown as %q and %q", p.Old.text(), p.New.text())
	}
	// The caller's rows stay as they are.
	run := declared("ms", 1)
	compare(t, run, declared("us", 1000), Options{Metric: "lat"})
	if v := run.Rows[4].Metrics["lat"]; v != 1 {
		t.Errorf("the row was changed to %v", v)
	}
}

// TestAdviceFitsTheCase checks the remark on points without a verdict.
func TestAdviceFitsTheCase(t *testing.T) {
	disturbed := func(rows []journal.Row, n int) []journal.Row {
		for i := range n {
			rows[i].Quality = journal.QualityDisturbed
		}
		return rows
	}
	failed := func(rows []journal.Row, n int) []journal.Row {
		for i := range n {
			rows[i] = bad(rows[i], journal.Failed, "crashed")
		}
		return rows
	}
	for _, c := range []struct {
		name string
		new  []journal.Row
		want string
	}{
		{"all disturbed", disturbed(trialsOf(1, 30), 6),
			"not resolved: all trials of NEW that are ok were disturbed: measure again on a quiet machine"},
		{"most disturbed", disturbed(trialsOf(1, 30), 4), "not resolved: only 2 of 6 trials of NEW were undisturbed"},
		{"many failed", failed(trialsOf(1, 30)[:5], 2), "not resolved: only 3 of 5 trials of NEW are ok"},
		{"few", trialsOf(1, 30)[:3], "run with --trials 6"},
	} {
		r := compare(t, runOf("a", trialsOf(1, 10)), runOf("b", c.new), Options{})
		p := r.Points[0]
		notes := strings.Join(p.Notes, "; ")
		if p.Verdict != judge.Ambiguous || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %s, %q, want %q", c.name, p.Verdict, notes, c.want)
		}
		if c.name != "few" && strings.Contains(notes, "--trials") {
			t.Errorf("%s: %q gives the wrong advice", c.name, notes)
		}
		var b bytes.Buffer
		must.Do(t, r.Write(&b, "table", "", 0))
		if strings.Contains(c.name, "disturbed") && !strings.Contains(b.String(), "+200.00%  +199.") {
			t.Errorf("%s: the raw change is missing:\n%s", c.name, b.String())
		}
	}
}
