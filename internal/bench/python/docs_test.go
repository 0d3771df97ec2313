package python

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// checkPython reads a piece of Python. Everything that it takes from the module kernbench, and from the arguments of a
// body, must exist.
const checkPython = `
import ast, sys
import kernbench
from kernbench import bench

known = {"kernbench": kernbench, "bench": bench, "state": kernbench.State, "ctx": kernbench.Context}
for node in ast.walk(ast.parse(sys.stdin.read())):
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
        if not hasattr(known[node.value.id], node.attr) and (node.value.id, node.attr) != ("ctx", "device"):
            sys.exit("there is no %s.%s" % (node.value.id, node.attr))
`

// TestPythonPages checks the Python on all pages.
func TestPythonPages(t *testing.T) {
	check := func(text string) string {
		cmd := exec.Command(interpreterForTests, "-c", checkPython)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+must.Get(filepath.Abs("."))(t), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			return err.Error() + "\n" + string(out)
		}
		return ""
	}
	count := 0
	for _, blocks := range golden.Pages(t) {
		for _, b := range blocks {
			if b.Kind == "python" {
				count++
				if fault := check(b.Text); fault != "" {
					t.Errorf("%s: %s", b, fault)
				}
			}
		}
	}
	if count < 7 {
		t.Errorf("only %d blocks of Python were found", count)
	}
	for _, planted := range []string{"bench.axes('M', [1])", "def f(state, ctx):\n    state.set_byte(1)", "def f(:"} {
		if check(planted) == "" {
			t.Errorf("%q is accepted", planted)
		}
	}
}

// TestDocumentedBench reads the declaration in docs/protocol.md, which has every key.
func TestDocumentedBench(t *testing.T) {
	for _, b := range golden.Pages(t)["docs/protocol.md"] {
		if b.Kind != "json" {
			continue
		}
		var d declared
		r := json.NewDecoder(bytes.NewReader([]byte(b.Text)))
		r.DisallowUnknownFields()
		must.Do(t, r.Decode(&d))
		if _, err := d.bench(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		for f := range reflect.TypeFor[declared]().Fields() {
			if key := f.Tag.Get("json"); key != "" && !strings.Contains(b.Text, `"`+key+`": `) {
				t.Errorf("%s lacks the key %s", b, key)
			}
		}
		return
	}
	t.Error("the page shows no declaration")
}
