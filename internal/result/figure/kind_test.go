package figure_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// A kind of content (Gauge) is validated and drawn without any other code that names it. The page gets its panel
// without the content.
func TestKind(t *testing.T) {
	f := figure.Figure{Name: "gauge",
		Panels: []figure.Panel{{Title: "copy", Note: "one core", Content: &Gauge{Value: 30, Limit: 40}}}}

	data := must.Get(json.Marshal(f))(t)
	if want := `{"name":"gauge","panels":[{"title":"copy","note":"one core"}]}`; string(data) != want {
		t.Errorf("JSON is %s, want %s", data, want)
	}

	var svg, image bytes.Buffer
	if err := figure.SVG(&svg, f); err != nil || !strings.Contains(svg.String(), "75%") ||
		!strings.Contains(svg.String(), "one core") {
		t.Errorf("SVG (%v) lacks the gauge or its note:\n%s", err, svg.String())
	}
	if err := figure.PNG(&image, f); err != nil {
		t.Error(err)
	}
	if _, err := png.Decode(&image); err != nil {
		t.Errorf("PNG: %v", err)
	}

	for want, p := range map[string]figure.Panel{
		`figure "gauge": panel 1: gauge with limit 0`:     {Content: &Gauge{Value: 1}},
		`*figure_test.Gauge shares its panel with series`: {Content: &Gauge{Limit: 1}, Series: []figure.Series{{Name: "s"}}},
	} {
		f.Panels = []figure.Panel{p}
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want %q", err, want)
		}
	}
}
