package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// show prints the chosen format and draws the views of a run.
func (a *app) show(j planned, f runFlags, id string) error {
	jn, r, err := journal.LoadRun(j.out + "@" + id)
	if err != nil {
		return err
	}
	return a.views(jn.Dir(), j, f, j.bench.View(jn, r))
}

func (a *app) views(dir string, j planned, f runFlags, r *journal.Run) error {
	if err := a.print(j.bench, f.format, r); err != nil {
		return err
	}
	files, err := report.Render(dir, report.Input{Bench: j.bench, Run: r, Plots: j.plots})
	if err != nil {
		return err
	}
	if !f.quiet {
		for _, file := range files {
			fmt.Fprintf(a.stderr, "wrote %s\n", file)
		}
	}
	return nil
}

// print writes the rows as the format, or, for people, what the bench itself
// would say first.
func (a *app) print(b *bench.Bench, format string, r *journal.Run) error {
	rows := r.Latest()
	if format == export.Default {
		if written, err := report.Headlines(a.stdout, b, rows, a.width); written || err != nil {
			return err
		}
	}
	return export.Write(a.stdout, format, export.Input{Header: &r.Header, Rows: rows}, export.Options{Width: a.width, MaxRows: tableRows(format)})
}

// tableRows is how many lines a table on the terminal may have before its
// middle is left out; files always hold all.
func tableRows(format string) int {
	if format == export.Default {
		return 200
	}
	return 0
}

// renderOnly draws again from stored rows, if they are what this bench and
// these inputs would give.
func (a *app) renderOnly(j planned, f runFlags) (int, error) {
	jn, r, err := journal.LoadRun(j.out)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("nothing is stored in %s: run without --render-only first", j.out)
	}
	if err != nil {
		return exitFailed, err
	}
	switch {
	case r.Header.Bench != j.bench.Name:
		err = fmt.Errorf("%s holds rows of bench %q, not of %q", j.out, r.Header.Bench, j.bench.Name)
	case r.Header.Version != j.bench.Version:
		err = fmt.Errorf("the rows in %s were made by version %q of %s, this is version %q: run again without --render-only", j.out, r.Header.Version, j.bench.Name, j.bench.Version)
	case len(r.Rows) == 0:
		err = fmt.Errorf("the latest run in %s holds no row: run without --render-only first", j.out)
	}
	if err == nil && !maps.Equal(j.inputs, r.Header.Inputs) {
		err = fmt.Errorf("the rows in %s were made with other files (%s, now %s): run again without --render-only",
			j.out, inputNames(r.Header.Inputs), inputNames(j.inputs))
	}
	if err != nil {
		return exitFailed, err
	}
	return exitGood, a.views(jn.Dir(), j, f, j.bench.View(jn, r))
}

// inputNames words a set of input files.
func inputNames(inputs map[string]string) string {
	if len(inputs) == 0 {
		return "none"
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		names = append(names, fmt.Sprintf("--%s %.8s", name, inputs[name]))
	}
	return strings.Join(names, ", ")
}
