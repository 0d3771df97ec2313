package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// declare adds the flags of `show`.
func (f *showFlags) declare(fl *pflag.FlagSet) {
	request.FormatFlag(fl, &f.format)
	fl.StringArrayVar(&f.plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` into RUN/figures (repeatable)")
	fl.BoolVar(&f.chart, "chart", false, "draw in the terminal instead: the curves of --plot, or a default choice")
	fl.StringArrayVar(&f.only, "only", nil, onlyHelp)
	fl.StringSliceVar(&f.sort, "sort", nil, "order by these `COLUMNS`, the first one first; -size is largest first")
	fl.StringSliceVar(&f.columns, "columns", nil, "show these `COLUMNS` in this order (table, markdown, csv)")
	fl.BoolVar(&f.perTrial, "per-trial", false, "one table line per trial")
	fl.BoolVar(&f.runs, "runs", false, "list the runs of the folder")
	fl.BoolVar(&f.following, "follow", false, "show the rows of a run under way until it ends, then its table")
	fl.StringVar(&f.tag, "tag", "", "list only the runs with this `NAME` as a tag")
	fl.StringVar(&f.samples, "samples", "",
		"write every raw sample instead, as `FORMAT` "+strings.Join(export.SampleFormats(), " or ")+
			" ('kernbench docs journal-schema')")
	fl.StringVar(&f.section, "section", "",
		"print the sections of the report whose title contains `TEXT` instead, such as 'work of an iteration'")
	fl.BoolVar(&f.allBuilds, "all-builds", false,
		"show the rows of all builds in the folder, with the column build, not only the current one")
	fl.BoolVar(&f.verify, "verify", false,
		"check the journal instead: every checksum, and every number against its stored samples")
}

// printSections prints the sections of the bench whose titles contain a text.
func (a *app) printSections(r *dataset.Dataset, rows dataset.Set, text string) error {
	if err := report.Titled(a.stdout.Writer(), a.bench(r.Header.Bench), rows, text, a.width); err != nil {
		return usage(fmt.Errorf("--section: %w", err))
	}
	return nil
}
