package kernbench_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// The examples of docs/extending.md are test files, so that they are compiled
// and run where they belong: a block of "```go PATH" is the file PATH.
func TestExtendingShowsItsExamples(t *testing.T) {
	guide := must.Get(os.ReadFile("docs/extending.md"))(t)
	blocks := regexp.MustCompile("(?s)```go (\\S+)\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) == 0 {
		t.Error("docs/extending.md has no example")
	}
	for _, b := range blocks {
		file, err := os.ReadFile(b[1])
		if err != nil {
			t.Errorf("docs/extending.md: %v", err)
		} else if string(file) != b[2] {
			t.Errorf("docs/extending.md does not show %s as it is", b[1])
		}
	}
}
