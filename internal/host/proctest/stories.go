package proctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Stories tests something that decides and does nothing by the commands in testdata/*.txt,
// one a line: a verb and its arguments. What do answers stands below each command, indented
// by a tab, and -update rewrites it: keep only a difference that you understand.
func Stories(t *testing.T, do func(verb string, args []string) (answers []string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories (%v)", err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		var got strings.Builder
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "\t") {
				continue
			}
			got.WriteString(line)
			if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
				for _, answer := range do(fields[0], fields[1:]) {
					got.WriteString("\t" + strings.ReplaceAll(answer, "\n", "\n\t") + "\n")
				}
			}
		}
		golden.Check(t, filepath.Base(file), got.String())
	}
}
