package imports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

const ncclHead = `#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
`

const ncclFull = `srun: job started, running ./build/all_reduce_perf -b 8 -e 1G
# nccl-tests version 2.18.3 nccl-headers=23004 nccl-library=23004
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: N/A warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 221423 on    gpu-1 device  0 [0009:01:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 221421 on    gpu-1 device  1 [0019:01:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid 221424 on    gpu-1 device  2 [0029:01:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid 221422 on    gpu-1 device  3 [0039:01:00] NVIDIA H100 80GB HBM3
#
` + ncclHead + `           8             2     float     sum      -1    17.01    0.00    0.00      0    17.05    0.00    0.00      0
gpu-1:221423:221423 [0] NCCL INFO a log line
   268435456      67108864     float     sum      -1   1181.0  227.30  340.94      0   1180.0  227.49  341.23      3
   536870912     268435456  bfloat16     max      -1   2300.0  233.42  350.13      0      N/A     N/A     N/A    N/A
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 206.46 
#
`

func read(t *testing.T, format, text string, g Given) File {
	t.Helper()
	return must.Get(Read(format, "file", text, g))(t)
}

func TestNCCLTests(t *testing.T) {
	f := read(t, "nccl-tests", ncclFull, Given{})
	details := map[string]string{"tool": "nccl-tests", "device": "NVIDIA H100 80GB HBM3",
		"time": "mean over iterations issued back to back, as nccl-tests reports it"}
	base := Record{Op: "allreduce", Algorithm: "nccl", Backend: "nccl", Ranks: 4, Host: "gpu-1", Samples: 20,
		Kind: journal.Measured, Details: details, Status: journal.OK}
	with := func(line int, size int64, dtype, red string, inPlace bool, us, alg, bus, wrong float64) Record {
		r := base
		r.Line, r.Size, r.DType, r.Reduction, r.InPlace = line, size, dtype, red, inPlace
		r.Metrics = map[string]float64{"time_us": us, "algbw": alg, "busbw": bus, "wrong": wrong}
		r.Count = fmt.Sprint(size / map[string]int64{"f32": 4, "bf16": 2}[dtype])
		return r
	}
	want := []Record{
		with(15, 8, "f32", "sum", false, 17.01, 0, 0, 0), with(15, 8, "f32", "sum", true, 17.05, 0, 0, 0),
		with(17, 268435456, "f32", "sum", false, 1181, 227.30, 340.94, 0),
		with(17, 268435456, "f32", "sum", true, 1180, 227.49, 341.23, 3),
		with(18, 536870912, "bf16", "max", false, 2300, 233.42, 350.13, 0), // not run in place
	}
	want[3].Status, want[3].Reason = journal.Failed, "3 wrong elements"
	if diff := cmp.Diff(want, f.Records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if want := []string{"1 line of NCCL's log was skipped"}; !slices.Equal(f.Notes, want) {
		t.Errorf("notes %q, want %q", f.Notes, want)
	}
}

// TestNCCLVariants reads tables of older and newer versions and shortened outputs.
func TestNCCLVariants(t *testing.T) {
	line := "     1048576        262144     float     sum      -1    100.0   10.49   15.73      0    100.0   10.49   " +
		"15.73      0\n"
	for _, c := range []struct {
		name, text string
		given      Given
		check      func(f File) string
	}{
		{"ranks and operation from the ratio", ncclHead + line, Given{}, func(f File) string {
			if r := f.Records[0]; r.Ranks != 4 || r.Op != "allreduce" || len(f.Notes) != 1 {
				return fmt.Sprint(r, f.Notes)
			}
			return ""
		}},
		{"split groups", strings.Replace(ncclFull, "227.30  340.94", "227.30  227.30", 1), Given{}, func(f File) string {
			// The row with the largest algorithm bandwidth decides; it implies 4.
			return expect(f.Records[0].Ranks, 4)
		}},
		{"all groups split", strings.NewReplacer("340.94", "227.30", "341.23", "227.49", "350.13",
			"233.42").Replace(ncclFull), Given{}, func(f File) string {
			if f.Records[0].Ranks != 2 || len(f.Notes) != 2 ||
				!strings.Contains(f.Notes[1], "lists 4 ranks, but busbw/algbw fits 2") {
				return fmt.Sprint(f.Records[0].Ranks, f.Notes)
			}
			return ""
		}},
		{"rccl, no root, error column", `# rccl-tests
# Rank  0 Pid 1 on h device  0 [0000:03:00.0] AMD Instinct MI300X
# Rank  1 Pid 1 on h device  1 [0000:04:00.0] AMD Instinct MI300X
# ./all_gather_perf -b 1M
#      size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#       (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
   1048576        131072     float    none    50.00   20.97   10.49  0e+00    50.00   20.97   10.49    N/A
`, Given{}, func(f File) string {
			r := f.Records[1]
			_, checked := r.Metrics["wrong"]
			if r.Op != "allgather" || r.Algorithm != "rccl" || r.Ranks != 2 || r.Reduction != "" || checked || !r.InPlace {
				return fmt.Sprint(r)
			}
			return ""
		}},
		{"time stamps at the end", ncclHead + strings.TrimRight(line, "\n") + "   2026-01-02 03:04:05\n",
			Given{Ranks: 4, Op: "all_reduce"}, func(f File) string {
				return expect(len(f.Records), 2)
			}},
		{"statistics of iterations, number of iterations",
			`#       size         count      type   redop    root  cputime   algbw   busbw  #wrong    i_min    i_cv%  cputime   algbw   busbw  #wrong    i_min    i_cv% #iters           timestamp
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)      (%)     (us)  (GB/s)  (GB/s)             (us)      (%)          %Y-%m-%d %H:%M:%S
     1048576        524288  bfloat16     sum      -1    31.25   33.55   50.33       0    30.10     2.10    30.75   34.10   51.15       2    29.90     1.90     20 2026-01-31 10:20:30
`, Given{}, func(f File) string {
				a, b := f.Records[0], f.Records[1]
				return expect(fmt.Sprintf("%d %v %s %v", a.Ranks, a.Metrics, b.Status, b.Metrics),
					"4 map[algbw:33.55 busbw:50.33 cv_pct:2.1 min_us:30.1 time_us:31.25 wrong:0] failed map[algbw:34.1 busbw:51.15 "+
						"cv_pct:1.9 min_us:29.9 time_us:30.75 wrong:2]")
			}},
		{"Windows line ends", strings.ReplaceAll(ncclFull, "\n", "\r\n"), Given{}, func(f File) string {
			return expect(len(f.Records), 5)
		}},
		{"given and said alike", ncclFull, Given{Op: "allreduce", Ranks: 4, Algorithm: "ring", Backend: "cuda"},
			func(f File) string {
				return expect(f.Records[0].Algorithm+" "+f.Records[0].Backend, "ring cuda")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if fault := c.check(read(t, "nccl-tests", c.text, c.given)); fault != "" {
				t.Error(fault)
			}
		})
	}
}

func expect[T comparable](got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%v, want %v", got, want)
}

const osuFull = `
# OSU MPI-CUDA Allreduce Latency Test v7.5
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations    Validation
4                       1.23              1.11              1.35        1000          Pass
1048576               123.45            120.00            130.50         100          Fail
`

func TestOSU(t *testing.T) {
	f := read(t, "osu", osuFull, Given{Ranks: 8})
	details := map[string]string{"tool": "OSU micro-benchmarks 7.5", "time": "mean over iterations of the slowest rank"}
	base := Record{Op: "allreduce", Algorithm: "mpi", Backend: "mpi", DType: "f32", Reduction: "sum", Ranks: 8,
		Kind: journal.Measured, Details: details,
		Extra: point.Point{{Name: "memory", Value: point.StringValue("cuda")}}}
	good, bad := base, base
	good.Line, good.Size, good.Samples, good.Status = 5, 4, 1000, journal.OK
	good.Metrics = map[string]float64{"time_us": 1.35, "avg_us": 1.23, "min_us": 1.11, "max_us": 1.35}
	bad.Line, bad.Size, bad.Samples, bad.Status, bad.Reason = 6, 1048576, 100, journal.Failed, "OSU's validation: Fail"
	bad.Metrics = map[string]float64{"time_us": 130.5, "avg_us": 123.45, "min_us": 120, "max_us": 130.5}
	if diff := cmp.Diff([]Record{good, bad}, f.Records, cmp.AllowUnexported(point.Value{})); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	old := read(t, "osu", "# OSU MPI Allgather Latency Test v5.9\n# Size       Avg Latency(us)\n1024              "+
		"     7.61\n", Given{Ranks: 4})
	if r := old.Records[0]; r.Op != "allgather" || r.Size != 4096 || r.Metrics["time_us"] != 7.61 || r.DType != "u8" ||
		!strings.Contains(r.Details["time"], "averaged over ranks") {
		t.Errorf("without -f: %+v", r)
	}
	barrier := read(t, "osu", "# OSU MPI Barrier Latency Test v7.3\n# Avg Latency(us)\n             1.51\n",
		Given{Ranks: 4})
	if r := barrier.Records[0]; r.Op != "barrier" || r.Metrics["time_us"] != 1.51 {
		t.Errorf("barrier: %+v", r)
	}
	nccl := read(t, "osu", "# OSU NCCL-CUDA Allreduce Latency Test v7.3\n# Size       Avg Latency(us)       P99 Tail "+
		"Lat(us)\n1024                   7.61    9.5\n", Given{Ranks: 4})
	if r := nccl.Records[0]; r.Backend != "nccl" || r.Metrics["p99taillat_us"] != 9.5 {
		t.Errorf("nccl: %+v", r)
	}
}

const csvFull = `# a comment
op,algorithm,dtype,ranks,size,inplace,time_ms,low_us,high_us,samples,utilisation,status,reason,axis.nodes,metric.watts
allreduce,ring,float,2,64K,true,0.5,490,510,7,12.5%,,,3,250
,tree,bf16,4,1M,,,,,,,not-executed,no such machine,two,
`

func TestCSV(t *testing.T) {
	f := read(t, "csv", csvFull, Given{Backend: "mpi"})
	want := []Record{
		{Line: 3, Op: "allreduce", Algorithm: "ring", DType: "f32", Reduction: "sum", Ranks: 2, Size: 65536, InPlace: true,
			Backend: "mpi", Status: journal.OK, Kind: journal.Measured,
			Samples: 7, Low: 490, High: 510, Metrics: map[string]float64{"time_us": 500, "utilisation": 12.5, "watts": 250},
			Details: map[string]string{"tool": "csv"}, Extra: point.Point{{Name: "nodes", Value: point.IntValue(3)}}},
		{Line: 4, Op: "allreduce", Algorithm: "tree", DType: "bf16", Reduction: "sum", Ranks: 4, Size: 1 << 20,
			Backend: "mpi", Status: journal.NotExecuted, Reason: "no such machine", Kind: journal.Measured,
			Metrics: map[string]float64{}, Details: map[string]string{"tool": "csv"},
			Extra: point.Point{{Name: "nodes", Value: point.StringValue("two")}}},
	}
	if diff := cmp.Diff(want, f.Records, cmp.AllowUnexported(point.Value{})); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestErrors checks that errors name the line and what would be right.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		format, text string
		given        Given
		want         string
	}{
		{"nccl", "", Given{}, "unknown import format"},
		{"nccl-tests", "", Given{}, "file: no table of nccl-tests"},
		{"nccl-tests", "hello\nworld\n", Given{}, "no line starts with"},
		{"nccl-tests", ncclHead, Given{}, "file: no result of nccl-tests"},
		{"nccl-tests", ncclFull[:strings.Index(ncclFull, "1180.0")], Given{},
			"file:17: the line has 9 fields, the header 13: it is cut off"},
		{"nccl-tests", strings.Replace(ncclFull, "227.30", "fast", 1), Given{},
			"file:17: algbw is \"fast\", want a number or N/A"},
		{"nccl-tests", strings.Replace(ncclFull, "227.30", "NaN", 1), Given{}, "want a number"},
		{"nccl-tests", strings.Replace(ncclFull, "(us)", "(ms)", 1), Given{}, "file:14: the unit (ms)"},
		{"nccl-tests", strings.Replace(ncclFull, "227.30", "1 227.30", 1), Given{}, "fields, the header"},
		{"nccl-tests", `{"version": 1, "config": {"nthreads": -1}, "results": []}`, Given{}, "-1 threads"},
		{"nccl-tests", ncclFull, Given{Ranks: 8}, "the file says ranks 4, --ranks says 8"},
		{"nccl-tests", ncclFull, Given{Op: "allgather"}, "the file says op allreduce, --op says allgather"},
		{"nccl-tests", ncclFull, Given{Op: "allredus"}, "unknown op"},
		{"nccl-tests", ncclFull, Given{DType: "f64"}, "file:15: the file says dtype f32, --dtype says f64"},
		{"nccl-tests", ncclHead + " 8 2 float none -1 1.00 0.00 0.00 0 1.00 0.00 0.00 0\n", Given{},
			"file:2: the file does not say which operation this is: give --op"},
		{"nccl-tests", ncclHead + " 8 2 float sum -1 1.00 0.00 0.00 0 1.00 0.00 0.00 0\n", Given{Op: "allreduce"},
			"how many ranks there were: give --ranks"},
		{"nccl-tests", "# size algbw time\n", Given{}, "file:1: the column algbw stands before any time"},
		{"nccl-tests", "# size time algbw\n", Given{}, "file:1: the header has no column type"},
		{"nccl-tests", "# size type time time time algbw\n", Given{},
			"file:1: the header has 3 columns called time, want 1 or 2"},
		{"osu", "1 2 3\n", Given{Ranks: 2}, "no line has Latency(us)"},
		{"osu", osuFull, Given{}, "file:5: OSU does not say how many ranks there were: give --ranks"},
		{"osu", strings.Replace(osuFull, "1.35        1000", "1.35", 1), Given{Ranks: 2},
			"file:5: the line has 5 fields, the header 6"},
		{"osu", strings.Replace(osuFull, "1.11", "x", 1), Given{Ranks: 2}, `file:5: minlatency(us) is "x"`},
		{"osu", strings.Replace(osuFull, "Iterations", "Furlongs", 1), Given{Ranks: 2}, `unknown column "furlongs"`},
		{"osu", strings.Replace(osuFull, "Allreduce ", "", 1), Given{Ranks: 2}, "no title names the operation"},
		{"osu", strings.Replace(osuFull, "1000", "1e300", 1), Given{Ranks: 2}, "the iterations \"1e300\" are not a whole"},
		{"osu", "# OSU MPI Multi Latency Test\n", Given{Ranks: 2}, "file:1: OSU's Multi test"},
		{"csv", "", Given{}, "the file is empty"},
		{"csv", "size,time\n", Given{}, "file:1: the column time has no unit"},
		{"csv", "size,tiem_us\n1,2\n", Given{}, "unknown column"},
		{"csv", "time_us\n1\n", Given{}, "missing column size"},
		{"csv", "size,size\n1,2\n", Given{}, "duplicate column size"},
		{"csv", "size,time_us\n1K,3\n12Q,4\n", Given{}, "file:3: size is \"12Q\""},
		{"csv", "size,time_us\n1K,-3\n", Given{}, "want a number, 0 or more"},
		{"csv", "size,time_us\n1K,\n", Given{}, "file:2: missing time: give a status that says why"},
		{"csv", "size,time_us,time_ms\n1K,1,1\n", Given{}, "the row has two times"},
		{"csv", "size,status\n1K,failed\n", Given{}, "status failed without a reason"},
		{"csv", "size,status\n1K,bad\n", Given{}, "want ok, failed"},
		{"csv", "size,time_us\n1K\n", Given{}, "file:2: wrong number of fields"},
		{"csv", "size,time_us\n,5\n", Given{}, "missing size"},
		{"csv", "size,kind,time_us\n1K,guessed,5\n", Given{}, "want measured"},
		{"csv", "size,time_us\n1K,5%\n", Given{}, "file:2: time_us is \"5%\": want a number"},
		{"csv", "size,time_us\n1K,1e400\n", Given{}, "want a number"},
		{"csv", "size,time_us\n1K,NaN\n", Given{}, "want a number"},
		{"csv", "size,time_us\n1K,\"1,000\"\n", Given{}, "want a number"},
		{"csv", "size,time_us\n1K,0x10\n", Given{}, "want a number"},
		{"csv", "size,time_us\n1K,5us\n", Given{}, "want a number"},
		{"csv", "size,time_us\n0.7kB,5\n", Given{}, "size \"0.7kB\": not a whole number of bytes"},
		{"csv", "size,time_us\n0x10,5\n", Given{}, "file:2: size is \"0x10\""},
		{"csv", "size,time_us\n9223372036854775808,5\n", Given{}, "too large"},
		{"csv", "size,time_us,samples\n1K,5,-2\n", Given{}, "samples is \"-2\": want 0 or more"},
		{"csv", "size,time_us,ranks,num_ranks\n1K,5,2,4\n", Given{}, "ranks and num_ranks mean the same"},
		{"csv", "size,time_us,metric.time_us\n1K,5,6\n", Given{}, "the column metric.time_us: call it time_us"},
		{"csv", "size,time_us,axis.size\n1K,5,2K\n", Given{}, "the column axis.size: call it size"},
		{"csv", "size,time_us,axis.\n1K,5,2K\n", Given{}, "the column axis. lacks a name"},
		{"csv", "size,time_us,high_us\n1K,5,6\n", Given{}, "high_us without low_us"},
		{"csv", "size,time_us,ranks\n1K,5,4\n", Given{Ranks: 8}, "file:2: the file says ranks 4, --ranks says 8"},
		{"csv", "size,time_us,dtype\n1K,5,half\n", Given{DType: "f32"}, "the file says dtype f16, --dtype says f32"},
	} {
		if _, err := Read(c.format, "file", c.text, c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: %v, want %q", c.format, c.text, err, c.want)
		}
	}
}

// TestRoundTrip reads kernbench's own nccl-tests output: the points and the printed digits of
// the times are the same.
func TestRoundTrip(t *testing.T) {
	src := Source{Bench: "collectives", Run: "r", Time: time.Unix(0, 0)}
	rapid.Check(t, func(t *rapid.T) {
		var records []Record
		for _, op := range []string{"allreduce", "allgather"} {
			for _, ranks := range []int{2, 4, 8} {
				for size := int64(1024); size <= 1<<28; size <<= rapid.IntRange(1, 8).Draw(t, "step") {
					for _, inPlace := range []bool{false, true} {
						r := Record{Op: op, Algorithm: rapid.SampledFrom([]string{"ring", "tree"}).Draw(t, "algorithm"), DType: "bf16",
							Ranks: ranks, Size: size, InPlace: inPlace,
							Backend: "cpu", Status: journal.OK, Kind: journal.Measured,
							Metrics: map[string]float64{"time_us": rapid.Float64Range(0.1, 1e6).Draw(t, "us"), "wrong": 0}}
						if op == "allreduce" {
							r.Reduction = "sum"
						}
						records = append(records, r)
					}
				}
			}
		}
		rows := Rows(records, src, 0, map[string]int{})
		var text bytes.Buffer
		must.Do(t, export.Write(&text, "nccl-tests", export.Input{Rows: dataset.All(rows)}, export.Options{}))
		f, err := Read("nccl-tests", "own", text.String(), Given{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		back := Rows(f.Records, src, 0, map[string]int{})
		key := func(r journal.Row) string { return fmt.Sprint(r.Point, *r.NumRanks, r.Backend) }
		times := map[string]float64{}
		for _, r := range rows {
			times[key(r)] = r.Metrics["time_us"]
		}
		if len(back) != len(times) {
			t.Fatalf("%d rows went out, %d came back\n%s", len(times), len(back), text.String())
		}
		for _, r := range back {
			want, has := times[key(r)]
			if got := r.Metrics["time_us"]; !has || got < want*0.998-0.005 || got > want*1.002+0.005 {
				t.Fatalf("%s came back as %v us, was %v\n%s", key(r), got, want, text.String())
			}
		}
	})
}

// TestIntervals checks that an interval fits its time, and that nothing but the interval is made of it.
func TestIntervals(t *testing.T) {
	f := read(t, "csv", "size,ranks,time_us,low_us,high_us\n1M,8,10,9,12\n2M,8,10,11,12\n4M,8,10,8,9\n8M,8,10,0,12\n",
		Given{})
	rows := Rows(f.Records, Source{Bench: "b"}, 0, map[string]int{})
	for i, want := range []string{"", "line 3: the interval from 11 µs to 12 µs does not contain the time, 10 µs",
		"line 4: the interval from 8 µs to 9 µs does not contain the time, 10 µs", ""} {
		if r := rows[i]; string(r.Reason) != want || (r.Status == journal.Failed) != (want != "") {
			t.Errorf("row %d: %s %q, want %q", i, r.Status, r.Reason, want)
		}
	}
	s := rows[0].Stats.Get("time_us")
	for _, name := range journal.StatNames {
		v, has := s.Part(name)
		want := map[string]float64{"p50": 10, "ci_low": 9, "ci_high": 12}[name]
		if v != want || has != (want > 0) {
			t.Errorf("%s of the row is %v, %v, want %v", name, v, has, want)
		}
	}
	if text := string(must.Get(json.Marshal(s))(t)); text != `{"p50":10,"ci_low":9,"ci_high":12}` {
		t.Errorf("the row has %s", text)
	}
	_, err := Read("csv", "f.csv", "size,time_us,low_us,high_us\n1M,10,9,\n", Given{})
	if err == nil || !strings.Contains(err.Error(), "f.csv:2: low_us without high_us") {
		t.Errorf("half an interval: %v", err)
	}
}

// TestKindOfOwnTables checks that a table of simulated times is not taken for measured ones.
func TestKindOfOwnTables(t *testing.T) {
	const table = "# collectives num_ranks=2 backend=ahbm op=allreduce\n# Using devices\n" +
		"#  Rank  0 Group  0 Pid    N/A on         vm device  0 [N/A] %s\n" +
		"#  Rank  1 Group  0 Pid    N/A on         vm device  1 [N/A] %s\n" +
		"#       size         count      type   redop    root     time   algbw   busbw #wrong\n" +
		"        1024           512      half     sum      -1     0.33    3.10    3.10      0\n"
	for device, want := range map[string]journal.Kind{"simulated ahbm": journal.Simulated,
		"modelled flat": journal.Modelled, "NVIDIA H200": journal.Measured, "ahbm": journal.Measured} {
		f := read(t, "nccl-tests", fmt.Sprintf(table, device, device), Given{})
		if got := f.Records[0].Kind; got != want {
			t.Errorf("%s: %s, want %s", device, got, want)
		}
	}
}

// TestRows checks the fields that views and --resume need, and that repeated points are trials.
func TestRows(t *testing.T) {
	f := read(t, "csv", "algorithm,dtype,ranks,size,time_us,low_us,high_us\nring,f32,4,1M,100,90,110\n"+
		"ring,f32,4,1M,120,,\nring,fp8_e5m2,4,1M,50,,\n", Given{})
	rows := Rows(f.Records, Source{Name: "f.csv", SHA256: "abcdef0123456789", Bench: "allreduce-eval",
		Part: "performance", Run: "id"}, 5, map[string]int{})
	r := rows[0]
	if r.Bench != "allreduce-eval" || r.Part != "performance" || r.Run != "id" || r.Index != 5 || *r.NumRanks != 4 ||
		r.Details["file"] != "f.csv line 2, SHA-256 abcdef012345" ||
		r.Metrics["algbw"] != 10.48576 || math.Abs(r.Metrics["busbw"]-15.72864) > 1e-9 ||
		*r.Stats.Get("time_us").CIHigh != 110 || r.Units["busbw"] != "GB/s" {
		t.Errorf("%+v", r)
	}
	if rows[0].Key != rows[1].Key || rows[0].Trial != 0 || rows[1].Trial != 1 || rows[2].Key == rows[0].Key {
		t.Errorf("keys %s, %s, %s", rows[0].Key, rows[1].Key, rows[2].Key)
	}
	if v, _ := rows[0].Point.Get("dtype"); v != point.DTypeValue(dtype.F32) {
		t.Errorf("dtype is %v", v)
	}
	if v, _ := rows[2].Point.Get("dtype"); v != point.StringValue("fp8_e5m2") {
		t.Errorf("a type kernbench lacks is %v", v)
	}
	axes := Axes(rows)
	if !slices.ContainsFunc(axes, func(a journal.AxisInfo) bool {
		return a.Name == "size" && a.Kind == point.Bytes
	}) || Metrics(rows)[0].Name != "time_us" {
		t.Errorf("axes %v, metrics %v", axes, Metrics(rows))
	}
}

// TestSpreadsheet checks a file as spreadsheets write it, and that texts that only look like numbers stay texts.
// Results of several devices are different points, in one file and over several, and never trials of one.
func TestDevicesAreToldApart(t *testing.T) {
	const head = "device,num_ranks,op,dtype,algorithm,size,time_us\n"
	const h100, mi300 = "H100,8,allreduce,f32,ring,1024,10\n", "MI300X,8,allreduce,f32,ring,1024,100\n"
	trials := func(texts ...string) (points string, notes int) {
		var files []File
		for _, text := range texts {
			files = append(files, read(t, "csv", head+text, Given{}))
		}
		TellApart(files)
		counts := map[string]int{}
		for _, f := range files {
			notes += len(f.Notes)
			for _, r := range Rows(f.Records, Source{}, 0, counts) {
				device, _ := r.Point.Get(deviceName)
				points += fmt.Sprintf("%s %d; ", device, r.Trial)
			}
		}
		return points, notes
	}
	for _, c := range []struct {
		files []string
		want  string
		notes int
	}{
		{[]string{h100 + mi300}, "H100 0; MI300X 0; ", 0},
		{[]string{h100, mi300}, "H100 0; MI300X 0; ", 0},
		{[]string{h100 + h100}, " 0;  1; ", 1},
		{[]string{h100 + h100 + mi300}, "H100 0; H100 1; MI300X 0; ", 1},
	} {
		if got, notes := trials(c.files...); got != c.want || notes != c.notes {
			t.Errorf("%q: %q with %d notes, want %q with %d", c.files, got, notes, c.want, c.notes)
		}
	}
}

func TestSpreadsheet(t *testing.T) {
	f := read(t, "csv", "\uFEFFsize,time_us,axis.node\r\n1K,5,007\r\n\"2K\", 6 ,7\r\n1K,5,1e3\r\n", Given{})
	for i, want := range []point.Value{point.StringValue("007"), point.IntValue(7), point.StringValue("1e3")} {
		if r := f.Records[i]; r.Extra.At("node") != want {
			t.Errorf("record %d is %+v, want node %v", i, r, want)
		}
	}
	if r := f.Records[1]; r.Size != 2048 || r.Metrics["time_us"] != 6 {
		t.Errorf("%+v", r)
	}
}

// FuzzRead gives every registered format any text: it reads rows or returns an error that
// names the file.
func FuzzRead(f *testing.F) {
	for _, format := range Formats.Names() {
		for _, text := range []string{"", ncclFull, ncclJSONFull, osuFull, csvFull} {
			f.Add(format, text, 4)
		}
	}
	f.Fuzz(func(t *testing.T, format, text string, ranks int) {
		if !slices.Contains(Formats.Names(), format) {
			format = Formats.Names()[len(format)%len(Formats.Names())]
		}
		file, err := Read(format, "file", text, Given{Ranks: max(ranks, 0)})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		for _, r := range Rows(file.Records, Source{}, 0, map[string]int{}) {
			if len(r.Clean().Conditions) != len(r.Conditions) || r.Key == "" ||
				r.Status == journal.OK && r.Metrics["time_us"] < 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}
