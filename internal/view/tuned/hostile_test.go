package tuned

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// TestHostileNames puts commands and control characters into the names and values of a study, as a journal from
// somebody else may have them. The script must not execute them, and no text may control a terminal or forge a line.
func TestHostileNames(t *testing.T) {
	touched := filepath.Join(t.TempDir(), "touched")
	hostile := "x\n\x1b[31mFORGED\ntouch " + touched + "\n$(touch " + touched + ")`touch " + touched + "`'\"\n\u202e"
	r := tune.Result{Metric: "time_us", Unit: hostile, Variables: []tune.Variable{
		{Names: []string{"A", hostile, "axis", hostile}, Env: []bool{true, true, false, false},
			Values: [][]string{{"", "", "", ""}, {hostile, hostile, hostile, hostile}},
			Unset:  [][]bool{{true, true, false, false}, {false, false, false, false}}}},
		Findings: []tune.Finding{{Per: hostile, Cells: 1, Size: 2, Levels: map[int][]int{0: {0}, 1: {1}},
			Answer: tune.Answer{Best: 1, Done: true, Expected: math.Log(0.7),
				Confirmed: &judge.Interval{Mid: math.Log(0.7), Low: math.Log(0.6), High: math.Log(0.8), Known: true, Count: 6},
				Failed:    []tune.Failure{{Setting: 0, Reason: hostile}}}}}}
	script := Exports(r)
	if script == "" {
		t.Fatal("there is no script")
	}
	out, err := exec.Command("sh", "-ec", script+"\nprintf %s \"$A\"").CombinedOutput()
	if _, ran := os.Stat(touched); ran == nil || err != nil || string(out) != hostile {
		t.Errorf("%v, touched: %v, %q\n%s", err, ran == nil, out, script)
	}
	for _, line := range strings.Split(Text(r, nil), "\n") {
		if strings.HasPrefix(line, "FORGED") || strings.HasPrefix(line, "touch") || strings.ContainsAny(line, "\x1b\u202e") {
			t.Errorf("%q in the text", line)
		}
	}
	reader, root := yamlfile.Parse("tuned.yaml", []byte(Fragment(r)), "sweep", "env")
	if must.Do(t, reader.Err()); root == nil {
		t.Error("no YAML")
	}
	if fields, _ := reader.Fields(root, "the sweep", "env", "axes"); len(fields) != 2 {
		t.Errorf("%d keys in\n%s", len(fields), Fragment(r))
	}
}
