package sweep

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/bench"
)

// Axis is an axis of a command and its values in the syntax of --axis.
type Axis struct{ Name, Spec string }

// OfCommand returns the sweep of one command over axes, which measures the wall time of each
// launch. Arguments may contain axes in braces, such as {n}. The program runs in the current
// folder.
func OfCommand(argv []string, axes []Axis) (*bench.Bench, error) {
	quote := func(v any) string { text, _ := json.Marshal(v); return string(text) } // JSON is YAML
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ncommand: %s\nmetrics: {time_us: {wall: true}}\n", quote(commandName(argv[0])), quote(argv))
	if len(axes) > 0 {
		b.WriteString("axes:\n")
	}
	for _, axis := range axes {
		fmt.Fprintf(&b, "  %s: %s\n", quote(axis.Name), quote(axis.Spec))
	}
	bench, err := Parse("command", []byte(b.String()))
	if err == nil {
		err = locate(bench)
	}
	if err != nil {
		return nil, fmt.Errorf("the command %s: %w", strings.Join(argv, " "), err)
	}
	return bench, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// commandName returns the name of a bench of a program.
func commandName(program string) string {
	name := notInNames.ReplaceAllString(filepath.Base(program), "-")
	if name == "" || !(name[0] >= 'A' && name[0] <= 'Z' || name[0] >= 'a' && name[0] <= 'z') {
		name = "run" + name
	}
	return name
}
