package figure_test

import (
	"bytes"
	"flag"
	"html/template"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/figure"
)

var galleryFolder = flag.String("gallery", "", "write pictures of all figures, and index.html, to this folder")

// TestGallery checks that the gallery shows every kind of content and of series, and writes it if -gallery is given.
func TestGallery(t *testing.T) {
	figs := figure.Gallery()
	var panels []figure.Panel
	for _, f := range figs {
		panels = append(panels, f.Panels...)
	}
	for _, kind := range []figure.Content{&figure.HeatMap{}, &figure.Diagram{}, &figure.Timeline{}, &figure.Tornado{}} {
		same := func(p figure.Panel) bool { return reflect.TypeOf(p.Content) == reflect.TypeOf(kind) }
		if !slices.ContainsFunc(panels, same) {
			t.Errorf("no figure with a %T", kind)
		}
	}
	for _, kind := range []figure.Kind{figure.LineKind, figure.Scatter, figure.Bars, figure.StackedBars} {
		if !slices.ContainsFunc(panels, func(p figure.Panel) bool {
			return slices.ContainsFunc(p.Series, func(s figure.Series) bool {
				return s.Kind == kind || s.Kind == "" && kind == figure.LineKind
			})
		}) {
			t.Errorf("no series of the kind %s", kind)
		}
	}
	if *galleryFolder != "" {
		writeGallery(t, figs)
	}
}

// writeGallery writes the figures and a page with all pictures of the folder, so that people can look at every kind of
// figure after a change of their appearance.
func writeGallery(t *testing.T, figs []figure.Figure) {
	for _, f := range figs {
		must.Get(figure.Write(*galleryFolder, ".", f))(t)
	}
	var names []string
	for _, path := range must.Get(filepath.Glob(filepath.Join(*galleryFolder, "*.svg")))(t) {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".svg"))
	}
	var page bytes.Buffer
	must.Do(t, must.Get(template.ParseFiles("testdata/gallery.html"))(t).Execute(&page, names))
	must.Do(t, os.WriteFile(filepath.Join(*galleryFolder, "index.html"), page.Bytes(), 0o666))
}
