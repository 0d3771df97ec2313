package sweep

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestBadFiles compares the whole error text, line, column and caret included.
func TestBadFiles(t *testing.T) {
	const golden = "testdata/bad.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(golden, txtar.Format(renewed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
