// Package gallery writes a page with pictures of figures, so that people can look at every kind of figure after a
// change of their appearance. Tests call it; `make gallery` runs these tests with the flag -gallery.
package gallery

import (
	"bytes"
	_ "embed"
	"flag"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/figure"
)

var folder = flag.String("gallery", "", "write the pictures of the gallery and index.html to this folder")

//go:embed gallery.html
var pageText string

var page = template.Must(template.New("gallery").Parse(pageText))

// dark is the suffix of the files that show the dark theme in every browser.
const dark = "-dark.svg"

// Write draws the figures as PNG, as SVG and as SVG in the dark theme, and writes a page with all pictures of the
// folder. Without the flag -gallery it does nothing.
func Write(t must.T, figs ...figure.Figure) {
	if *folder == "" {
		return
	}
	for _, f := range figs {
		must.Get(figure.Write(*folder, ".", f))(t)
		var svg bytes.Buffer
		must.Do(t, figure.SVG(&svg, f))
		text := bytes.Replace(svg.Bytes(), []byte("@media (prefers-color-scheme: dark)"), []byte("@media all"), 1)
		must.Do(t, os.WriteFile(filepath.Join(*folder, f.Name+dark), text, 0o666))
	}
	found := must.Get(filepath.Glob(filepath.Join(*folder, "*"+dark)))(t)
	var names []string
	for _, path := range found {
		names = append(names, strings.TrimSuffix(filepath.Base(path), dark))
	}
	var text bytes.Buffer
	must.Do(t, page.Execute(&text, names))
	must.Do(t, os.WriteFile(filepath.Join(*folder, "index.html"), text.Bytes(), 0o666))
}
