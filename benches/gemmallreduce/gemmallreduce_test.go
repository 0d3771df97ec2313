package gemmallreduce

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/ahbm"
	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

var assigned = benchtest.Assign

// simulated is the backend of the simulated accelerator.
const simulated = ahbm.Name

func planned(t *testing.T, backend string, axes ...string) *plan.Plan {
	t.Helper()
	b := Bench()
	must.Do(t, b.Validate())
	req := plan.Request{Axes: assigned(axes...), Backend: backend, Seed: 1}
	if slices.Contains(hostBackends(), backend) {
		req.Options = assigned("threads=2")
	}
	return must.Get(plan.Make(b, req))(t)
}

// perform runs the body of one task, with a goroutine for each rank.
func perform(t *testing.T, task plan.Task, options point.Point, backend string) []decl.Outcome {
	t.Helper()
	cfg := measure.Default()
	cfg.Cadence = measure.Isolated
	cfg.Stop = measure.Stop{MinSamples: 6, MaxSamples: 6, MaxTime: time.Minute}
	cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 10, MaxTime: time.Second}
	return benchtest.Perform(t, bench.New("b", body).Parts[0].Body, task, options,
		decl.Setting{Backend: backend, Measure: cfg})
}

// rows runs the tasks of a plan and returns their rows.
func rows(t *testing.T, p *plan.Plan, backend string) (out []journal.Row) {
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			all := perform(t, task, p.Options, backend)
			for rank, o := range all {
				if o.Status != journal.OK || o.Metrics["wrong"] != 0 {
					t.Errorf("%s, %d ranks, rank %d: %s: %s, %v wrong", task.Point, task.Ranks, rank, o.Status, o.Reason,
						o.Metrics["wrong"])
				}
			}
			out = append(out, journal.Row{Status: all[0].Status, Point: task.Point, NumRanks: &task.Ranks, Backend: backend,
				Metrics: all[0].Metrics, Kind: all[0].Kind, Samples: all[0].Samples, Details: all[0].Details})
		}
	}
	return out
}

// Every point is exact: on 2, 4 and 8 ranks, with both splits, with partitions of different sizes,
// overlapped and not, and with empty matrices.
func TestPointsAreExact(t *testing.T) {
	ranks := "2,4,8"
	if testing.Short() {
		ranks = "2"
	}
	p := planned(t, "cpu", "shape=130x70x33,0x16x8,5x4x0", "num_ranks="+ranks, "split=m,n", "partitions=auto,1,3",
		"overlap=true,false")
	all := rows(t, p, "cpu")
	if want := 3 * (1 + strings.Count(ranks, ",")) * 2 * 3 * 2; len(all)+len(p.Dropped) != want || len(p.Dropped) == 0 {
		t.Errorf("%d rows and %d skipped, want %d together", len(all), len(p.Dropped), want)
	}
	for _, r := range all {
		m := r.Metrics
		if r.Point.At(shapeAxis).Dims()[0] == 0 {
			continue
		}
		if !(m["gemm_us"] > 0) || !(m["allreduce_us"] > 0) || !(m["sequential_us"] > 0) ||
			m["bound_us"] != max(m["gemm_us"], m["allreduce_us"]) {
			t.Errorf("%v: %v", r.Point, m)
		}
		if m["parts"] == 1 && m["recovered_pct"] != 0 {
			t.Errorf("%v: one partition recovers %v %%", r.Point, m["recovered_pct"])
		}
		if _, has := m["gemm_parts_us"]; has != (m["parts"] > 1) {
			t.Errorf("%v: %v partitions and %v", r.Point, m["parts"], m)
		}
	}
}

// If a call takes longer than the sampling time, there is a single sample. All baselines are timed
// nevertheless.
func TestOneSample(t *testing.T) {
	p := planned(t, "cpu", "shape=130x70x33", "num_ranks=2", "partitions=3")
	cfg := measure.Default()
	cfg.Cadence = measure.Isolated
	cfg.Stop = measure.Stop{MinSamples: 1, MaxSamples: 1, MaxTime: time.Minute}
	cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	for rank, o := range benchtest.Perform(t, bench.New("b", body).Parts[0].Body, p.Groups[0].Tasks[0], p.Options,
		decl.Setting{Backend: "cpu", Measure: cfg}) {
		if o.Status != journal.OK || o.Samples != 1 || !(o.Metrics["allreduce_parts_us"] > 0) {
			t.Errorf("rank %d: %s: %s, %d samples, %v", rank, o.Status, o.Reason, o.Samples, o.Metrics)
		}
	}
}

// The simulator's rows have the same metrics, are exact, and are deterministic.
func TestSimulated(t *testing.T) {
	overlap, want := "true,false", 12
	if testing.Short() {
		overlap, want = "true", 6
	}
	p := planned(t, simulated, "shape=48x40x24", "split=m,n", "partitions=auto,1,3", "overlap="+overlap, "dtype=f16")
	all := rows(t, p, simulated)
	if len(all) != want {
		t.Errorf("%d rows, want %d", len(all), want)
	}
	for _, r := range all {
		if r.Kind != journal.Simulated || r.Samples != 1 || !(r.Metrics["time_us"] >= r.Metrics["bound_us"]) ||
			!(r.Metrics["recovered_pct"] <= 100) {
			t.Errorf("%v: %s, %d samples, %v", r.Point, r.Kind, r.Samples, r.Metrics)
		}
	}
	q := planned(t, simulated, "shape=96x64x40", "partitions=2", "dtype=f32")
	if o := perform(t, q.Groups[0].Tasks[0], q.Options, simulated)[0]; o.Status != journal.Skipped ||
		!strings.Contains(o.Reason, "--dtype f16") {
		t.Errorf("f32: %s: %s", o.Status, o.Reason)
	}
}

// A wrong element in any partition on any rank is detected, and so is a NaN.
func TestWrongRows(t *testing.T) {
	on, ok := dist.As[accelerator](simulated)
	if !ok {
		t.Fatalf("backend %s is no accelerator", simulated)
	}
	two := must.Get(newSimulator(on, machine.Chosen{}, "whole", 2))(t)
	onMachine := two.run
	for _, split := range []fused.Split{fused.SplitM, fused.SplitN} {
		p := fused.Plan{M: 20, N: 12, K: 8, Split: split, Partitions: 3, Overlap: true}
		if wrong, err := wrongRows(p, 2, 1, onMachine); err != nil || wrong.Count != 0 {
			t.Errorf("split %s: rows: %v: %v", split, &wrong, err)
		}
		for name, spoil := range map[string]func(c []dtype.Float16){
			"one more": func(c []dtype.Float16) { c[5] = dtype.Float16From(c[5].Float32() + 1) },
			"a NaN":    func(c []dtype.Float16) { c[5] = dtype.Float16From(float32(math.NaN())) },
		} {
			broken := func(f kernels.Fused) (kernels.FusedTimes, [][][]dtype.Float16, error) {
				times, result, err := onMachine(f)
				if err == nil {
					spoil(result[1][2])
				}
				return times, result, err
			}
			if wrong, err := wrongRows(p, 2, 1, broken); err != nil || wrong.Count != 1 ||
				!strings.HasPrefix(wrong.Detail, "rank 1, row ") {
				t.Errorf("split %s, %s: rows: %v: %v", split, name, &wrong, err)
			}
		}
	}
}

// Impossible points are rejected when planning, with the reason.
func TestCheckPoint(t *testing.T) {
	at := func(shape, split, partitions, d string) point.Point {
		s := must.Get(point.Parse(point.Tuple, shape))(t)
		return point.Point{{Name: shapeAxis, Value: s}, {Name: dtypeAxis, Value: point.StringValue(d)},
			{Name: splitAxis, Value: point.StringValue(split)},
			{Name: partitionsAxis, Value: point.StringValue(partitions)}, {Name: overlapAxis, Value: point.BoolValue(true)}}
	}
	for _, c := range []struct{ shape, split, partitions, dtype, want string }{
		{"8x8x8", "m", "8", "f32", ""},
		{"8x8x8", "m", "auto", "f32", ""},
		{"8x8x8", "m", "9", "f32", "9 partitions of 8 rows"},
		{"8x4x8", "n", "5", "f32", "5 partitions of 4 columns"},
		{"8x8x8", "k", "1", "f32", "split"},
		{"8x8x8", "m", "0", "f32", "want a number from 1"},
		{"8x8x8", "m", "two", "f32", "want a number from 1"},
		{"8x8", "m", "1", "f32", "MxNxK"},
		{"8x8x8", "m", "1", "i32", "no provider multiplies i32"},
	} {
		err := checkPoint(at(c.shape, c.split, c.partitions, c.dtype))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSlowest(t *testing.T) {
	got, err := slowest([][]int64{{5000, 1000, 3000}, {4000, 2000, 9000}})
	if err != nil || !slices.Equal(got, []int64{5000, 2000, 9000}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := slowest([][]int64{{1}, {1, 2}}); err == nil {
		t.Error("ranks with other numbers of times were accepted")
	}
	if _, err := slowest([][]int64{{}, {}}); err == nil {
		t.Error("no times were accepted")
	}
}

// The calls of a drifting machine depend on each other, so that they have no interval.
func TestIntervalOfDependentTimes(t *testing.T) {
	var drifting, mixed []int64
	for i := range int64(100) {
		drifting, mixed = append(drifting, 1000+i), append(mixed, 1000+i*37%100)
	}
	if low, high, known := interval(drifting); known {
		t.Errorf("%g to %g ns for times that drift", low, high)
	}
	if low, high, known := interval(mixed); !known || low > 1050 || high < 1049 || high-low > 40 {
		t.Errorf("%g to %g ns for the same times in another order", low, high)
	}
}

// made returns a row with the given times.
func made(backend string, k int64, partitions string, gemm, allReduce, sequential, time, gemmParts,
	allReduceParts float64) journal.Row {
	ranks := 2
	parts := 1.0
	fmt.Sscan(partitions, &parts)
	if partitions == auto {
		parts = 4
	}
	m := map[string]float64{"gemm_us": gemm, "allreduce_us": allReduce, "sequential_us": sequential,
		"bound_us": max(gemm, allReduce), "time_us": time, "parts": parts}
	if parts > 1 {
		m["gemm_parts_us"], m["allreduce_parts_us"] = gemmParts, allReduceParts
	}
	return journal.Row{Key: fmt.Sprint(backend, k, partitions, time), Status: journal.OK, Backend: backend,
		NumRanks: &ranks, Metrics: m, Point: point.Point{
			{Name: shapeAxis, Value: point.TupleValue("", 64, 32, k)}, {Name: dtypeAxis, Value: point.DTypeValue(dtype.F32)},
			{Name: splitAxis, Value: point.StringValue("m")}, {Name: partitionsAxis, Value: point.StringValue(partitions)},
			{Name: overlapAxis, Value: point.BoolValue(true)}}}
}

// One panel has a curve for each backend, and the report explains why overlap is slower.
func TestViews(t *testing.T) {
	all := []journal.Row{
		made("cpu", 8, "1", 100, 50, 150, 150, 0, 0), made("cpu", 8, "4", 100, 50, 150, 110, 102, 55),
		made("cpu", 8, auto, 100, 50, 150, 111, 102, 55),
		made("cpu", 8, "16", 100, 50, 150, 180, 130, 52), made("cpu", 8, "32", 100, 50, 150, 180, 101, 250),
		made("cpu", 8, "2", 100, 50, 150, 160, 101, 51),
		made("ahbm", 8, "1", 10, 5, 15, 15, 0, 0), made("ahbm", 8, "4", 10, 5, 15, 12, 11, 5),
		made("cpu", 9, "4", 100, 1, 101, 104, 100.1, 1),
	}
	figs := benchtest.Figures(t, Bench(), dataset.All(all))
	if len(figs) != 1 || len(figs[0].Panels) != 1 || len(figs[0].Panels[0].Series) != 3 {
		t.Fatalf("figures: %+v", figs)
	}
	s := figs[0].Panels[0].Series[0]
	if s.Name != "cpu, f32, K = 8" || len(s.Points) != 5 || s.Points[0].X != 1 || s.Points[0].Y != 1.5 ||
		s.Points[2].Y != 1.1 {
		t.Errorf("the first curve: %+v", s)
	}
	got := benchtest.Sections(t, Bench(), dataset.All(all))
	if len(got) != 2 || got[0].Title != lossTitle || got[1].Title != gainTitle || len(got[1].Table) != 1+len(all) {
		t.Fatalf("sections: %+v", got)
	}
	for text, section := range map[string]bench.Section{
		"cpu, 64x32x8: fastest with 4 partitions, 110 µs instead of 150 µs in sequence: 80 % of the": got[1],
		"auto chose 4, 111 µs":                        got[1],
		"product in 16 partitions takes 30 % longer":  got[0],
		"all-reduce in 32 partitions takes 5.0 times": got[0],
		"slow each other down":                        got[0],
		"the all-reduce takes 1.0 % of the product":   got[0],
	} {
		if !strings.Contains(benchtest.Text(section), text) {
			t.Errorf("%s, want %q", benchtest.Text(section), text)
		}
	}
	b := Bench()
	if len(benchtest.Figures(t, b, nil))+len(benchtest.Sections(t, b, nil)) > 0 {
		t.Error("views of no rows")
	}
}

// A single kernel requires auto. It is drawn at its number of tiles.
func TestFigureOfOneKernel(t *testing.T) {
	r := made("cuda", 8, auto, 100, 50, 150, 130, 102, 55)
	r.Point = append(r.Point, point.Coord{Name: methodAxis, Value: point.StringValue(oneKernel)})
	figs := benchtest.Figures(t, Bench(), dataset.All([]journal.Row{r}))
	if len(figs) != 1 || len(figs[0].Panels[0].Series) != 1 || figs[0].Panels[0].Series[0].Points[0].X != 4 {
		t.Errorf("%+v", figs)
	}
}

// A warning says that the recovered share is impossible or negative, if the interval leaves no doubt,
// or that overlap cannot show. The cases include a time that does not cover all of the work, and
// products that are faster or slower in partitions.
func TestWarning(t *testing.T) {
	overlapped := fused.Plan{Partitions: 4, Overlap: true}
	in := func(us, half float64) judge.Range { return judge.Range{Low: us - half, High: us + half} }
	for name, c := range map[string]struct {
		o    outcome
		want string
	}{
		"all of the shorter one": {outcome{plan: overlapped, gemm: 100, allReduce: 50, sequential: 150, time: 101,
			timeRange: in(101, 2), sequentialRange: in(150, 2), rangesKnown: true}, ""},
		"more than all of it": {outcome{plan: overlapped, gemm: 100, allReduce: 50, sequential: 150, time: 60,
			timeRange: in(60, 2), sequentialRange: in(150, 2), rangesKnown: true},
			"recovered 180 % (95 % interval 172 to 188) is more than overlap can save: the times are inconsistent"},
		"more, by pieces": {outcome{plan: overlapped, gemm: 100, allReduce: 50, gemmParts: 60, allReduceParts: 40,
			sequential: 150, time: 60, timeRange: in(60, 2), sequentialRange: in(150, 2), rangesKnown: true},
			"even without overlap, the two take less time in 4 partitions than in one"},
		"more, within noise": {outcome{plan: overlapped, gemm: 100, allReduce: 50, sequential: 150, time: 96,
			timeRange: in(96, 5), sequentialRange: in(150, 5), rangesKnown: true}, ""},
		"more, no interval": {outcome{plan: overlapped, gemm: 100, allReduce: 50, sequential: 150, time: 60}, ""},
		"less than nothing": {outcome{plan: overlapped, gemm: 100, allReduce: 50, gemmParts: 130, allReduceParts: 50,
			sequential: 150, time: 180, timeRange: in(180, 2), sequentialRange: in(150, 2), rangesKnown: true},
			"recovered -60 % (95 % interval -68 to -52): overlap is slower, because the product in 4 partitions takes 30 % " +
				"longer"},
		"less, within noise": {outcome{plan: overlapped, gemm: 100, allReduce: 50, sequential: 150, time: 153,
			timeRange: in(153, 2), sequentialRange: in(150, 2), rangesKnown: true}, ""},
		"a short all-reduce": {outcome{plan: overlapped, gemm: 100, allReduce: 9.9, sequential: 110, time: 50,
			timeRange: in(50, 1), sequentialRange: in(110, 1), rangesKnown: true},
			"the all-reduce takes 9.9 % of the product: overlap cannot show here"},
		"a short product": {outcome{plan: overlapped, gemm: 5, allReduce: 100, sequential: 105, time: 104},
			"the product takes 5.0 % of the all-reduce: overlap cannot show here"},
		"one after the other": {outcome{plan: fused.Plan{Partitions: 1, Overlap: true}, gemm: 100, allReduce: 5,
			sequential: 105, time: 105}, ""},
		"in turn, not at once": {outcome{plan: fused.Plan{Partitions: 4}, gemm: 100, allReduce: 50, sequential: 150,
			time: 180, timeRange: in(180, 2), sequentialRange: in(150, 2), rangesKnown: true}, ""},
		"nothing to multiply": {outcome{plan: overlapped}, ""},
		"a tenth is enough": {outcome{plan: overlapped, gemm: 100, allReduce: 10, sequential: 110, time: 105,
			timeRange: in(105, 1), sequentialRange: in(110, 1), rangesKnown: true}, ""},
		"the simulator's exact": {outcome{plan: overlapped, gemm: 100, allReduce: 50, sequential: 150, time: 150.5,
			timeRange: in(150.5, 0), sequentialRange: in(150, 0), rangesKnown: true}, "overlap is slower"},
	} {
		if got := c.o.warning(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The table says where overlap cannot show, and prefers a settled time as the best.
func TestBestIsSettled(t *testing.T) {
	narrow := func(r journal.Row, percent float64) journal.Row {
		us := r.Metrics["time_us"]
		low, high := us*(1-percent/100), us*(1+percent/100)
		r.Kind, r.Samples, r.Stats = journal.Measured, 30,
			journal.NewObject(map[string]journal.Stat{"time_us": {CILow: &low, CIHigh: &high}})
		return r
	}
	good := narrow(made("cpu", 8, "4", 100, 50, 150, 110, 102, 55), 1)
	good.Metrics["recovered_low_pct"], good.Metrics["recovered_high_pct"] = 76, 84
	got := benchtest.Sections(t, Bench(), dataset.All([]journal.Row{
		narrow(made("cpu", 8, "2", 100, 50, 150, 90, 100, 50), 60), good,
		narrow(made("cpu", 9, "4", 100, 2, 102, 60, 100, 2), 1)}))
	for _, want := range []string{"64x32x8: fastest with 4 partitions, 110 µs",
		"80 % of the shorter one is recovered (76 to 84)",
		"Overlap cannot show: the all-reduce takes 2.0 % of the product", "not resolved"} {
		if text := benchtest.Text(got[0]); !strings.Contains(text, want) {
			t.Errorf("%s, want %q", text, want)
		}
	}
}

// Overlap can show with the default shapes: on the simulated machine by its simulated times, and on
// CPUs by the two machines of docs/results, where the ratio of product to all-reduce was K/61 (16
// cores) and K/12 (2 cores).
func TestDefaultShapesCanShow(t *testing.T) {
	for _, shape := range hostShapes {
		v, _ := point.Parse(point.Tuple, shape)
		for _, k := range []float64{61, 12} {
			if o := (outcome{gemm: float64(v.Dims()[2]), allReduce: k}); !o.conclusive() {
				t.Errorf("%s: %s", shape, o.imbalance())
			}
		}
	}
	on, _ := dist.As[accelerator](simulated)
	for _, task := range planned(t, simulated, "dtype=f16", "partitions=1").Groups[0].Tasks {
		shape := task.Point.At(shapeAxis)
		p := must.Get(planOf(shape.Dims(), "m", "1", true))(t)
		sim := must.Get(newSimulator(on, machine.Chosen{}, "whole", task.Ranks))(t)
		times := must.Get(sim.times(p))(t)
		if o := (outcome{gemm: float64(times.Gemm), allReduce: float64(times.AllReduce)}); !o.conclusive() {
			t.Errorf("%v: %s", shape, o.imbalance())
		}
		if testing.Short() {
			break // the smallest K has the shortest product
		}
	}
}

// The bench does not offer backends whose memory CPUs cannot access, unless their GPUs multiply. The
// first backend is cpu.
func TestDeviceMemoryIsRefused(t *testing.T) {
	b := Bench()
	devices := dist.Backends(func(d dist.Description) bool {
		return d.Has(dist.OnDevice) && !slices.Contains(gpuBackends(), d.Name)
	})
	for _, name := range devices {
		if slices.Contains(b.Backends, name) {
			t.Errorf("the bench offers %s, whose memory is that of a device", name)
		}
	}
	if len(devices) == 0 || b.HostMemory == "" || b.Backends[0] != "cpu" || !slices.Contains(b.Backends, simulated) ||
		!slices.Contains(b.Backends, "cuda") {
		t.Errorf("devices %v, offered %v, reason %q", devices, b.Backends, b.HostMemory)
	}
}

// Options and axes of some backends are refused on the others, even with their default value, because
// they have no effect there.
func TestOptionsOfOtherBackends(t *testing.T) {
	for _, c := range []struct{ backend, option, axis, want string }{
		{"cpu", "fabric=flits", "", "--fabric is an option of backend ahbm, not of cpu"},
		{"cpu", "fabric=whole", "", "--fabric is an option of backend ahbm, not of cpu"},
		{"cuda", "threads=2", "", "--threads is an option of backend cpu, not of cuda"},
		{simulated, "threads=2", "", "--threads is an option of backend cpu, not of ahbm"},
		{"cpu", "", "pdl=true", "--pdl is an axis of backend cuda, not of cpu"},
		{simulated, "fabric=flits", "", ""},
	} {
		req := plan.Request{Backend: c.backend, Seed: 1}
		if c.option != "" {
			req.Options = assigned(c.option)
		}
		if c.axis != "" {
			req.Axes = assigned(c.axis)
		}
		if _, err := plan.Make(Bench(), req); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s%s: %v, want %q", c.backend, c.option, c.axis, err, c.want)
		}
	}
}
