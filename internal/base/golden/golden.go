// Package golden is for tests: it compares what they make with a file of testdata, which -update renews.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// T is what it needs of a *testing.T.
type T interface {
	must.T
	Errorf(format string, args ...any)
}

// Check compares with a file of testdata, line by line.
func Check(t T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := string(must.Get(os.ReadFile(path))(t))
	if want != got {
		t.Errorf("differs from %s (-want +got):\n%s", path, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}
