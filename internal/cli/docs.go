package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/view/manual"
)

// plainWidth is the width of pages in columns if the output is not a terminal.
const plainWidth = 100

// docsCommand shows the documentation.
func (a *app) docsCommand() *cobra.Command {
	var search string
	cmd := &cobra.Command{
		Use:   "docs [TOPIC]",
		Short: "Show a page of the documentation, or list the pages",
		Long: `Shows a page of the documentation in the terminal. Without a TOPIC it lists the
pages. ` + "`" + a.name + ` web` + "`" + ` shows the same pages in a browser.`,
		Example: fmt.Sprintf("  %[1]s docs\n  %[1]s docs tutorial\n  %[1]s docs --search NCCL_ALGO\n"+
			"  %[1]s docs statistics | less", a.name),
		Args: arguments(0, 1, "one TOPIC"),
		RunE: func(_ *cobra.Command, args []string) error {
			if search != "" {
				return a.searchDocs(search)
			}
			if len(args) == 0 {
				return a.listDocs()
			}
			p, err := manual.Find(args[0])
			if err != nil {
				return usage(err)
			}
			err = a.stdout.Printf("%s", texttab.Block(p.Text(cmp.Or(a.width, plainWidth))))
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var topics []string
			for _, p := range manual.Pages() {
				topics = append(topics, p.Topic+"\t"+p.Title)
			}
			return topics, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&search, "search", "", "list the pages that contain these `WORDS`")
	return cmd
}

func (a *app) listDocs() error {
	t := texttab.Table{Columns: []texttab.Column{{Title: "TOPIC"}, {Title: "PAGE", Shrink: true}}}
	for _, p := range manual.Pages() {
		t.Add(p.Topic, p.Title)
	}
	return t.Write(a.stdout.Writer(), a.width)
}

func (a *app) searchDocs(words string) error {
	t := texttab.Table{Columns: []texttab.Column{{Title: "TOPIC"}, {Title: "FIRST LINE", Shrink: true}}}
	for _, m := range manual.Search(words) {
		t.Add(m.Topic, m.Line)
	}
	if len(t.Lines) == 0 {
		return fmt.Errorf("no page of the documentation contains %q", words)
	}
	return t.Write(a.stdout.Writer(), a.width)
}
