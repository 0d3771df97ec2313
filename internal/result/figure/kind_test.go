package figure_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// A registered kind (Gauge) is validated, drawn, and written to and read from JSON without
// any other code that names it.
func TestRegisteredKind(t *testing.T) {
	f := figure.Figure{Name: "gauge",
		Panels: []figure.Panel{{Title: "copy", Note: "one core", Content: &Gauge{Value: 30, Limit: 40}}}}

	data := must.Get(json.Marshal(f))(t)
	if want := `{"name":"gauge","panels":[{"title":"copy","note":"one core","gauge":{"value":30,"limit":40}}]}`; string(data) != want {
		t.Errorf("JSON is %s, want %s", data, want)
	}
	var back figure.Figure
	must.Do(t, json.Unmarshal(data, &back))
	if d := cmp.Diff(f, back); d != "" {
		t.Errorf("JSON round trip (-in +out):\n%s", d)
	}

	var svg, image bytes.Buffer
	if err := figure.SVG(&svg, back); err != nil || !strings.Contains(svg.String(), "75%") ||
		!strings.Contains(svg.String(), "one core") {
		t.Errorf("SVG (%v) lacks the gauge or its note:\n%s", err, svg.String())
	}
	if err := figure.PNG(&image, back); err != nil {
		t.Error(err)
	}
	if _, err := png.Decode(&image); err != nil {
		t.Errorf("PNG: %v", err)
	}

	for want, p := range map[string]figure.Panel{
		`figure "gauge": panel 1: gauge with limit 0`: {Content: &Gauge{Value: 1}},
		`gauge shares its panel with series`:          {Content: &Gauge{Limit: 1}, Series: []figure.Series{{Name: "s"}}},
	} {
		f.Panels = []figure.Panel{p}
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want %q", err, want)
		}
	}
}

type unregistered struct{ figure.Content }

func TestKindFaults(t *testing.T) {
	if _, err := json.Marshal(figure.Panel{Content: unregistered{}}); err == nil ||
		!strings.Contains(err.Error(), "unregistered kind") {
		t.Errorf("JSON of an unregistered kind: %v", err)
	}
	var p figure.Panel
	if err := json.Unmarshal([]byte(`{"heat":{},"diagram":{}}`), &p); err == nil ||
		!strings.Contains(err.Error(), "give each its own panel") {
		t.Errorf("a panel of two kinds is read as %+v, %v", p, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a kind was registered twice")
		}
	}()
	figure.Contents.Register(figure.ContentKind{Name: "heat", New: func() figure.Content { return &Gauge{} }})
}
