package sweep

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// TestBadFiles compares the whole error text, line, column and caret included.
func TestBadFiles(t *testing.T) {
	const file = "bad.txtar"
	archive := must.Get(txtar.ParseFile(filepath.Join("testdata", file)))(t)
	got := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, isFile := strings.CutSuffix(f.Name, ".yaml")
		if !isFile {
			continue
		}
		_, err := Parse(f.Name, f.Data)
		if err == nil {
			t.Errorf("%s: no error", f.Name)
			continue
		}
		if _, located := err.(*Error); !located {
			t.Errorf("%s: the error has no place: %v", f.Name, err)
		}
		got.Files = append(got.Files, f, txtar.File{Name: name + ".err", Data: []byte(err.Error() + "\n")})
	}
	golden.Check(t, file, string(txtar.Format(got)))
}
