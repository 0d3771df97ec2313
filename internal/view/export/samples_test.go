package export

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestSamples checks that every sample of every rank is written, as csv and as a NumPy array.
func TestSamples(t *testing.T) {
	// Two iterations of two ranks, in picoseconds, in the format of samples/.
	m := measure.NewMatrix(2)
	good := must.Get(m.MarshalBinary())(t)
	raw := append(good[:len(good)-2:len(good)-2], 2, 2) // iterations, ranks
	for _, d := range []int64{1e6, 2e6, 5e5, -1e6} {    // the second iteration is stored as differences
		raw = binary.AppendVarint(raw, d)
	}
	dir := t.TempDir()
	must.Do(t, journal.WriteRaw(dir, "a.kbs", raw))
	rows := []journal.Row{{Key: "none"}, {Key: "k", Trial: 3, Raw: "a.kbs"}}
	var out bytes.Buffer
	must.Do(t, WriteSamples(&out, "csv", dir, dataset.All(rows)))
	want := "key,row,trial,iteration,rank,time_us\nk,1,3,0,0,1\nk,1,3,0,1,2\nk,1,3,1,0,1.5\nk,1,3,1,1,1\n"
	if out.String() != want {
		t.Errorf("csv:\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	must.Do(t, WriteSamples(&out, "npy", dir, dataset.All(rows)))
	b := out.Bytes()
	start := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if start%64 != 0 || !strings.HasPrefix(string(b), "\x93NUMPY\x01\x00") ||
		!strings.Contains(string(b[:start]), "'shape': (4, 5)") || b[start-1] != '\n' || len(b) != start+4*5*8 {
		t.Fatalf("npy: %q", b)
	}
	if last := math.Float64frombits(binary.LittleEndian.Uint64(b[len(b)-8:])); last != 1 {
		t.Errorf("the last sample is %v", last)
	}
	out.Reset()
	rows[1].Raws = map[string]string{"kernel_us": "a.kbs"}
	if err := WriteSamples(&out, "csv", dir, dataset.All(rows)); err != nil ||
		!strings.HasPrefix(out.String(), "key,row,trial,iteration,rank,time_us,kernel_us\n") ||
		!strings.Contains(out.String(), "\nk,1,3,1,0,1.5,\n") ||
		!strings.HasSuffix(out.String(), "\nk,1,3,0,0,,1\nk,1,3,0,1,,2\nk,1,3,1,0,,1.5\nk,1,3,1,1,,1\n") {
		t.Errorf("with samples of another metric: %v\n%s", err, out.String())
	}
	if err := WriteSamples(&out, "csv", dir,
		dataset.All([]journal.Row{{Raws: map[string]string{"kernel_us": "gone.kbs"}}})); err == nil {
		t.Error("samples of another metric that are not there pass for none")
	}
	if err := WriteSamples(&out, "parquet", dir, dataset.All(rows)); err == nil ||
		!strings.Contains(err.Error(), "csv, npy") {
		t.Errorf("another format: %v", err)
	}
	if err := WriteSamples(&out, "csv", dir, dataset.All([]journal.Row{{Raw: "gone.kbs"}})); err == nil {
		t.Error("samples that are not there pass for none")
	}
}

// TestPrintedSamples checks the samples that programs printed: they are in order of launch, with
// a column for each metric, and missing values are empty.
func TestPrintedSamples(t *testing.T) {
	dir := t.TempDir()
	file := `{"k":{"time_us":[[1,2.5],[3]],"loss":[[0.5]]},"l":{"busbw":[[9,8]]}}`
	must.Do(t, journal.WriteRaw(dir, "a.json", []byte(file)))
	rows := []journal.Row{
		{Key: "k", Raw: "a.json"}, {Key: "l", Trial: 1, Raw: "a.json"}, {Key: "failed", Status: journal.Failed},
		{Key: "one", Status: journal.OK, Clock: "program", Samples: 1, Metrics: map[string]float64{"loss": 7}},
	}
	var out bytes.Buffer
	must.Do(t, WriteSamples(&out, "csv", dir, dataset.All(rows)))
	want := `key,row,trial,iteration,rank,time_us,launch,busbw,loss
k,0,0,0,,1,0,,0.5
k,0,0,1,,2.5,0,,
k,0,0,2,,3,1,,
l,1,1,0,,,0,9,
l,1,1,1,,,0,8,
one,3,0,0,,,0,,7
`
	if out.String() != want {
		t.Errorf("csv:\n%swant\n%s", out.String(), want)
	}
	must.Do(t, journal.WriteRaw(dir, "bad.json", []byte(file[:20])))
	if err := WriteSamples(&out, "csv", dir, dataset.All([]journal.Row{{Key: "k", Raw: "bad.json"}})); err == nil ||
		!strings.Contains(err.Error(), "bad.json") {
		t.Errorf("a damaged file: %v", err)
	}
}
