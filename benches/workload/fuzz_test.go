package workload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/fastjson"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Any file of process groups is read or refused. One that is read lists the ranks of every group.
func FuzzReadGroups(f *testing.F) {
	f.Add([]byte(`{"0": [0, 1], "1": {"ranks": [2, 3]}}`))
	f.Add([]byte(`{"0": {}}`))
	f.Add([]byte(`{"0": [0, 1], "0": [2, 3]}`)) // is refused: encoding/json takes the last one
	path := filepath.Join(f.TempDir(), "groups.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		must.Do(t, os.WriteFile(path, text, 0o666))
		groups, err := readGroups(path)
		for name, ranks := range groups {
			if err == nil && (len(ranks) == 0 || fastjson.Duplicate(text) != "") {
				t.Errorf("%s: group %q has the ranks %v", text, name, ranks)
			}
		}
	})
}
