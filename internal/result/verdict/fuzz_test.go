package verdict

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Any baseline file is read or refused. One that is read has a run that was accepted, and stays readable when a run is
// added to it.
func FuzzReadBaseline(f *testing.F) {
	f.Add([]byte(`{"bench":"b","runs":["1","2"],"saved":"2026-11-18T10:00:00Z","accepted":"1"}`))
	f.Add([]byte(`{"runs":["a","a",""],"accepted":"gone"}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		must.Do(t, os.WriteFile(filepath.Join(dir, BaselineFile), text, 0o666))
		b, err := ReadBaseline(dir)
		if err != nil {
			return
		}
		if len(b.accepted()) == 0 {
			t.Errorf("no run of %+v is accepted", b)
		}
		must.Do(t, b.Add([]string{"new"}).Write(dir))
		if again := must.Get(ReadBaseline(dir))(t); !slices.Contains(again.Runs, "new") || len(again.Runs) > MaxBaseline {
			t.Errorf("%+v became %+v", b, again)
		}
	})
}
