package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"io"
	"slices"

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
// The fallback fonts have the same letter widths as Liberation Sans, so the layout
// is right with any of them. Quotation marks in the texts of a page are escaped, so
// fontNamed matches markup only.
var (
	fontNamed  = []byte(`style="font-family:Liberation Sans;`)
	fontFamily = []byte(`style="font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;`)
	svgEnd     = []byte(`xmlns:xlink="http://www.w3.org/1999/xlink">` + "\n")
)

// SVG writes the page as scalable graphics. Text stays text.
func (p Page) SVG(w io.Writer) error {
	canvas := vgsvg.New(vg.Length(p.W), vg.Length(p.H))
	pen := Pen{canvas}
	pen.Box(Rect(0, 0, p.W, p.H), White, Stroke{})
	p.Draw(pen)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("drawing SVG: %w", err)
	}
	out := bytes.ReplaceAll(b.Bytes(), fontNamed, fontFamily)
	out = bytes.Replace(out, svgEnd, slices.Concat(svgEnd, p.spoken(), darkTheme), 1)
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing SVG: %w", err)
	}
	return nil
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
