package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func (a *app) tagCommand() *cobra.Command {
	var remove bool
	var note string
	cmd := &cobra.Command{
		Use:   "tag RUN [NAME...]",
		Short: "Add tags or a note to a run, or remove them",
		Long: "Adds tags to a run that is already recorded, or removes them. --note replaces its note;\nan empty text " +
			"removes it. The change is appended to the journal. A new run gets its tags\nfrom run --tag.\n\n" + runHelp,
		Example: fmt.Sprintf("  %[1]s tag out/memory before\n  %[1]s tag out/memory@-1 nightly --note 'kernel 6.12'\n"+
			"  %[1]s compare out/memory@before out/memory\n  %[1]s tag out/memory before --remove", a.name),
		Args: arguments(1, -1, "a RUN folder such as out/memory, then tags"),
		RunE: func(cmd *cobra.Command, args []string) error {
			noted := cmd.Flags().Changed("note")
			if len(args) == 1 && !noted {
				return usage(errors.New("no tag: give at least one NAME after RUN, or --note TEXT"))
			}
			j, r, err := a.load(args[0])
			if err != nil {
				return err
			}
			label := journal.Label{Run: r.ID(), Note: r.Header.Note, Time: time.Now()}
			if label.Tags, err = changeTags(r.Header.Tags, args[1:], remove); err != nil {
				return usage(err)
			}
			if noted {
				label.Note = note
				if err := journal.CheckNote(note); err != nil {
					return usage(fmt.Errorf("--note: %w", err))
				}
			}
			w, err := journal.Open(j.Dir())
			if err != nil {
				return err
			}
			if err := errors.Join(w.Append(label), w.Close()); err != nil {
				return err
			}
			r.Header.Tags, r.Header.Note = label.Tags, label.Note
			a.stdout.Printf("run %s of %s\n", r.ID(), r.Header.Bench)
			a.printLabels(&r.Header)
			return nil
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the tags instead")
	cmd.Flags().StringVar(&note, "note", "", "replace the note of the run by this `TEXT`")
	return cmd
}

// changeTags returns the tags with names added or removed.
func changeTags(tags, names []string, remove bool) ([]string, error) {
	if !remove {
		return journal.ParseTags(slices.Concat(tags, names))
	}
	for _, name := range names {
		if !slices.Contains(tags, name) {
			return nil, suggest.Unknown("tag", name, tags)
		}
	}
	return lists.Filter(tags, func(tag string) bool { return !slices.Contains(names, tag) }), nil
}

// printLabels prints the tags and the note of a run, if it has any.
func (a *app) printLabels(h *journal.Header) {
	if len(h.Tags) > 0 {
		a.stdout.Printf("tags: %s\n", strings.Join(h.Tags, ", "))
	}
	if h.Note != "" {
		a.stdout.Printf("note: %s\n", h.Note)
	}
}

func (a *app) runsCommand() *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use:     "runs RUN",
		Short:   "List the runs of a folder",
		Long:    "Lists the runs of a folder: when they started, their rows and how they ended.\n\n" + runHelp,
		Example: fmt.Sprintf("  %s runs out/memory", a.name),
		Args:    oneRun,
		RunE:    a.onRun(func(j *journal.Journal, _ *journal.Run, _ []string) error { return usage(a.listRuns(j, tag)) }),
	}
	cmd.Flags().StringVar(&tag, "tag", "", "list only the runs with this `NAME` as a tag")
	return cmd
}

// listRuns lists the runs of a journal, or only the runs with a tag. The list has a column of tags if any run has one.
func (a *app) listRuns(j *journal.Journal, tag string) error {
	runs := j.Runs
	if tag != "" {
		if runs = j.TaggedRuns(tag); len(runs) == 0 {
			var known lists.Set[string]
			for _, r := range j.Runs {
				for _, t := range r.Header.Tags {
					known.Add(t)
				}
			}
			return suggest.Unknown("tag", tag, known.List)
		}
	}
	titles := []string{"RUN", "STARTED", "BENCH", "ROWS", "FAILED", "OUTCOME"}
	tagged := slices.ContainsFunc(runs, func(r *journal.Run) bool { return len(r.Header.Tags) > 0 })
	if tagged {
		titles = append(titles, "TAGS")
	}
	var t texttab.Table
	for _, title := range titles {
		t.Columns = append(t.Columns, texttab.Column{Title: title})
	}
	for _, r := range runs {
		outcome := "not finished"
		if r.End != nil {
			outcome = r.End.Outcome
		}
		d := dataset.Of(r)
		if n := d.Lost(); n > 0 {
			outcome += fmt.Sprintf(", %s lost", unit.Plural(n, "row"))
		}
		c := d.Rows.Counts()
		cells := []string{r.ID(), r.Header.Time.Local().Format("2006-01-02 15:04:05"), r.Header.Bench,
			fmt.Sprint(len(d.Rows)), fmt.Sprint(c[journal.Failed] + c[journal.Timeout]), outcome,
			strings.Join(r.Header.Tags, ", ")}
		t.Add(cells[:len(titles)]...)
	}
	return t.Write(a.stdout.Writer(), 0)
}
