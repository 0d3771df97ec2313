package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"io"
	"slices"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Page is a picture: its size in points, a function that draws it, and the title and description that a screen
// reader reads. The background is white. An SVG file has a dark theme too.
type Page struct {
	W, H        float64
	Title       string
	Description string
	Draw        func(Pen)
}

// PNG writes the page as an image with the given resolution in dots per inch.
func (p Page) PNG(w io.Writer, dpi int) error {
	// vgimg paints the background white.
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Length(p.W), vg.Length(p.H)), vgimg.UseDPI(dpi))
	p.Draw(Pen{canvas})
	m, ok := canvas.Image().(*image.RGBA)
	if !ok {
		return fmt.Errorf("writing PNG: the canvas is a %T", canvas.Image())
	}
	if err := writePNG(w, m); err != nil {
		return fmt.Errorf("writing PNG: %w", err)
	}
	return nil
}

// An SVG file names its font: two embedded fonts would add a megabyte to every file.
// The fallback fonts have the same letter widths as Liberation Sans. On a system
// without any of them, textLength makes each text as wide as it was laid out.
// Quotation marks and < in the texts of a page are escaped, so that fontNamed and
// textStart match markup only.
var (
	fontNamed  = []byte(`style="font-family:Liberation Sans;`)
	fontFamily = []byte(`style="font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;`)
	textStart  = []byte("<text ")
	svgEnd     = []byte(`xmlns:xlink="http://www.w3.org/1999/xlink">` + "\n")
)

// SVG writes the page as scalable graphics. Text stays text.
func (p Page) SVG(w io.Writer) error {
	canvas := &measured{Canvas: vgsvg.New(vg.Length(p.W), vg.Length(p.H))}
	pen := Pen{canvas}
	pen.Box(Rect(0, 0, p.W, p.H), White, Stroke{})
	p.Draw(pen)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("drawing SVG: %w", err)
	}
	out := canvas.fixWidths(bytes.ReplaceAll(b.Bytes(), fontNamed, fontFamily))
	out = bytes.Replace(out, svgEnd, slices.Concat(svgEnd, p.spoken(), darkTheme(out)), 1)
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing SVG: %w", err)
	}
	return nil
}

// measured is an SVG canvas that remembers the widths of its texts.
type measured struct {
	*vgsvg.Canvas
	widths []vg.Length
}

// FillString implements vg.Canvas.
func (m *measured) FillString(f font.Face, at vg.Point, s string) {
	m.widths = append(m.widths, f.Width(s))
	m.Canvas.FillString(f, at, s)
}

// fixWidths states the width of every text.
func (m *measured) fixWidths(svg []byte) []byte {
	parts := bytes.Split(svg, textStart)
	out := parts[0]
	for i, part := range parts[1:] {
		out = fmt.Appendf(out, `%stextLength="%.5g" lengthAdjust="spacingAndGlyphs" %s`, textStart, m.widths[i], part)
	}
	return out
}

// spoken returns the title and description as SVG elements.
func (p Page) spoken() []byte {
	var b bytes.Buffer
	for _, part := range []struct{ tag, text string }{{"title", p.Title}, {"desc", p.Description}} {
		if part.text == "" {
			continue
		}
		b.WriteString("<" + part.tag + ">")
		_ = xml.EscapeText(&b, []byte(clean(part.text))) // writing to a bytes.Buffer cannot fail
		b.WriteString("</" + part.tag + ">\n")
	}
	return b.Bytes()
}
