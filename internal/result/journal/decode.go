package journal

import (
	"time"

	"github.com/kernbench/kernbench/internal/base/fastjson"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// fastReader decodes rows and begin records with package fastjson. These are the two kinds of record
// that a journal has many of. The lists below name every field; TestFastLines fails if one is missing.
type fastReader struct {
	*fastjson.Decoder
	row   fastjson.Reader[Row]
	begin fastjson.Reader[Begin]
}

func newFastReader() fastReader {
	return fastReader{fastjson.NewDecoder(), rowReader(), fastjson.StructRest([]fastjson.Member[Begin]{
		fastjson.Field("run", fastjson.Text, func(b *Begin) *string { return &b.Run }),
		fastjson.Field("key", fastjson.Text, func(b *Begin) *string { return &b.Key }),
		fastjson.Field("trial", fastjson.Int, func(b *Begin) *int { return &b.Trial }),
		fastjson.Field("attempt", fastjson.Int, func(b *Begin) *int { return &b.Attempt }),
		fastjson.Field("point", fastjson.Text, func(b *Begin) *string { return &b.Point }),
		fastjson.Field("time", fastjson.JSON, func(b *Begin) *time.Time { return &b.Time }),
	})}
}

// rowReader returns the reader for the part of a row's line after its type. Most rows of a run have the
// same environment, options and units, and rows of one point follow each other in an import, so these values are shared
// between rows.
func rowReader() fastjson.Reader[Row] {
	texts, numbers := fastjson.Map(fastjson.Text[string]), fastjson.Map(fastjson.Float)
	conditions := fastjson.Shared(conditionsReader())
	integer, float := fastjson.Pointer(fastjson.Int), fastjson.Pointer(fastjson.Float)
	return fastjson.StructRest([]fastjson.Member[Row]{
		fastjson.Field("schema", fastjson.Int, func(r *Row) *int { return &r.Schema }),
		fastjson.Field("run", fastjson.Text, func(r *Row) *string { return &r.Run }),
		fastjson.Field("bench", fastjson.Text, func(r *Row) *string { return &r.Bench }),
		fastjson.Field("part", fastjson.Text, func(r *Row) *string { return &r.Part }),
		fastjson.Field("point", fastjson.Shared(fastjson.Interned[point.Point]),
			func(r *Row) *point.Point { return &r.Point }),
		fastjson.Field("num_ranks", integer, func(r *Row) **int { return &r.NumRanks }),
		fastjson.Field("backend", fastjson.Text, func(r *Row) *string { return &r.Backend }),
		fastjson.Field("env", fastjson.Shared(fastjson.JSON[point.Env]), func(r *Row) *point.Env { return &r.Env }),
		fastjson.Field("options", fastjson.Shared(fastjson.Interned[point.Point]),
			func(r *Row) *point.Point { return &r.Options }),
		fastjson.Field("trial", fastjson.Int, func(r *Row) *int { return &r.Trial }),
		fastjson.Field("index", fastjson.Int, func(r *Row) *int { return &r.Index }),
		fastjson.Field("status", fastjson.Text, func(r *Row) *Status { return &r.Status }),
		fastjson.Field("reason", fastjson.Text, func(r *Row) *string { return (*string)(&r.Reason) }),
		fastjson.Field("rank", integer, func(r *Row) **int { return &r.Rank }),
		fastjson.Field("phase", fastjson.Text, func(r *Row) *string { return &r.Phase }),
		fastjson.Field("output", fastjson.Text, func(r *Row) *string { return &r.Output }),
		fastjson.Field("ranks", fastjson.List(rankEndReader()), func(r *Row) *[]RankEnd { return &r.Ranks }),
		fastjson.Field("optional", fastjson.Bool, func(r *Row) *bool { return &r.Optional }),
		fastjson.Field("kind", fastjson.Text, func(r *Row) *Kind { return &r.Kind }),
		fastjson.Field("clock", fastjson.Text, func(r *Row) *string { return &r.Clock }),
		fastjson.Field("cadence", fastjson.Text, func(r *Row) *string { return &r.Cadence }),
		fastjson.Field("cache", fastjson.Text, func(r *Row) *string { return &r.Cache }),
		fastjson.Field("samples", fastjson.Int, func(r *Row) *int { return &r.Samples }),
		fastjson.Field("batch", fastjson.Int, func(r *Row) *int { return &r.Batch }),
		fastjson.Field("metrics", numbers, func(r *Row) *map[string]float64 { return &r.Metrics }),
		fastjson.Field("units", fastjson.Shared(texts), func(r *Row) *map[string]string { return &r.Units }),
		fastjson.Field("stats", readObject(statReader()), func(r *Row) *Stats { return &r.Stats }),
		fastjson.Field("limits", fastjson.Shared(numbers), func(r *Row) *map[string]float64 { return &r.Limits }),
		fastjson.Field("resolution", numbers, func(r *Row) *map[string]float64 { return &r.Resolution }),
		fastjson.Field("skew", float, func(r *Row) **float64 { return &r.Skew }),
		fastjson.Field("straggler", integer, func(r *Row) **int { return &r.Slowest }),
		fastjson.Field("details", fastjson.Shared(texts), func(r *Row) *map[string]string { return &r.Details }),
		fastjson.Field("sampling", fastjson.Pointer(samplingReader()), func(r *Row) **Sampling { return &r.Sampling }),
		fastjson.Field("quality", fastjson.Text, func(r *Row) *Quality { return &r.Quality }),
		fastjson.Field("measurements", fastjson.List(measurementReader(conditions)),
			func(r *Row) *[]Measurement { return &r.Measurements }),
		fastjson.Field("conditions", conditions, func(r *Row) *Conditions { return &r.Conditions }),
		fastjson.Field("host", fastjson.Text, func(r *Row) *string { return &r.Host }),
		fastjson.Field("load", fastjson.Pointer(loadReader()), func(r *Row) **Load { return &r.Load }),
		fastjson.Field("time", fastjson.JSON, func(r *Row) *time.Time { return &r.Time }),
		fastjson.Field("launch", fastjson.Text, func(r *Row) *string { return &r.Launch }),
		fastjson.Field("raw", fastjson.Text, func(r *Row) *string { return &r.Raw }),
		fastjson.Field("raws", texts, func(r *Row) *map[string]string { return &r.Raws }),
		fastjson.Field("inside", fastjson.Text, func(r *Row) *string { return &r.Inside }),
		fastjson.Field("key", fastjson.Text, func(r *Row) *string { return &r.Key }),
		fastjson.Field("task", fastjson.Text, func(r *Row) *string { return &r.Task }),
		fastjson.Field("attempt", fastjson.Int, func(r *Row) *int { return &r.Attempt }),
		fastjson.Field("inputs", fastjson.Text, func(r *Row) *string { return &r.Inputs }),
	})
}

func statReader() fastjson.Reader[Stat] {
	return fastjson.Struct([]fastjson.Member[Stat]{
		fastjson.Field("min", fastjson.Float, func(s *Stat) *float64 { return &s.Min }),
		fastjson.Field("p50", fastjson.Float, func(s *Stat) *float64 { return &s.P50 }),
		fastjson.Field("p90", fastjson.Float, func(s *Stat) *float64 { return &s.P90 }),
		fastjson.Field("p99", fastjson.Float, func(s *Stat) *float64 { return &s.P99 }),
		fastjson.Field("max", fastjson.Float, func(s *Stat) *float64 { return &s.Max }),
		fastjson.Field("mean", fastjson.Float, func(s *Stat) *float64 { return &s.Mean }),
		fastjson.Field("ci_low", fastjson.Pointer(fastjson.Float), func(s *Stat) **float64 { return &s.CILow }),
		fastjson.Field("ci_high", fastjson.Pointer(fastjson.Float), func(s *Stat) **float64 { return &s.CIHigh }),
		fastjson.Field("effective", fastjson.Pointer(fastjson.Float), func(s *Stat) **float64 { return &s.Effective }),
		fastjson.Field("modes", fastjson.List(modeReader()), func(s *Stat) *[]stats.Mode { return &s.Modes }),
	})
}

func modeReader() fastjson.Reader[stats.Mode] {
	return fastjson.Struct([]fastjson.Member[stats.Mode]{
		fastjson.Field("center", fastjson.Float, func(m *stats.Mode) *float64 { return &m.Center }),
		fastjson.Field("share", fastjson.Float, func(m *stats.Mode) *float64 { return &m.Share }),
	})
}

func loadReader() fastjson.Reader[Load] {
	return fastjson.Struct([]fastjson.Member[Load]{
		fastjson.Field("before", fastjson.Float, func(l *Load) *float64 { return &l.Before }),
		fastjson.Field("after", fastjson.Float, func(l *Load) *float64 { return &l.After }),
		fastjson.Field("busy", fastjson.Float, func(l *Load) *float64 { return &l.Busy }),
		fastjson.Field("steal", fastjson.Float, func(l *Load) *float64 { return &l.Steal }),
		fastjson.Field("foreign", fastjson.Pointer(fastjson.Float), func(l *Load) **float64 { return &l.Foreign }),
		fastjson.Field("waiting", fastjson.Pointer(fastjson.Float), func(l *Load) **float64 { return &l.Waiting }),
	})
}

func rankEndReader() fastjson.Reader[RankEnd] {
	return fastjson.Struct([]fastjson.Member[RankEnd]{
		fastjson.Field("rank", fastjson.Int, func(e *RankEnd) *int { return &e.Rank }),
		fastjson.Field("end", fastjson.Text, func(e *RankEnd) *string { return &e.End }),
		fastjson.Field("doing", fastjson.Text, func(e *RankEnd) *string { return &e.Doing }),
		fastjson.Field("said", fastjson.Text, func(e *RankEnd) *string { return &e.Said }),
	})
}

func samplingReader() fastjson.Reader[Sampling] {
	return fastjson.Struct([]fastjson.Member[Sampling]{
		fastjson.Field("stopped", fastjson.Text, func(s *Sampling) *string { return &s.Stopped }),
		fastjson.Field("noise", fastjson.Pointer(fastjson.Float), func(s *Sampling) **float64 { return &s.Noise }),
		fastjson.Field("target", fastjson.Float, func(s *Sampling) *float64 { return &s.Target }),
		fastjson.Field("min_samples", fastjson.Int, func(s *Sampling) *int { return &s.MinSamples }),
		fastjson.Field("max_samples", fastjson.Int, func(s *Sampling) *int { return &s.MaxSamples }),
		fastjson.Field("min_time", fastjson.Float, func(s *Sampling) *float64 { return &s.MinTime }),
		fastjson.Field("max_time", fastjson.Float, func(s *Sampling) *float64 { return &s.MaxTime }),
		fastjson.Field("drift", fastjson.Pointer(fastjson.Float), func(s *Sampling) **float64 { return &s.Drift }),
	})
}

func measurementReader(conditions fastjson.Reader[Conditions]) fastjson.Reader[Measurement] {
	return fastjson.Struct([]fastjson.Member[Measurement]{
		fastjson.Field("metrics", readObject(fastjson.Float), func(m *Measurement) *Numbers { return &m.Metrics }),
		fastjson.Field("samples", fastjson.Int, func(m *Measurement) *int { return &m.Samples }),
		fastjson.Field("conditions", conditions, func(m *Measurement) *Conditions {
			return &m.Conditions
		}),
		fastjson.Field("kept", fastjson.Bool, func(m *Measurement) *bool { return &m.Kept }),
	})
}

func conditionsReader() fastjson.Reader[Conditions] {
	list := fastjson.List(fastjson.Struct([]fastjson.Member[Condition]{
		fastjson.Field("code", fastjson.Text, func(c *Condition) *Code { return &c.Code }),
		fastjson.Field("values", readObject(fastjson.Float), func(c *Condition) *Numbers { return &c.Values }),
		fastjson.Field("text", fastjson.Text, func(c *Condition) *string { return (*string)(&c.Text) }),
	}))
	return func(d *fastjson.Decoder, p *Conditions) bool { return list(d, (*[]Condition)(p)) }
}
