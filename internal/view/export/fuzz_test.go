package export

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Any file of samples is read or refused. The CSV file that is made of it can be read and has no control characters,
// and the array has 8 bytes for each value.
func FuzzWriteSamples(f *testing.F) {
	f.Add([]byte(`{"k":{"time_us":[[1,2],[3]],"\u001b[31m=1+1":[[1]]}}`), true)
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"), false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, printed bool) {
		row := journal.Row{Key: "k", Status: journal.OK, Raw: "raw.bin", Clock: "host"}
		if printed {
			row.Raw, row.Clock = "raw.json", "program"
		}
		must.Do(t, journal.WriteRaw(dir, row.Raw, data))
		var text, array strings.Builder
		if err := WriteSamples(&text, "csv", dir, dataset.All([]journal.Row{row})); err != nil {
			return
		}
		records, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
		if err != nil || strings.ContainsFunc(text.String(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
			t.Fatalf("%q: %v", text.String(), err)
		}
		must.Do(t, WriteSamples(&array, "npy", dir, dataset.All([]journal.Row{row})))
		if want := 8 * (len(records) - 1) * (len(records[0]) - 1); array.Len() < want || (array.Len()-want)%64 != 0 {
			t.Errorf("%d records of %d fields are an array of %d bytes", len(records), len(records[0]), array.Len())
		}
	})
}
