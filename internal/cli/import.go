package cli

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

// The benches whose views show imported rows by default.
const (
	importAllReduce = "allreduce-eval"
	importOthers    = "collectives"
	importPart      = "performance" // of allreduce-eval
)

// importFlags holds the flags of `import`.
type importFlags struct {
	as, out, bench string
	claims, link   string
	format         string
	given          imports.Given
	quiet          bool
}

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import --as FORMAT FILE... --out RUN",
		Short: "Import the results of other tools into a RUN, and check them",
		Long: `Reads the results of other tools into a RUN, so that show, report, compare and
the bench llm-impact can use them. The numbers are checked for physical plausibility,
and implausible rows get warnings. --claims checks claims about the results, one row
each. 'kernbench docs models' describes the claims and the checks. FORMAT is one of

` + importFormats("  %-10s  %[2]s\n") + `
Flags supply values that are missing in a file. Several imports into the same RUN
become separate runs.

A log must agree with itself. A row that contradicts itself or the rest of the log has
failed, a size that the run was asked for and the log lacks was not executed, and a
message of a failure fails the import. Messages of NCCL's log are skipped and counted.`,
		Annotations: exitsWith(codes{
			exitFailed: "a row failed (wrong results, a false claim), a required row was not executed, or the log ends in " +
				"a failure",
			exitUsage: "wrong usage or an unreadable file"}),
		Example: strings.TrimSuffix(importFormats("  "+a.name+" import --as %s %[3]s\n"), "\n"),
		Args:    arguments(1, -1, "FILEs that another tool wrote"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.importFiles(args, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.as, "as", "", "`FORMAT` of the files: "+strings.Join(imports.Formats.Names(), ", "))
	fl.StringVar(&f.out, "out", "", "`FOLDER` of the run")
	fl.StringVar(&f.bench, "bench", "",
		"`NAME` of the bench whose views show the rows (default: "+importAllReduce+" for all-reduces, else "+importOthers+")")
	fl.StringVar(&f.claims, "claims", "", "YAML `FILE` of claims about the results, to be checked")
	fl.StringVar(&f.link, "link", "", "`LINK` to compare the times with: "+linkNames()+", or a rate such as '450 GB/s'")
	fl.IntVar(&f.given.Ranks, "ranks", 0, "number of ranks, if missing in the file")
	fl.StringVar(&f.given.Op, "op", "", "`NAME` of the operation, if missing in the file")
	fl.StringVar(&f.given.Algorithm, "algorithm", "", "`NAME` of the algorithm, if missing in the file (default: the library)")
	fl.StringVar(&f.given.DType, "dtype", "", "element `TYPE`, if missing in the file")
	fl.StringVar(&f.given.Backend, "backend", "", "`NAME` of the backend, if missing in the file")
	request.FormatFlag(fl, &f.format)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no list of the files written")
	return cmd
}

// importFormats formats a line for each import format with its name, description and example.
func importFormats(line string) string {
	var b strings.Builder
	for _, f := range imports.Formats.All() {
		fmt.Fprintf(&b, line, f.Name, f.Help, f.Example)
	}
	return b.String()
}

func linkNames() string {
	return strings.Join(lists.Map(model.Links(), func(l model.Link) string { return l.Name }), ", ")
}

// importFiles converts files of other tools into one new run of the folder and shows it.
func (a *app) importFiles(paths []string, f importFlags) error {
	switch {
	case f.as == "":
		return usage(fmt.Errorf("missing --as, the format of the files: %s", strings.Join(imports.Formats.Names(), ", ")))
	case f.out == "":
		return usage(errors.New("missing --out, the RUN folder to write to"))
	case f.given.Ranks < 0:
		return usage(fmt.Errorf("--ranks %d: want a whole number of at least 1", f.given.Ranks))
	}
	ceilings, err := model.Ceilings(f.link)
	if err != nil {
		return usage(err)
	}
	now := time.Now().UTC()
	im := importing{src: imports.Source{Run: journal.NewRunID(now, rand.Reader), Time: now}, inputs: map[string]string{}}
	if err := im.read(paths, f); err != nil {
		return usage(err)
	}
	for i := range im.rows {
		model.Limit(&im.rows[i], ceilings)
	}
	im.notes = append(im.notes, imports.Warn(model.Check(model.SamplesOf(dataset.All(im.rows))))...)
	if err := im.judge(f.claims); err != nil {
		return usage(err)
	}
	if err := im.write(f.out, append([]string{a.name}, a.args...)); err != nil {
		return err
	}
	return a.showImported(f, im)
}

// importing is a run that is being assembled from files.
type importing struct {
	src    imports.Source
	rows   []journal.Row
	notes  []string
	inputs map[string]string
	failed bool // a file reports that its run failed
}

// read converts the files to rows. Unless the user names a bench, a run that has only all-reduces
// belongs to importAllReduce, and any other run to importOthers.
func (im *importing) read(paths []string, f importFlags) error {
	var files []imports.File
	var sources []imports.Source
	only := true
	for _, path := range paths {
		src, data, err := im.source(path)
		if err != nil {
			return err
		}
		file, err := imports.Read(f.as, path, string(data), f.given)
		if err != nil {
			return err
		}
		only = only && !slices.ContainsFunc(file.Records, func(r imports.Record) bool { return r.Op != "allreduce" })
		files, sources = append(files, file), append(sources, src)
	}
	im.src.Bench = f.bench
	if f.bench == "" {
		im.src.Bench = importOthers
		if only {
			im.src.Bench = importAllReduce
		}
	}
	if im.src.Bench == importAllReduce {
		im.src.Part = importPart
	}
	imports.TellApart(files)
	trials := map[string]int{}
	for i, file := range files {
		src := sources[i]
		src.Bench, src.Part = im.src.Bench, im.src.Part
		im.rows = append(im.rows, imports.Rows(file.Records, src, len(im.rows), trials)...)
		im.failed = im.failed || file.Failure != ""
		for _, n := range file.Notes {
			im.notes = append(im.notes, src.Name+": "+n)
		}
	}
	return nil
}

// source reads a file and records it as an input of the run.
func (im *importing) source(path string) (src imports.Source, data []byte, err error) {
	src = im.src
	data, err = infile.Read(path, infile.Table)
	src.Name, src.SHA256 = filepath.Base(path), fmt.Sprintf("%x", sha256.Sum256(data))
	im.inputs[path] = src.SHA256
	return src, data, err
}

// judge checks the claims in a file and adds a row for each of them. It does nothing if path is "".
func (im *importing) judge(path string) error {
	if path == "" {
		return nil
	}
	src, data, err := im.source(path)
	if err != nil {
		return err
	}
	claims, err := imports.Claims(path, data)
	if err != nil {
		return err
	}
	verdicts := model.Judge(dataset.All(im.rows), claims, model.NamedCurve)
	im.rows = append(im.rows, imports.VerdictRows(verdicts, src, len(im.rows))...)
	return nil
}

// write appends the run to the journal of the folder.
func (im *importing) write(dir string, argv []string) error {
	w, err := journal.Open(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	backend := ""
	counts := map[journal.Status]int{}
	points, trials := map[string]bool{}, 1
	for _, r := range im.rows {
		counts[r.Status]++
		points[r.Key] = true
		trials = max(trials, r.Trial+1)
		backend = cmp.Or(backend, r.Backend)
	}
	// The numbers come from another machine, so the header describes only this program's build.
	records := []any{journal.Header{Schema: journal.Schema, Run: im.src.Run, Bench: im.src.Bench, Time: im.src.Time,
		Argv: argv,
		Host: hostinfo.Host{Build: hostinfo.LocalBuild()}, Environ: map[string]string{}, Axes: imports.Axes(im.rows),
		Metrics: imports.Metrics(im.rows),
		Inputs:  im.inputs, Backend: backend, Launcher: "imported", Trials: trials, Points: len(points)}}
	for _, n := range im.notes {
		records = append(records, journal.Note{Run: im.src.Run, Text: journal.Text(n), Time: im.src.Time})
	}
	for _, r := range im.rows {
		records = append(records, r)
	}
	outcome := "complete"
	if im.failed {
		outcome = "failed"
	}
	records = append(records, journal.End{Run: im.src.Run, Outcome: outcome, Counts: counts, Time: im.src.Time})
	for _, rec := range records {
		if err := w.Append(rec); err != nil {
			return fmt.Errorf("writing the imported rows: %w", err)
		}
	}
	return w.Close()
}

// showImported prints the new run and writes its views.
func (a *app) showImported(f importFlags, im importing) error {
	j, r, err := journal.LoadRun(f.out + "@" + im.src.Run)
	if err != nil {
		return err
	}
	d := dataset.Of(r)
	opts := export.Options{Width: a.width, MaxRows: tableRows(f.format)}
	if err := a.printRows(d, d.Rows, f.format, opts); err != nil {
		return err
	}
	files, err := report.Render(j.Dir(), report.Input{Bench: a.bench(r.Header.Bench), Data: d})
	a.printWritten(files, f.quiet)
	if err != nil {
		return err
	}
	if im.failed || slices.ContainsFunc(d.Rows, func(r *journal.Row) bool {
		return r.Status.Bad() || r.Status == journal.NotExecuted && !r.Optional
	}) {
		return exit(exitFailed)
	}
	return nil
}
