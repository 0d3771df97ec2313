package figure

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

func percent(v float64) *float64 { return &v }

func TestTornado(t *testing.T) {
	f := Figure{Name: "what-if", Title: "What it depends on",
		Panels: []Panel{{X: Axis{Label: "change of the time"},
			Content: &Tornado{Lowered: "20 % less", Raised: "20 % more", Bars: []TornadoBar{
				{Name: "system.link.latency_ns", Value: "43.201", Lower: percent(-7.25), Higher: percent(7.25)},
				{Name: "cube.ucie.bw_gbs", Value: "128", Lower: percent(4), Higher: percent(-2.5)},
				{Name: "cube.hbm.efficiency", Value: "1", Lower: percent(0.5)},
				{Name: "pe.gemm.tile", Lower: percent(0), Higher: percent(0.25)}}}}}}
	must.Do(t, f.Validate())
	var svg, image bytes.Buffer
	must.Do(t, SVG(&svg, f))
	for _, want := range []string{"system.link.latency_ns", "43.201", "-7.25%", "+7.25%", "not possible", "20 % less",
		"change of the time"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the SVG lacks %q", want)
		}
	}
	must.Do(t, PNG(&image, f))
	if _, err := png.Decode(&image); err != nil {
		t.Error(err)
	}
	// A tornado without bars has a text instead.
	f.Panels[0].Content = &Tornado{Lowered: "less", Raised: "more"}
	svg.Reset()
	if err := SVG(&svg, f); err != nil || !strings.Contains(svg.String(), "nothing has a visible effect") {
		t.Errorf("%v: an empty one draws %s", err, svg.String())
	}
}

func TestTornadoFaults(t *testing.T) {
	for want, c := range map[string]*Tornado{
		"without the names of its bars": {},
		`bar 1 (""): no name`:           {Lowered: "a", Raised: "b", Bars: []TornadoBar{{Lower: percent(1)}}},
		`bar 1 ("x"): no change`:        {Lowered: "a", Raised: "b", Bars: []TornadoBar{{Name: "x"}}},
		`bar 1 ("x"): a change of NaN`: {Lowered: "a", Raised: "b",
			Bars: []TornadoBar{{Name: "x", Lower: percent(math.NaN())}}},
		`bar 1 ("x"): a change of +Inf, want`: {Lowered: "a", Raised: "b",
			Bars: []TornadoBar{{Name: "x", Higher: percent(math.Inf(1))}}},
	} {
		f := Figure{Name: "f", Panels: []Panel{{Content: c}}}
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
