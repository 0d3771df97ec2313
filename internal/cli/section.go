package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// declareViews declares the flags of `show` that select another view: samples, sections, builds and damage.
func declareViews(fl *pflag.FlagSet, samples, section *string, allBuilds, verify *bool) {
	fl.StringVar(samples, "samples", "",
		"write every raw sample instead, as `FORMAT` "+strings.Join(export.SampleFormats(), " or ")+
			" ('kernbench docs journal-schema')")
	fl.StringVar(section, "section", "",
		"print the sections of the report whose title contains `TEXT` instead, such as 'work of an iteration'")
	fl.BoolVar(allBuilds, "all-builds", false,
		"show the rows of all builds in the folder, with the column build, not only the current one")
	fl.BoolVar(verify, "verify", false,
		"check the journal instead: every checksum, and every number against its stored samples")
}

// printSections prints the sections of the bench whose titles contain a text.
func (a *app) printSections(r *dataset.Dataset, rows dataset.Set, text string) error {
	if err := report.Titled(a.stdout.Writer(), a.bench(r.Header.Bench), rows, text, a.width); err != nil {
		return usage(fmt.Errorf("--section: %w", err))
	}
	return nil
}
