package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
)

// TestGoldenSchema1 reads a journal written by the first version. The file must never change,
// since users have such journals.
func TestGoldenSchema1(t *testing.T) {
	j := mustRead(t, filepath.Join("testdata", "schema1.jsonl"))
	if len(j.Problems) != 2 || j.Problems[0].Line != 14 || j.Problems[1].Line != 20 {
		t.Errorf("problems %v, want the torn lines 14 and 20", j.Problems)
	}
	if len(j.Runs) != 2 || j.Runs[0].ID() != "20261114-100000-bbbb" || j.Runs[1].ID() != "20261114-090000-aaaa" {
		t.Fatalf("runs %v, want bbbb and then aaaa, which was resumed", j.Runs)
	}
	checkGoldenSmall(t, j.Runs[0])
	run := j.Runs[1]
	checkGoldenHeader(t, run)

	var statuses []Status
	for _, r := range run.Rows {
		statuses = append(statuses, r.Status)
	}
	if diff := cmp.Diff([]Status{OK, Failed, Timeout, Skipped, NotExecuted, OK}, statuses); diff != "" {
		t.Fatal(diff)
	}
	checkGoldenFirstRow(t, run.Rows[0])
	failed := run.Rows[1]
	if failed.Rank == nil || *failed.Rank != 1 || failed.Phase != "timing" || failed.Output != "segmentation fault\n" ||
		failed.Attempt != 1 {
		t.Errorf("the failed row reads %+v", failed)
	}
	gemm := run.Rows[4]
	wantPoint := point.Point{{Name: "shape", Value: point.TupleValue("qkv", 4096, 6144, 4096)},
		{Name: "size", Value: point.IntValue(64)}}
	if diff := cmp.Diff(wantPoint, gemm.Point, same...); diff != "" || gemm.NumRanks != nil || gemm.Part != "gemm" {
		t.Errorf("the row of part gemm reads %+v: %s", gemm, diff)
	}
	if v, _ := run.Rows[5].Point.Get("window"); v != point.BytesValue(4096) {
		t.Errorf("an axis of the resumed header is %v of kind %v", v, v.Kind())
	}

	if un := run.Unfinished(); len(un) != 1 || un[0].Key != "0000000000000006" {
		t.Errorf("unfinished %v, want key 6", un)
	}
	if run.End != nil {
		t.Error("the end of the interrupted part was taken for the end of the resumption")
	}
	if len(run.Notes) != 1 || run.Notes[0].Text != "the governor is powersave" {
		t.Errorf("notes %v", run.Notes)
	}
}

func checkGoldenHeader(t *testing.T, run *Run) {
	t.Helper()
	h := run.Header
	if len(run.Headers) != 2 || !h.Resumed || h.Host.Hostname != "node1" || h.Points != 6 ||
		h.Seed != 18446744073709551615 ||
		!h.Time.Equal(time.Date(2026, 11, 14, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("header %+v", h)
	}
	if diff := cmp.Diff(map[string]string{"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"}, h.Environ); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, a := range h.Axes {
		names = append(names, a.Part+"/"+a.Name)
	}
	for _, m := range h.Metrics {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"/size", "/dtype", "/scale", "gemm/shape", "gemm/size", "/window", "time_us", "busbw",
		"algbw"}, names); diff != "" {
		t.Error(diff)
	}
	// Merging must not change the headers as written.
	if run.Headers[0].Resumed || len(run.Headers[0].Environ) != 1 || run.Headers[1].Host.Hostname != "node2" {
		t.Errorf("headers as written: %+v", run.Headers)
	}
}

func checkGoldenFirstRow(t *testing.T, got Row) {
	t.Helper()
	two, one, low, high, skew := 2, 1, 12.4, 12.7, 0.05
	want := Row{
		Schema: 1, Run: "20261114-090000-aaaa", Bench: "all_reduce", NumRanks: &two, Backend: "cpu",
		Point: point.Point{{Name: "size", Value: point.BytesValue(65536)},
			{Name: "dtype", Value: mustParse(t, point.DType, "f32")}, {Name: "scale", Value: point.FloatValue(2)}},
		Env:     point.Env{{Name: "NCCL_ALGO", Value: "Ring", Set: true}, {Name: "NCCL_PROTO"}},
		Options: point.Point{{Name: "check", Value: point.BoolValue(true)}},
		Status:  OK, Kind: Measured, Clock: "monotonic", Cadence: "streaming", Cache: "warm", Samples: 200, Batch: 4,
		Metrics: map[string]float64{"time_us": 12.5, "busbw": 5.24},
		Units:   map[string]string{"time_us": "us", "busbw": "GB/s"},
		Stats:   NewObject(map[string]Stat{"time_us": {12, 12.5, 13, 14, 15, 12.6, &low, &high, nil, nil}}),
		Limits:  map[string]float64{"memory": 20}, Skew: &skew, Slowest: &one,
		Conditions: []Condition{Remarkf("frequency was not steady")},
		Host:       "node1", Load: &Load{Before: 0.5, After: 0.75, Busy: 0.25},
		Time:   time.Date(2026, 11, 14, 9, 0, 2, 5e8, time.UTC),
		Launch: "launch-0001", Raw: "0000000000000001-0.bin", Key: "0000000000000001",
	}
	if diff := cmp.Diff(want, got, same...); diff != "" {
		t.Error(diff)
	}
}

func checkGoldenSmall(t *testing.T, run *Run) {
	t.Helper()
	if len(run.Rows) != 1 || run.Rows[0].Metrics["time_us"] != 1000 || run.Rows[0].Kind != Modelled {
		t.Errorf("rows %+v", run.Rows)
	}
	if run.End == nil || run.End.Outcome != "complete" || run.End.Counts[OK] != 1 || run.End.Seconds != 1 {
		t.Errorf("end %+v", run.End)
	}
}

func mustParse(t *testing.T, kind point.Kind, text string) point.Value {
	t.Helper()
	return must.Get(point.Parse(kind, text))(t)
}

func TestNewerSchema(t *testing.T) {
	j := parseText(t,
		`{"type":"run","schema":1,"run":"old","bench":"b"}`,
		`{"type":"run","schema":2,"run":"new","bench":["now","a","list"]}`,
		`{"type":"begin","run":"new","key":"k","trial":0}`,
		`{"type":"row","schema":2,"run":"new","key":"k","status":"ok","metrics":{"time_us":{"p50":3}}}`,
		`{"type":"row","schema":3,"run":{"id":"new"}}`,
		`{"type":"end","run":"new","outcome":"complete"}`,
		`{"type":"row","schema":1,"run":"old","key":"k"}`,
		`{"type":"row","schema":2,"run":"old","key":"k2","metrics":{}}`,
	)
	if len(j.Runs) != 1 || len(j.Runs[0].Rows) != 1 {
		t.Fatalf("runs %+v, want the old one with its old row", j.Runs)
	}
	var lines []int
	for _, p := range j.Problems {
		lines = append(lines, p.Line)
		if !errors.Is(p.Err, ErrNewer) {
			t.Errorf("%v is not marked as newer", p)
		}
	}
	if diff := cmp.Diff([]int{2, 3, 4, 5, 6, 8}, lines); diff != "" {
		t.Error(diff)
	}
	if text := j.Problems[0].String(); !strings.Contains(text, "schema 2 is newer than this program reads (up to 1)") {
		t.Error(text)
	}
}

// TestBadLines puts one bad line of each kind between two good rows.
func TestBadLines(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"no JSON", `hello`, "does not match its checksum"},
		{"cut", `{"type":"row","run":"r","key`, "does not match its checksum"},
		{"no checksum", `{"type":"row","run":"r","key":"k"} `, "does not match its checksum"},
		{"glued", `{"type":"row","run":"r","key":"k"}{"type":"row"}`, "after top-level value"},
		{"glued begin", `{"type":"begin","run":"r","key":"k","trial":0,"time":"2026-11-15T01:42:33Z"}x}`,
			"after top-level value"},
		{"list", `[1]`, "does not match its checksum"},
		{"zeros", "\x00\x00\x00\x00", "does not match its checksum"},
		{"no type", `{"run":"r"}`, "no type"},
		{"type of another type", `{"type":3}`, "cannot unmarshal"},
		{"no run", `{"type":"row","key":"k"}`, "no run id"},
		{"metric as text", `{"type":"row","run":"r","key":"k","metrics":{"time_us":"fast"}}`, "cannot unmarshal"},
		{"point as list", `{"type":"row","run":"r","key":"k","point":[1]}`, "want an object"},
		{"axis of unknown kind", `{"type":"run","run":"r","axes":[{"name":"x","kind":"colour"}]}`, "unknown kind"},
		{"not UTF-8, long", "\xff\xfe" + strings.Repeat("é", 500), "does not match its checksum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good := string(encodeAll(t, testRow("r", 0)))
			j := parseBytes(t, []byte(good+sealAll(tt.line)+"\n"+good))
			if len(j.Runs) != 1 || len(j.Runs[0].Rows) != 2 {
				t.Errorf("the good rows around it did not come through: %+v", j.Runs)
			}
			if len(j.Problems) != 1 || j.Problems[0].Line != 2 || !strings.Contains(j.Problems[0].String(), tt.want) {
				t.Fatalf("problems %v, want line 2: %s", j.Problems, tt.want)
			}
			if text := j.Problems[0].Text; len(text) > excerptLen+3 || !utf8.ValidString(text) {
				t.Errorf("excerpt %q", text)
			}
		})
	}
}

func TestLineForms(t *testing.T) {
	long := testRow("r", 0)
	long.Output = strings.Repeat("x", 1<<20) // longer than every buffer
	data := encodeAll(t, testRow("r", 1), long, testRow("r", 2))
	crlf := bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	for name, text := range map[string][]byte{
		"plain": data, "crlf": crlf, "no last newline": data[:len(data)-1],
		"blank lines": bytes.ReplaceAll(data, []byte("\n"), []byte("\n\n \r\n")),
	} {
		j := parseBytes(t, text)
		if len(j.Problems) > 0 || len(j.Runs) != 1 || len(j.Runs[0].Rows) != 3 || len(j.Runs[0].Rows[1].Output) != 1<<20 {
			t.Errorf("%s: problems %v, runs %d", name, j.Problems, len(j.Runs))
		}
	}
}

func TestRunWithoutHeader(t *testing.T) {
	j := parseBytes(t, encodeAll(t, Begin{Run: "r", Key: "k", Time: testTime}, testRow("r", 4)))
	h := j.Runs[0].Header
	if h.Run != "r" || h.Bench != "all_reduce" || h.Backend != "cpu" || !h.Time.Equal(testTime) ||
		len(j.Runs[0].Headers) != 0 {
		t.Errorf("header made up from the rows: %+v", h)
	}
	for _, rec := range []any{Begin{Run: "r", Key: "k", Time: testTime}, testRow("r", 0), Note{Run: "r", Time: testTime},
		End{Run: "r", Time: testTime}} {
		if h := parseBytes(t, encodeAll(t, rec)).Runs[0].Header; !h.Time.Equal(testTime) {
			t.Errorf("a run with nothing but a %T started at %v", rec, h.Time)
		}
	}
}

func TestNoJournal(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Read(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read: %v", err)
	}
	if _, err := Follow(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Follow: %v", err)
	}
	if _, _, err := LoadRun(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadRun: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	golden := must.Get(os.ReadFile(filepath.Join("testdata", "schema1.jsonl")))(f)
	f.Add(golden)
	for line := range bytes.Lines(golden) {
		f.Add(line)
	}
	f.Add([]byte("{\"type\":\"row\",\"schema\":9}\r\n\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j := parseBytes(t, data)
		records := len(j.Problems)
		for _, r := range j.Runs {
			records += len(r.Headers) + len(r.Rows) + len(r.Begun) + len(r.Notes)
			if len(r.Unfinished()) > len(r.Begun) {
				t.Errorf("%d begun, %d unfinished", len(r.Begun), len(r.Unfinished()))
			}
			if r.ID() == "" {
				t.Error("a run without an id")
			}
		}
		if lines := bytes.Count(data, []byte("\n")) + 1; records > lines {
			t.Errorf("%d records out of %d lines", records, lines)
		}
		for _, p := range j.Problems {
			if !utf8.ValidString(p.Text) || p.Err == nil || p.Line < 1 {
				t.Errorf("problem %#v", p)
			}
		}
	})
}

// BenchmarkRead reads a journal of 100,000 rows.
func BenchmarkRead(b *testing.B) {
	recs := []any{Header{Run: "r", Axes: []AxisInfo{{Part: "latency", Name: "size", Kind: point.Bytes}}}}
	for i := range 100_000 {
		row := testRow("r", i)
		row.Inputs = "0123456789abcdef"
		recs = append(recs, Begin{Run: "r", Key: row.Key, Time: testTime}, row)
	}
	data := encodeAll(b, recs...)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if j := parseBytes(b, data); len(j.Runs[0].Rows) != 100_000 {
			b.Fatal("rows are missing")
		}
	}
}

// BenchmarkAppend measures the cost of a row, most of which is the sync.
func BenchmarkAppend(b *testing.B) {
	w := mustOpen(b, b.TempDir())
	row := testRow("r", 0)
	for b.Loop() {
		mustAppend(b, w, row)
	}
}

// TestFastLines checks that rows and begin records written by this program, with every field
// set, are read by fastjson and give the same values as encoding/json. It limits the
// allocations per row as a measure of the work: encoding/json needs 140.
func TestFastLines(t *testing.T) {
	golden := must.Get(os.ReadFile(filepath.Join("testdata", "schema1.jsonl")))(t)
	var full Row
	fill(reflect.ValueOf(&full).Elem(), func() float64 { return 0.25 })
	full.Schema, full.Point, full.Env = Schema, testRow("r", 1).Point,
		point.Env{{Name: "A", Value: "1", Set: true}, {Name: "B"}}
	full.Options, full.Time = point.Point{{Name: "file", Value: point.StringValue("é\"\n")}}, testTime
	own := encodeAll(t, full, Begin{Run: "r", Key: "k", Attempt: 2, Time: testTime})
	for line := range bytes.Lines(append(own, golden...)) {
		mine := bytes.Contains(own, line)
		line, _, _, err := unseal(bytes.TrimSpace(bytes.Clone(line)))
		if err != nil && mine {
			t.Error(err)
		}
		if err != nil || !bytes.HasPrefix(line, rowStart) && !bytes.HasPrefix(line, beginStart) {
			continue
		}
		fast, slow := newReader(), newReader()
		if !must.Get(fast.addFast(line))(t) {
			if mine { // the golden file also has bad lines
				t.Errorf("read by encoding/json: %s", line)
			}
			continue
		}
		must.Do(t, slow.addSlowly(line))
		if diff := cmp.Diff(slow.j.Runs[0].Rows, fast.j.Runs[0].Rows, cmp.Comparer(func(a, b point.Value) bool {
			return a == b
		})); diff != "" {
			t.Errorf("-encoding/json +fast\n%s", diff)
		}
		if diff := cmp.Diff(slow.j.Runs[0].Begun, fast.j.Runs[0].Begun); diff != "" {
			t.Errorf("-encoding/json +fast\n%s", diff)
		}
	}
	r := newReader()
	line, _, _, err := unseal(bytes.TrimSpace(encodeAll(t, full)))
	must.Do(t, err)
	must.Get(r.addFast(line))(t)
	if n := testing.AllocsPerRun(100, func() { r.addFast(line) }); n > 75 {
		t.Errorf("%v allocations for a row that has every field", n)
	}
}

// fill sets every field to a value that is not zero, and every number to a value of number.
func fill(v reflect.Value, number func() float64) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("some text")
	case reflect.Int:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(number())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), number)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, number)
		fill(value, number)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), number)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i), number)
			}
		}
	}
}

// TestFollow checks that a follower always has the same records as a reader of the whole file,
// also if a line is half written, and that it starts again if the file is replaced.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	text := sealAll(strings.Split(`{"type":"run","schema":1,"run":"a","bench":"b","axes":[{"name":"n","kind":"bytes"}]}
{"type":"row","schema":1,"run":"a","point":{"n":1},"status":"ok","key":"1"}
not a record
{"type":"row","schema":1,"run":"a","point":{"n":2},"status":"ok","key":"2"}
{"type":"run","schema":1,"run":"a","bench":"b","axes":[{"name":"n","kind":"bytes"},{"name":"m","kind":"float"}],"resumed":true}
{"type":"row","schema":1,"run":"a","point":{"n":3,"m":1},"status":"ok","key":"3"}
{"type":"end","run":"a","outcome":"complete"}`, "\n")...)
	must.Do(t, os.WriteFile(path, nil, 0o644))
	f := must.Get(Follow(dir))(t)
	for cut := range len(text) + 1 {
		must.Do(t, os.WriteFile(path, []byte(text[:cut]), 0o644))
		got, _ := must.Get2(f.Next())(t)
		// A partial line is not read yet, unless its record is complete.
		whole := text[:strings.LastIndexByte(text[:cut], '\n')+1]
		if rest := text[len(whole):cut]; json.Valid([]byte(rest)) {
			whole += rest
		}
		want := must.Get(parse(strings.NewReader(whole), 0))(t)
		if want.Path = path; !reflect.DeepEqual(got.Runs, want.Runs) ||
			!slices.EqualFunc(got.Problems, want.Problems, func(a, b Problem) bool {
				return a.Line == b.Line
			}) {
			t.Fatalf("after %d bytes: %+v, want %+v", cut, got, want)
		}
	}
	if _, grown, err := f.Next(); grown || err != nil {
		t.Errorf("grown %v without a byte: %v", grown, err)
	}
	must.Do(t, os.WriteFile(path, []byte(sealAll(`{"type":"run","schema":1,"run":"z","bench":"b"}`)), 0o644))
	if j, grown, err := f.Next(); err != nil || !grown || len(j.Runs) != 1 || j.Runs[0].ID() != "z" {
		t.Errorf("a file that was cut: %+v, %v", j, err)
	}
}

// TestRowMemory limits the memory of a typical measured row with its begin record. Maps
// allocate room for eight members, so a row has few of them, and repeated values are shared.
func TestRowMemory(t *testing.T) {
	const rows = 4000
	recs := []any{Header{Run: "r", Axes: []AxisInfo{{Part: "latency", Name: "size", Kind: point.Bytes}}}}
	noise, foreign := 0.02, 0.1
	for i := range rows {
		row := testRow("r", i)
		row.Options = point.Point{{Name: "check", Value: point.BoolValue(true)}}
		row.Sampling = &Sampling{Stopped: "max-samples", Noise: &noise, Target: 0.01, MinSamples: 20, MaxSamples: 10_000,
			MinTime: 0.1, MaxTime: 5}
		row.Load = &Load{Before: 1, After: 2, Busy: 0.5, Steal: 0.1, Foreign: &foreign}
		row.Conditions = []Condition{NewCondition(CodeSteal, Named{"share": 0.1})}
		row.Measurements = []Measurement{{Metrics: NewObject(row.Metrics), Samples: 100, Conditions: row.Conditions},
			{Metrics: NewObject(row.Metrics), Samples: 100, Kept: true}}
		row.Launch, row.Raw = "r/0001", fmt.Sprintf("r-%016x-0.kbs", i)
		recs = append(recs, Begin{Run: "r", Key: row.Key, Point: row.Point.String(), Time: testTime}, row)
	}
	data := encodeAll(t, recs...)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	j := parseBytes(t, data)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (after.HeapAlloc - before.HeapAlloc) / rows; len(j.Runs[0].Rows) != rows || each > 1900 {
		t.Errorf("%d bytes for each of %d rows", each, len(j.Runs[0].Rows))
	}
	if each := (after.Mallocs - before.Mallocs) / rows; each > 40 {
		t.Errorf("%d allocations for each row", each)
	}
	runtime.KeepAlive(data)
}

func TestProblemNamesItsRun(t *testing.T) {
	p := Problem{Line: 3, Text: "x", Err: ErrDamaged}
	if s := p.String(); strings.Contains(s, "run") || !strings.HasPrefix(s, "line 3: ") {
		t.Error(s)
	}
	if p.Run = "r"; !strings.HasPrefix(p.String(), "line 3 (run r): ") {
		t.Error(p)
	}
}

func TestHeldErrorNamesItsHolder(t *testing.T) {
	if s := (&HeldError{Run: "r"}).Error(); strings.Contains(s, "host") {
		t.Error(s)
	}
	if s := (&HeldError{Run: "r", PID: 7, Host: "h"}).Error(); !strings.Contains(s, "process 7 on host h") {
		t.Error(s)
	}
}
