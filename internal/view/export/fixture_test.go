package export

import (
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func ptr[T any](v T) *T { return &v }

func mustDType(name string) dtype.DType {
	d, err := dtype.Parse(name)
	if err != nil {
		panic(err)
	}
	return d
}

func header() *journal.Header {
	return &journal.Header{
		Schema: 1, Run: "20261115-014233-7f3a", Bench: "allreduce", Version: "3",
		Time: time.Date(2026, 11, 15, 1, 42, 33, 0, time.UTC),
		Host: hostinfo.Host{Hostname: "node1", CPU: hostinfo.CPU{Model: "Example CPU @ 2.00GHz"}},
		Axes: []journal.AxisInfo{{Part: "latency", Name: "size", Kind: point.Bytes},
			{Part: "latency", Name: "dtype", Kind: point.DType},
			{Part: "buffer-kind", Name: "kind", Kind: point.String}},
		Envs: []string{"NCCL_MIN_CTAS"},
		Metrics: []journal.MetricInfo{{Name: "busbw", Unit: "GB/s", Better: "higher"},
			{Name: "time_us", Unit: "us", Better: "lower"}, {Name: "wrong", Better: "lower"}},
		Trials: 2,
	}
}

// row returns an ok row of part latency, which tests modify.
func row(size int64, env point.EnvVar, trial int, us float64) journal.Row {
	env.Name = "NCCL_MIN_CTAS"
	return journal.Row{
		Schema: 1, Run: "20261115-014233-7f3a", Bench: "allreduce", Part: "latency",
		Point: point.Point{{Name: "size", Value: point.BytesValue(size)},
			{Name: "dtype", Value: point.DTypeValue(mustDType("f32"))}},
		NumRanks: ptr(2), Backend: "cpu", Env: point.Env{env},
		Options: point.Point{{Name: "algo", Value: point.StringValue("ring")}},
		Trial:   trial, Status: journal.OK, Kind: journal.Measured, Clock: "monotonic", Samples: 200, Batch: 4,
		Metrics: map[string]float64{"time_us": us, "busbw": float64(size) / us / 1e3},
		Units:   map[string]string{"time_us": "us", "busbw": "GB/s"},
		Stats: journal.NewObject(map[string]journal.Stat{"time_us": {Min: us * .9, P50: us, P90: us * 1.1, P99: us * 1.2,
			Max: us * 2, Mean: us, CILow: ptr(us * .99), CIHigh: ptr(us * 1.02)}}),
		Limits: map[string]float64{"link": 10}, Host: "node1",
		Time: time.Date(2026, 11, 15, 1, 43, trial, 0, time.UTC), Key: "k",
	}
}

func unset() point.EnvVar       { return point.EnvVar{} }
func set(v string) point.EnvVar { return point.EnvVar{Value: v, Set: true} }
func failed(r journal.Row, status journal.Status, reason string) journal.Row {
	r.Status, r.Reason = status, journal.Text(reason)
	r.Metrics, r.Units, r.Stats, r.Samples = nil, nil, nil, 0
	return r
}

// fixture returns a run with every feature that a format must handle.
func fixture() Input {
	var rows []journal.Row
	for trial := range 2 {
		rows = append(rows,
			row(1024, unset(), trial, 12.3456789+float64(trial)),
			row(65536, unset(), trial, 45.6),
			row(65536, set("4"), trial, 40-float64(trial)),
			row(65537, set(""), trial, 1234567.0))
	}
	crash := failed(row(1<<20, set("4"), 0, 0), journal.Failed,
		"signal: segmentation fault, \"quoted\",\nsecond line of a long story that goes on and on and will not fit")
	crash.Rank, crash.Phase = ptr(1), "warmup"
	rows = append(rows, crash, row(1<<20, set("4"), 1, 333))
	rows = append(rows, failed(row(1<<20, set("a,b"), 0, 0), journal.Timeout, "no answer in 30 s"))
	warned := row(1<<21, unset(), 0, 400)
	warned.Conditions = []journal.Condition{journal.Remarkf("only 5 samples"), journal.Remarkf("clock | unstable")}
	rows = append(rows, warned)
	for _, kind := range []string{"größe/π", "two words", "trailing-7", "50%", "日本"} {
		r := row(0, unset(), 0, 7.5)
		r.Part, r.Point, r.Env = "buffer-kind", point.Point{{Name: "kind", Value: point.StringValue(kind)}}, nil
		r.NumRanks, r.Options = nil, nil
		r.Metrics["undeclared"] = 0.001234567
		if kind == "日本" {
			r = failed(r, journal.Skipped, "needs respawn")
		}
		rows = append(rows, r)
	}
	return Input{Header: header(), Rows: dataset.All(rows)}
}
