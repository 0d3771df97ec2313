package export

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestVerify edits one number of a row at a time: it must contradict the stored samples.
func TestVerify(t *testing.T) {
	m := measure.NewMatrix(2)
	empty := must.Get(m.MarshalBinary())(t)
	raw := append(empty[:len(empty)-2:len(empty)-2], 2, 2) // iterations, ranks
	for _, d := range []int64{1e6, 2e6, 5e5, 1e6} {        // the second iteration is stored as differences: 1.5 and 3 us
		raw = binary.AppendVarint(raw, d)
	}
	dir := t.TempDir()
	must.Do(t, journal.WriteRaw(dir, "a.kbs", raw))
	must.Do(t, journal.WriteRaw(dir, "cut.kbs", raw[:len(raw)-1]))
	must.Do(t, journal.WriteRaw(dir, "a.json",
		[]byte(`{"k":{"time_us":[[1,2.5],[3]],"loss":[[0.5]]},"l":{"loss":[[9,8]]}}`)))
	must.Do(t, journal.WriteRaw(dir, "cut.json", []byte(`{"k":{"time_us":[[1,2`)))
	timed := journal.Row{Key: "k", Status: journal.OK, Raw: "a.kbs", Raws: map[string]string{"kernel_us": "a.kbs"},
		Metrics: map[string]float64{"time_us": 2.5, "kernel_us": 2.5}}
	printed := journal.Row{Key: "k", Status: journal.OK, Raw: "a.json", Samples: 3,
		Metrics: map[string]float64{"time_us": 2.5, "loss": 0.5}}
	for _, c := range []struct {
		name string
		row  journal.Row
		edit func(r *journal.Row)
		want string // "" if the row is right
	}{
		{"timed", timed, func(*journal.Row) {}, ""},
		{"time", timed, func(r *journal.Row) { r.Metrics["time_us"] = 25 },
			"time_us is 25, but the median of its samples in samples/a.kbs is 2.5"},
		{"another time", timed, func(r *journal.Row) { r.Metrics["kernel_us"] = 2.4 }, "kernel_us is 2.4, but"},
		{"cut off", timed, func(r *journal.Row) { r.Raw = "cut.kbs" }, "samples/cut.kbs: "},
		{"missing", timed, func(r *journal.Row) { r.Raw = "gone.kbs" }, "no such file"},
		{"printed", printed, func(*journal.Row) {}, ""},
		{"printed time", printed, func(r *journal.Row) { r.Metrics["time_us"] = 3 },
			"time_us is 3, but the median of its samples in samples/a.json is 2.5"},
		{"printed metric", printed, func(r *journal.Row) { r.Metrics["loss"] = -0.5 }, "loss is -0.5, but"},
		{"lost metric", printed, func(r *journal.Row) { delete(r.Metrics, "loss") }, "loss is missing, but"},
		{"number of samples", printed, func(r *journal.Row) {
			r.Samples = 30
		}, "the row has 30 samples, but samples/a.json has 3"},
		{"another row", printed, func(r *journal.Row) { r.Key = "m" }, "samples/a.json has no samples of this row"},
		{"printed, cut off", printed, func(r *journal.Row) { r.Raw = "cut.json" }, "cut.json: "},
		{"failed", printed, func(r *journal.Row) { r.Status, r.Metrics = journal.Failed, nil }, "not done"},
		{"no samples", printed, func(r *journal.Row) { r.Raw = "" }, "not done"},
	} {
		r := c.row
		r.Metrics = map[string]float64{}
		for name, v := range c.row.Metrics {
			r.Metrics[name] = v
		}
		c.edit(&r)
		done, err := NewVerifier(dir).Verify(&r)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case !done:
			got = "not done"
		}
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
