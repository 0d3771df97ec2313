package milestone1h

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/floorplan"
)

// The files of the evaluation besides its figures.
const (
	summaryFile = "summary.csv"
	bufferFile  = "buffer_kind_sweep.csv"
	indexFile   = "index.html"
)

// artifacts are the files without which the evaluation of these rows, good or
// bad, is not complete: all of them, unless a part was left out.
func artifacts(rows []journal.Row) []string {
	return artifactsOf(rows, figureNames(rows), [2]string{latencyPart, summaryFile}, [2]string{bufferPart, bufferFile})
}

// artifactsOf are the page, the file of each part that has rows, and the figures.
func artifactsOf(rows []journal.Row, figures []string, files ...[2]string) []string {
	names := []string{indexFile}
	for _, part := range files {
		if hasPart(rows, part[0]) {
			names = append(names, part[1])
		}
	}
	for _, f := range figures {
		names = append(names, "figures/"+f+".png", "figures/"+f+".svg")
	}
	return names
}

func hasPart(rows []journal.Row, name string) bool {
	return slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Part == name })
}

func elements(r *journal.Row) int { return int(rowset.Number(r, "n_elem")) }

func bytesPerPE(r *journal.Row) int { return 2 * elements(r) }

// exports makes the two tables in the form in which they were published, and a
// page that shows everything.
func exports(rows []journal.Row) ([]bench.File, error) {
	whole := func(r *journal.Row, metric string) string { return strconv.Itoa(int(r.Metrics[metric])) }
	ns := func(r *journal.Row) string { return strconv.FormatFloat(r.Metrics["crit_ns"], 'f', 3, 64) }
	summary := [][]string{{"algorithm", "sip_topology", "n_sips", "n_elem", "bytes_per_pe", "bytes_per_sip", "latency_ns"}}
	summary[0] = append(summary[0], machine.Columns()...)
	for _, r := range rowset.Good(rows).Part(latencyPart) {
		summary = append(summary, append([]string{rowset.Text(r, "algorithm"), rowKind(r), whole(r, "n_sips"),
			strconv.Itoa(elements(r)),
			strconv.Itoa(bytesPerPE(r)), strconv.Itoa(bytesPerPE(r) * int(r.Metrics["cubes"])), ns(r)}, machine.Cells(r)...))
	}
	buffers := [][]string{{"buffer_kind", "sip_topology", "n_sips", "n_elem", "bytes_per_pe", "latency_ns"}}
	buffers[0] = append(buffers[0], machine.Columns()...)
	for _, r := range rowset.Good(rows).Part(bufferPart) {
		buffers = append(buffers, append([]string{rowset.Text(r, "buffer_kind"), rowKind(r), whole(r, "n_sips"),
			strconv.Itoa(elements(r)), strconv.Itoa(bytesPerPE(r)), ns(r)}, machine.Cells(r)...))
	}
	if _, _, err := layouts(rows); err != nil {
		return nil, err
	}
	var files []bench.File
	var tables []table
	for _, t := range []table{{summaryFile, summary}, {bufferFile, buffers}} {
		if len(t.Rows) == 1 { // nothing but the header
			continue
		}
		file, err := t.encode()
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		tables = append(tables, t)
	}
	page, err := indexPage("milestone-1h-ccl", "All-reduce on the simulated accelerator",
		"The data were computed, and every cube compared with the exact sum, unless --verify-data=false.",
		machine.Words(rowset.All(rows)), append(figureNames(rows), floorplan.Names(rows)...), tables)
	return append(files, page), err
}

// indexPage shows all figures and tables of an evaluation.
func indexPage(benchName, heading, checked, machines string, figures []string, tables []table) (bench.File, error) {
	var page bytes.Buffer
	err := index.Execute(&page, map[string]any{"Bench": benchName, "Heading": heading, "Checked": checked,
		"Machines": machines,
		"Figures":  figures, "Tables": tables})
	if err != nil {
		return bench.File{}, fmt.Errorf("%s: %w", indexFile, err)
	}
	return bench.File{Name: indexFile, Data: page.Bytes()}, nil
}

// encode is the table as CSV.
func (t table) encode() (bench.File, error) {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(t.Rows); err != nil {
		return bench.File{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	return bench.File{Name: t.Name, Data: b.Bytes()}, nil
}

// table is an export before it is written.
type table struct {
	Name string
	Rows [][]string
}

//go:embed index.html
var indexText string

var index = template.Must(template.New(indexFile).Parse(indexText))
