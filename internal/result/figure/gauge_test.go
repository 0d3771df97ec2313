package figure_test

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// Gauge is a kind of content for tests: a bar that shows the part of a limit that was
// reached.
type Gauge struct {
	Value float64
	Limit float64
}

// Check implements figure.Content.
func (g *Gauge) Check(_ figure.Panel, f figure.Faults) {
	if !(g.Limit > 0) || math.IsInf(g.Limit, 0) {
		f.Add("gauge with limit %g, want a positive number", g.Limit)
	}
}

// Prepare implements figure.Content. A gauge needs no preparation.
func (g *Gauge) Prepare(figure.Panel) figure.Drawing { return g }

// Height implements figure.Drawing.
func (g *Gauge) Height(_, usual float64) float64 { return usual / 4 }

// Notes implements figure.Drawing.
func (g *Gauge) Notes() string {
	if g.Value > g.Limit {
		return "Beyond the limit: drawn at its end."
	}
	return ""
}

// Draw implements figure.Drawing.
func (g *Gauge) Draw(p draw.Pen, area draw.Rectangle) {
	share := math.Min(math.Max(g.Value/g.Limit, 0), 1)
	p.Box(area, draw.PaleGrey, draw.Stroke{})
	p.Box(draw.Rect(area.X0, area.Y0, area.X0+share*area.W(), area.Y1), draw.Palette[0], draw.Stroke{})
	label := draw.Face{Size: 14, Bold: true, Color: draw.Black}
	p.Text(label, area.Center(), draw.CenterMid, 0, fmt.Sprintf("%.0f%%", 100*g.Value/g.Limit))
}
