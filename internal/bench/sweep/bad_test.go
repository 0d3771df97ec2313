package sweep

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kernbench/kernbench/internal/base/must"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestBadFiles compares the whole error text, line, column and caret included.
func TestBadFiles(t *testing.T) {
	const golden = "testdata/bad.txtar"
	archive := must.Get(txtar.ParseFile(golden))(t)
	want := map[string]string{}
	var files []txtar.File
	for _, f := range archive.Files {
		if name, isError := strings.CutSuffix(f.Name, ".err"); isError {
			want[name] = string(f.Data)
		} else {
			files = append(files, f)
		}
	}
	renewed := &txtar.Archive{Comment: archive.Comment}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name, ".yaml")
		_, err := Parse(f.Name, f.Data)
		if err == nil {
			t.Errorf("%s: no error", f.Name)
			continue
		}
		if _, located := err.(*Error); !located {
			t.Errorf("%s: the error has no place: %v", f.Name, err)
		}
		got := err.Error() + "\n"
		renewed.Files = append(renewed.Files, f, txtar.File{Name: name + ".err", Data: []byte(got)})
		if !*update && got != want[name] {
			t.Errorf("%s (-want +got):\n%s", f.Name, cmp.Diff(want[name], got))
		}
	}
	if *update {
		must.Do(t, os.WriteFile(golden, txtar.Format(renewed), 0o644))
	}
}
