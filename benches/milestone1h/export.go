package milestone1h

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/floorplan"
)

// The files of the evaluation besides its figures.
const (
	summaryFile = "summary.csv"
	bufferFile  = "buffer_kind_sweep.csv"
	indexFile   = "index.html"
)

// artifacts returns the files that the evaluation must produce. Parts without rows need none; failed rows count.
func artifacts(rows dataset.Set) []string {
	return artifactsOf(rows, figureNames(rows), [2]string{latencyPart, summaryFile}, [2]string{bufferPart, bufferFile})
}

// artifactsOf returns the page, the file of each part that has rows, and the figures.
func artifactsOf(rows dataset.Set, figures []string, files ...[2]string) []string {
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

func hasPart(rows dataset.Set, name string) bool {
	return slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Part == name })
}

func elements(r *journal.Row) int { return int(dataset.Number(r, "n_elem")) }

// bytesPerPE returns the size of a tile; one PE of each cube takes part.
func bytesPerPE(r *journal.Row) int { return 2 * elements(r) }

// exports returns the two tables in their published form, and a page that shows everything.
func exports(rows dataset.Set) ([]bench.File, error) {
	integer := func(r *journal.Row, metric string) string { return strconv.Itoa(int(r.Metrics[metric])) }
	ns := func(r *journal.Row) string { return strconv.FormatFloat(r.Metrics["crit_ns"], 'f', 3, 64) }
	summary := [][]string{{"algorithm", "sip_topology", "n_sips", "n_elem", "bytes_per_pe", "bytes_per_sip", "latency_ns"}}
	summary[0] = append(append(summary[0], machine.Columns()...), machine.Root)
	for _, r := range rows.Good().Part(latencyPart) {
		summary = append(summary, append([]string{dataset.Text(r, "algorithm"), rowKind(r), integer(r, "n_sips"),
			strconv.Itoa(elements(r)), strconv.Itoa(bytesPerPE(r)), strconv.Itoa(bytesPerPE(r) * int(r.Metrics["cubes"])),
			ns(r)}, append(machine.Cells(r), r.Details[machine.Root])...))
	}
	buffers := [][]string{{"buffer_kind", "sip_topology", "n_sips", "n_elem", "bytes_per_pe", "latency_ns"}}
	buffers[0] = append(append(buffers[0], machine.Columns()...), machine.Root)
	for _, r := range rows.Good().Part(bufferPart) {
		buffers = append(buffers, append([]string{dataset.Text(r, "buffer_kind"), rowKind(r), integer(r, "n_sips"),
			strconv.Itoa(elements(r)), strconv.Itoa(bytesPerPE(r)), ns(r)}, append(machine.Cells(r),
			r.Details[machine.Root])...))
	}
	if _, _, err := layouts(rows); err != nil {
		return nil, err
	}
	var files []bench.File
	var tables []table
	for _, t := range []table{{summaryFile, summary}, {bufferFile, buffers}} {
		if len(t.Rows) == 1 { // only the header
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
		machine.Words(rows), append(figureNames(rows), floorplan.Names(rows)...), tables)
	return append(files, page), err
}

// indexPage returns a page with all figures and tables of an evaluation.
func indexPage(benchName, heading, checked, machines string, figures []string, tables []table) (bench.File, error) {
	var page bytes.Buffer
	err := index.Execute(&page, map[string]any{"Bench": benchName, "Heading": heading, "Checked": checked,
		"Machines": machines, "Figures": figures, "Tables": tables})
	if err != nil {
		return bench.File{}, fmt.Errorf("%s: %w", indexFile, err)
	}
	return bench.File{Name: indexFile, Data: page.Bytes()}, nil
}

// encode returns the table as CSV.
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

// The files of the evaluation of products, besides its figures.
const (
	gemmFile    = "gemm_sweep.json"
	scalingFile = "gemm_scaling.csv"
)

// gemmArtifacts returns the files that the evaluation of products must produce.
func gemmArtifacts(rows dataset.Set) []string {
	return artifactsOf(rows, gemmFigureNames(rows), [2]string{sweepPart, gemmFile}, [2]string{scalingPart, scalingFile})
}

// sweepEntry is one product of gemm_sweep.json.
type sweepEntry struct {
	M               int     `json:"M"`
	K               int     `json:"K"`
	N               int     `json:"N"`
	Variant         string  `json:"variant"`
	Tiles           int     `json:"tiles"`
	TileFill        float64 `json:"tile_fill"`
	PEWindow        float64 `json:"pe_window_ns"`
	CompositeWindow float64 `json:"composite_window_ns"`
	Utilization     float64 `json:"mac_utilization"`             // 0 to 1, simulated
	Theoretical     float64 `json:"mac_utilization_theoretical"` // 0 to 1, of the ideal pipeline
	Fabric          string  `json:"fabric,omitempty"`
	Topology        string  `json:"topology,omitempty"`
	Hash            string  `json:"topology_sha256,omitempty"`
	usages
}

// sweepEntries returns the products of the sweep in the published form.
func sweepEntries(rows dataset.Set) ([]sweepEntry, error) {
	var entries []sweepEntry
	for _, r := range rows.Good().Part(sweepPart) {
		m, k, n, err := machine.Product(r.Point.At("shapes"))
		if err != nil {
			return nil, err
		}
		e := sweepEntry{M: m, K: k, N: n, Variant: dataset.Text(r, "variant"), Tiles: int(r.Metrics["tiles"]),
			TileFill: r.Metrics["tile_fill"], PEWindow: r.Metrics["pe_window_ns"],
			CompositeWindow: r.Metrics["composite_window_ns"],
			Utilization:     r.Metrics["mac_utilization"] / 100, Theoretical: r.Metrics["mac_utilization_theoretical"] / 100,
			Fabric: r.Details[machine.Fabric], Topology: r.Details[machine.Option], Hash: r.Details[machine.Hash]}
		if err := json.Unmarshal([]byte(r.Details[usageDetail]), &e.usages); err != nil {
			return nil, fmt.Errorf("the engines' usage at %v: %w", r.Point, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// gemmExports returns the sweep as JSON, the scaling as CSV, and a page that shows everything.
func gemmExports(rows dataset.Set) ([]bench.File, error) {
	var files []bench.File
	var tables []table
	entries, err := sweepEntries(rows)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		data, err := json.MarshalIndent(entries, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gemmFile, err)
		}
		files = append(files, bench.File{Name: gemmFile, Data: append(data, '\n')})
		tables = append(tables, sweepTable(entries))
	}
	if scaling := rows.Good().Part(scalingPart); len(scaling) > 0 {
		t := scalingTable(scaling)
		file, err := t.encode()
		if err != nil {
			return nil, err
		}
		files, tables = append(files, file), append(tables, t)
	}
	page, err := indexPage("milestone-1h-gemm", "Matrix products on the simulated accelerator",
		"The data were computed, and every element compared with the exact product, unless --verify-data=false.",
		machine.Words(rows), append(gemmFigureNames(rows), floorplan.Names(rows)...), tables)
	return append(files, page), err
}

// sweepTable returns the table that the page shows for the JSON file.
func sweepTable(entries []sweepEntry) table {
	t := table{gemmFile, [][]string{{"M", "K", "N", "variant", "tiles", "tile_fill", "pe_window_ns", "composite_window_ns",
		"mac_utilization", "theoretical"}}}
	t.Rows[0] = append(t.Rows[0], machine.Columns()...)
	for _, e := range entries {
		t.Rows = append(t.Rows, []string{strconv.Itoa(e.M), strconv.Itoa(e.K), strconv.Itoa(e.N), e.Variant,
			strconv.Itoa(e.Tiles), fmt.Sprintf("%.4g", e.TileFill), fmt.Sprintf("%.3f", e.PEWindow),
			fmt.Sprintf("%.3f", e.CompositeWindow),
			fmt.Sprintf("%.4f", e.Utilization), fmt.Sprintf("%.4f", e.Theoretical), e.Fabric, e.Topology, e.Hash})
	}
	return t
}

// scalingTable returns the scaling rows as a table, one line per split and number of PEs.
func scalingTable(rows dataset.Set) table {
	t := table{scalingFile, [][]string{{"shape", "split", "cubes", "pes_per_cube", "total_pes", "latency_ns", "speedup",
		"mac_utilization"}}}
	t.Rows[0] = append(t.Rows[0], machine.Columns()...)
	for _, c := range scalings(rows) {
		for _, r := range c.rows {
			cubes, pes := workers(r.Point.At("cubes_x_pes"))
			t.Rows = append(t.Rows, append([]string{dataset.Text(r, "scaling_shape"), c.split, strconv.Itoa(cubes),
				strconv.Itoa(pes), strconv.Itoa(int(r.Metrics["total_pes"])), fmt.Sprintf("%.3f", r.Metrics["crit_ns"]),
				fmt.Sprintf("%.3f", c.speedup(r)), fmt.Sprintf("%.4f", r.Metrics["mac_utilization"]/100)},
				machine.Cells(r)...))
		}
	}
	return t
}
