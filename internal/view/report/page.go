package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page.html").Parse(pageText))

// tableFiles returns the declared tables of a bench as files, and the page that shows them and all figures.
func tableFiles(b *bench.Bench, doc document.Document, rows dataset.Set) (files []bench.File, err error) {
	type table struct {
		Name string
		Rows [][]string
	}
	var tables []table
	for _, e := range b.TableFiles {
		data, err := e.Encode(rows)
		if err != nil {
			return nil, err
		}
		if data == nil {
			continue
		}
		shown, err := e.Table(rows)
		if err != nil {
			return nil, err
		}
		files, tables = append(files, bench.File{Name: e.Name, Data: data}), append(tables, table{e.Name, shown})
	}
	if b.Page == nil {
		return files, nil
	}
	var page bytes.Buffer
	err = pageTemplate.Execute(&page, map[string]any{"Bench": b.Name, "Heading": b.Page.Heading, "Text": b.Page.Text,
		"Machines": views.Simulated(rows), "Tables": tables,
		"Figures": lists.Map(doc.Figures, func(f document.Figure) string { return f.Name })})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Page.Name, err)
	}
	return append(files, bench.File{Name: b.Page.Name, Data: page.Bytes()}), nil
}

// needed returns the files that must be written. A bench with a page needs it, and every declared figure and table for
// which there are rows.
func needed(b *bench.Bench, rows dataset.Set) (names []string) {
	if b == nil || b.Page == nil {
		return nil
	}
	for _, f := range views.Needed(decl.ViewHeader(b), b.Plots, rows) {
		names = append(names, "figures/"+f+".png", "figures/"+f+".svg")
	}
	for _, e := range lists.Filter(b.TableFiles, func(e decl.TableFile) bool { return e.Needed(rows) }) {
		names = append(names, e.Name)
	}
	return append(names, b.Page.Name)
}
