package imports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// ncclLog returns the log of an all-reduce on ranks of one host, for sizes that double from 1Mi.
func ncclLog(ranks, sizes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus %d minBytes 1048576 maxBytes %d "+
		"step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n", ranks, 1<<20<<(sizes-1))
	for rank := range ranks {
		fmt.Fprintf(&b, "#  Rank  %d Group  0 Pid 1 on    gpu-1 device  %d [0009:01:00] NVIDIA H100 80GB HBM3\n", rank, rank)
	}
	b.WriteString(ncclHead)
	sum := 0.0
	for i := range sizes {
		size := int64(1) << 20 << i
		us := 100 + float64(size)/1e5
		alg := float64(size) / us / 1e3
		bus := alg * 2 * float64(ranks-1) / float64(ranks)
		sum += bus
		fmt.Fprintf(&b, "%12d  %12d     float     sum      -1 %8.2f %7.2f %7.2f      0 %8.2f %7.2f %7.2f      0\n", size,
			size/4,
			us, alg, bus, us, alg, bus)
	}
	fmt.Fprintf(&b, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : %.4f\n#\n", sum/float64(sizes))
	return b.String()
}

// TestLogsAreEvidence plants a contradiction or a loss in a clean log. Each must be noticed.
func TestLogsAreEvidence(t *testing.T) {
	clean := ncclLog(8, 5)
	cutAt := strings.Index(clean, "     4194304")
	cut := clean[:cutAt]
	osu := "# mpirun -n 4 osu_allreduce -f -m 4:64\n# OSU MPI Allreduce Latency Test v7.3\n# Size   Avg Latency(us)   " +
		"Min Latency(us)   Max Latency(us)  Iterations\n4   2.41   1.90   5.10   1000\n8   2.51   2.00   5.20   1000\n" +
		"16   2.61   2.00   5.20   1000\n32   2.71   2.00   5.20   1000\n64   2.91   2.00   5.20   1000\n"
	const info = "gpu-1:221423:221500 [0] NCCL INFO Channel 00/24 : 0 1 2 3\n"
	for _, c := range []struct {
		name, format, text string
		ok, failed, lost   int    // rows by status
		want               string // in a reason or a note
		failure            bool
	}{
		{"clean", "nccl-tests", clean, 10, 0, 0, "", false},
		{"cut after two of five sizes", "nccl-tests", cut, 4, 0, 6, "the run covers this size, but the log ends at line 15",
			false},
		{"a failure after two sizes", "nccl-tests", cut + "gpu-1: Test NCCL failure common.cu:298 'unhandled cuda error'\n",
			4, 1, 5, "line 16: the run ended in a failure (Test NCCL failure", true},
		{"a failure after all sizes", "nccl-tests", clean + "gpu-1: Test NCCL failure common.cu:298 'x'\n", 10, 0, 0,
			"the run ended in a failure", true},
		{"killed by the scheduler", "nccl-tests", cut + "slurmstepd: error: *** JOB 7 ON gpu-1 CANCELLED AT 2026-01-02 ***\n",
			4, 1, 5, "CANCELLED AT", true},
		{"a line in the middle is gone", "nccl-tests", strings.Replace(clean, clean[cutAt:cutAt+strings.Index(clean[cutAt:],
			"\n")+1], "", 1), 8, 0, 2, "1 size from 4Mi to 4Mi", false},
		{"busbw of 16 ranks on 8 devices", "nccl-tests", func() string {
			sixteen := ncclLog(16, 5)
			return clean[:strings.Index(clean, ncclHead)] + sixteen[strings.Index(sixteen, ncclHead):]
		}(), 0, 10, 0, "the header lists 8 ranks, but busbw/algbw fits 16", false},
		{"count times width", "nccl-tests", strings.Replace(clean, "  262144  ", "  262145  ", 1), 8, 2, 0,
			"the size is 1048576 bytes, but a count of 262145 elements of f32 is 1048580 bytes", false},
		{"average", "nccl-tests", clean[:strings.Index(clean, "# Avg")] + "# Avg bus bandwidth    : 77.5\n", 0, 10, 0,
			"the average bus bandwidth is 77.5 GB/s, but the rows have an average of", false},
		{"log lines", "nccl-tests", info + strings.ReplaceAll(clean, " sum      -1 ", " sum      -1"+info+info), 10, 0, 0,
			"11 lines of NCCL's log were skipped", false},
		{"OSU", "osu", osu, 5, 0, 0, "", false},
		{"OSU out of order", "osu", strings.Replace(osu, "2.41   1.90   5.10", "2.41   5.10   1.90", 1), 4, 1, 0,
			"the times are not in order: min 5.1 µs, avg 2.41 µs, max 1.9 µs", false},
		{"OSU cut", "osu", osu[:strings.Index(osu, "16 ")], 2, 0, 3, "the run covers this size", false},
		{"OSU, a line is gone", "osu", strings.NewReplacer("16   2.61   2.00   5.20   1000\n", "", " -m 4:64",
			"").Replace(osu), 4, 0, 1, "1 size from 16 to 16", false},
		{"OSU aborted", "osu", osu + "mpirun noticed that process rank 1 with PID 7 exited on signal 9\n", 5, 0, 0,
			"line 9: the run ended in a failure (mpirun noticed", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			given := Given{}
			if c.format == "osu" {
				given.Ranks = 4
			}
			f := read(t, c.format, c.text, given)
			count := map[journal.Status]int{}
			said := strings.Join(f.Notes, "\n")
			for _, r := range f.Records {
				count[r.Status]++
				said += "\n" + r.Reason
			}
			if count[journal.OK] != c.ok || count[journal.Failed] != c.failed || count[journal.NotExecuted] != c.lost {
				t.Errorf("%v, want %d ok, %d failed and %d not executed\n%s", count, c.ok, c.failed, c.lost, said)
			}
			if !strings.Contains(said, c.want) || c.want == "" && strings.TrimSpace(said) != "" ||
				(f.Failure != "") != c.failure {
				t.Errorf("it says %q, failure %q; want %q", said, f.Failure, c.want)
			}
		})
	}
}

// TestRoundedSizes checks that sizes rounded down to whole parts are not missing.
func TestRoundedSizes(t *testing.T) {
	records := []Record{{Line: 1, Size: 0}, {Line: 1, Size: 0, InPlace: true}, {Line: 2, Size: 0}, {Line: 3, Size: 128}}
	if got := missingSizes([]int64{32, 64, 128, 256}, records, 128); len(got) != 1 || got[0] != 256 {
		t.Errorf("missing are %v, want 256", got)
	}
}

// TestDamagedRange checks that an absurd range of sizes in a header does not exhaust memory.
func TestDamagedRange(t *testing.T) {
	for _, s := range []sizeRange{{1, 1 << 62, 1, false}, {1, 1 << 62, 2, true}, {0, 9, 2, true}, {1, 9, 0, false},
		{1, 9, 1, true}} {
		if n := len(s.list()); n > maxSizes {
			t.Errorf("%+v has %d sizes", s, n)
		}
	}
}
