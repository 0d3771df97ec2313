package node_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// tryFlags runs the flags of a documented launch on this host alone, with a program that does nothing.
// It checks the names and forms of the flags; other tests check their effect on several hosts.
func tryFlags(t *testing.T, where string, args []string) {
	t.Helper()
	end := slices.Index(args, "--")
	if end < 0 {
		t.Errorf("%s: no -- before the program: %q", where, args)
		return
	}
	// If a flag is given twice, the last one counts.
	args = append(slices.Clone(args[:end]), "--nnodes=1", "--node-rank=0", "--nproc-per-node=1", "--interface=lo", "--",
		"true")
	if l := start(t, nil, args...); l.wait() != 0 {
		t.Errorf("%s: %q: %s", where, args, l.stderr)
	}
}

func TestDocumentedLaunches(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/clusters.md"))(t)
	found := regexp.MustCompile(`(?m)^ {4}.*kernbench launch (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 3 {
		t.Errorf("only %d indented launches were found: has the form of the document changed?", len(found))
	}
	for _, f := range found {
		line := strings.NewReplacer(`"$SLURM_NNODES"`, "4", `"$head:29400"`, "node0:29400", `"$SLURM_JOB_ID"`,
			"99").Replace(f[1])
		if strings.ContainsAny(line, `$"`) {
			t.Errorf("a variable that the test does not know: %s", line)
		}
		tryFlags(t, "clusters.md", strings.Fields(line))
	}
}
