package schedule

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// TestStories compares whole schedules with files in testdata/stories. A file has comments, one line that names
// the schedule, then "----" and the steps, which -update rewrites.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories (%v)", err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		head, _, _ := strings.Cut(string(text), "----\n")
		var i instance
		for line := range strings.Lines(head) {
			if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
				i = parseInstance(t, line)
			}
		}
		name, _ := filepath.Rel("testdata", file)
		golden.Check(t, name, head+"----\n"+story(t, i.build(t)))
	}
}

// parseInstance reads a line such as "allreduce ring ranks=3 count=7".
func parseInstance(t *testing.T, line string) instance {
	t.Helper()
	fields := strings.Fields(line)
	i := instance{collective: fields[0], algorithm: fields[1]}
	names := map[string]*int{"ranks": &i.params.Ranks, "count": &i.params.Count, "root": &i.params.Root,
		"width": &i.params.Width, "group": &i.params.GroupSize, "chunk": &i.params.ChunkElems}
	for _, field := range fields[2:] {
		name, value, _ := strings.Cut(field, "=")
		if names[name] == nil {
			t.Fatalf("%q: no option %q", line, name)
		}
		if _, err := fmt.Sscan(value, names[name]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return i
}

func story(t *testing.T, s Schedule) string {
	t.Helper()
	var b strings.Builder
	for rank := range s.Ranks() {
		fmt.Fprintf(&b, "rank %d\n", rank)
		for step := range s.Steps(rank) {
			fmt.Fprintf(&b, "  %v\n", step)
		}
	}
	cost := must.Get(Cost(s))(t)
	fmt.Fprintf(&b, "%d rounds; a rank sends up to %d elements in messages, reads up to %d from peers, adds up to %d\n",
		cost.Rounds, cost.Sent.Max, cost.Read.Max, cost.Reduced.Max)
	return b.String()
}
