package figure_test

import (
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/gallery"
)

// TestGallery checks that the gallery shows every kind of content and of series, and writes it if -gallery is given.
func TestGallery(t *testing.T) {
	figs := figure.Gallery()
	var panels []figure.Panel
	for _, f := range figs {
		panels = append(panels, f.Panels...)
	}
	for _, kind := range figure.Contents.All() {
		if kind.Name == "gauge" { // of these tests
			continue
		}
		if !slices.ContainsFunc(panels, func(p figure.Panel) bool { return figure.KindOf(p.Content) == kind.Name }) {
			t.Errorf("no figure of the kind %s", kind.Name)
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
	gallery.Write(t, figs...)
}
