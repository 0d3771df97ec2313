package views

import (
	"fmt"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func ptr[T any](v T) *T { return &v }

func fixtureHeader() *journal.Header {
	return &journal.Header{
		Schema: 1, Run: "20261115-014233-7f3a", Bench: "allreduce", Version: "3",
		Time: time.Date(2026, 11, 15, 1, 42, 33, 0, time.UTC),
		Argv: []string{"kernbench", "run", "--bench", "allreduce", "--env", `NCCL_ALGO=Ring,"a b"`},
		Host: hostinfo.Host{Hostname: "node1", OS: "Example Linux 1", Kernel: "6.1.0",
			CPU:    hostinfo.CPU{Model: "Example CPU @ 2.00GHz", Cores: 16, Threads: 32, Governor: "performance"},
			Memory: 64 << 30, Build: hostinfo.Build{Version: "v1.2.3", GoVersion: "go1.26.0", GOARCH: "amd64"}},
		Environ: map[string]string{"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "WARN"},
		Axes:    []journal.AxisInfo{{Name: "size", Kind: point.Bytes}, {Name: "dtype", Kind: point.DType}},
		Envs:    []string{"NCCL_ALGO"},
		Metrics: []journal.MetricInfo{{Name: "time_us", Unit: "us", Better: "lower"},
			{Name: "busbw", Unit: "GB/s", Better: "higher"}},
		Inputs:  map[string]string{"topology": "9f86d081884c7d659a2feaa0c55ad015"},
		Backend: "cpu", Launcher: "local", Seed: 42, Trials: 1, Points: 36, Launches: 2,
	}
}

// coords are the coordinates of a row.
type coords struct {
	size  int64
	dtype string
	ranks int
	algo  string // NCCL_ALGO; "" is unset
	trial int
}

// fixtureRow returns an ok row at c with a time computed from c.
func fixtureRow(c coords) journal.Row {
	us := (5 + float64(c.size)/1e4) * float64(c.ranks) / 2
	if c.dtype == "f16" {
		us *= 0.6
	}
	if c.algo == "Tree" {
		us *= 1.3
	}
	us *= 1 + 0.05*float64(c.trial)
	return journal.Row{
		Schema: 1, Run: "20261115-014233-7f3a", Bench: "allreduce",
		Point: point.Point{{Name: "size", Value: point.BytesValue(c.size)},
			{Name: "dtype", Value: point.StringValue(c.dtype).Retype(point.DType)}},
		NumRanks: ptr(c.ranks), Backend: "cpu",
		Env:     point.Env{{Name: "NCCL_ALGO", Value: c.algo, Set: c.algo != ""}},
		Options: point.Point{{Name: "check", Value: point.BoolValue(true)}},
		Trial:   c.trial, Status: journal.OK, Kind: journal.Measured, Clock: "monotonic", Samples: 200,
		Metrics: map[string]float64{"time_us": us, "busbw": float64(c.size) / us / 1e3},
		Units:   map[string]string{"time_us": "us", "busbw": "GB/s"},
		Stats: journal.NewObject(map[string]journal.Stat{"time_us": {Min: us * .9, P50: us, P90: us * 1.1, P99: us * 1.2,
			Max: us * 2, Mean: us * 1.05,
			CILow: ptr(us * .97), CIHigh: ptr(us * 1.04)}}),
		Limits: map[string]float64{"link": 2 + float64(c.size)/2e4}, Host: "node1",
		Time: time.Date(2026, 11, 15, 1, 43, 0, 0, time.UTC), Key: fmt.Sprint(c),
	}
}

func notOK(r journal.Row, status journal.Status, reason string) journal.Row {
	r.Status, r.Reason = status, journal.Text(reason)
	r.Metrics, r.Units, r.Stats, r.Limits, r.Samples = nil, nil, nil, nil, 0
	return r
}

// sweep returns an ok row for each combination.
func sweep(sizes []int64, dtypes []string, ranks []int, algos []string, trials int) (rows []journal.Row) {
	for trial := range trials {
		for _, algo := range algos {
			for _, n := range ranks {
				for _, d := range dtypes {
					for _, size := range sizes {
						rows = append(rows, fixtureRow(coords{size, d, n, algo, trial}))
					}
				}
			}
		}
	}
	return rows
}

var sizes = []int64{1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22}

// fixtureRun returns a run with rows of every status, warnings and a note.
func fixtureRun() *journal.Run {
	rows := sweep(sizes, []string{"f32", "f16"}, []int{2, 4}, []string{"Ring"}, 1)
	crash := notOK(fixtureRow(coords{1 << 24, "f32", 2, "Ring", 0}), journal.Failed,
		"killed by signal 11 (segmentation fault)")
	crash.Rank, crash.Phase, crash.Launch = ptr(1), "timing", "0003"
	crash.Output = "\x1b[31mfatal\x1b[0m:\a bad address 0x0\nstack:\n  all_reduce_ring\n  main"
	rows = append(rows, crash,
		notOK(fixtureRow(coords{1 << 24, "f16", 2, "Ring", 0}), journal.Timeout, "no answer in 30 s"),
		notOK(fixtureRow(coords{1 << 24, "f32", 4, "Ring", 0}), journal.Skipped, "needs respawn"))
	rows[3].Conditions = []journal.Condition{journal.Remarkf("only 5 samples")}
	rows[4].Conditions = []journal.Condition{journal.Remarkf("only 5 samples"), journal.Remarkf("the clock is unstable")}
	return &journal.Run{
		Header: *fixtureHeader(), Rows: rows,
		Notes: []journal.Note{{Text: "no visible effect: NCCL_ALGO=Ring and NCCL_ALGO=Tree gave the same times at " +
			"all 5 points"}},
		End: &journal.End{Outcome: "complete", Seconds: 83.2},
	}
}
