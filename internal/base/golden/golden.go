// Package golden compares the output of tests with files. The flag -update rewrites the
// files instead, so that a change of output shows up in the diff of a commit.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

var update = flag.Bool("update", false, "rewrite the golden files with the output of the tests")

// Updating reports whether the test run rewrites its files (-update), for tests that compare
// with a tolerance.
func Updating() bool { return *update }

// T is the part of *testing.T that this package uses.
type T interface {
	must.T
	Errorf(format string, args ...any)
}

// Check compares got with the named file in testdata and reports the lines that differ.
func Check(t T, name, got string) {
	t.Helper()
	CheckFile(t, filepath.Join("testdata", name), got)
}

// CheckFile is Check for a file anywhere.
func CheckFile(t T, path, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := string(must.Get(os.ReadFile(path))(t))
	if want != got {
		t.Errorf("differs from %s; go test -update rewrites it (-want +got):\n%s", path,
			cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}
