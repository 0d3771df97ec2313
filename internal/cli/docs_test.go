package cli

import (
	"context"
	"regexp"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/view/manual"
)

// Every topic that a help text names is a page of the documentation, and none names a file of the source tree.
func TestHelpNamesTopics(t *testing.T) {
	topic, file := regexp.MustCompile(`kernbench docs ([a-z][a-z-]*)`), regexp.MustCompile(`docs/[a-z-]+\.md`)
	named := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		text := c.Long + c.Example + c.Flags().FlagUsages()
		for _, m := range topic.FindAllStringSubmatch(text, -1) {
			named++
			if _, err := manual.Find(m[1]); err != nil {
				t.Errorf("%s: %v", c.CommandPath(), err)
			}
		}
		if found := file.FindString(text); found != "" {
			t.Errorf("%s: its help names the file %s", c.CommandPath(), found)
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(must.Get((&app{name: "kernbench"}).root(context.Background()))(t))
	if named < 8 {
		t.Errorf("the help texts name %d topics", named)
	}
}
