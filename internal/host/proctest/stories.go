package proctest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update-stories", false, "rewrite the answers in testdata/*.txt")

// Stories tests something that decides and does nothing by the commands in testdata/*.txt,
// one a line: a verb and its arguments. What do answers stands below each command, indented
// by a tab, and -update-stories rewrites it: keep only a difference that you understand.
func Stories(t *testing.T, do func(verb string, args []string) (answers []string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
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
		switch {
		case got.String() == string(text):
		case *update:
			if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s: got\n%s", file, got.String())
		}
	}
}
