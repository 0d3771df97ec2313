package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// density is the resolution of PNGs: two dots per CSS pixel, for sharp text on
// any screen.
const density = 2 * 96

// Write draws the figure to NAME.png and NAME.svg in dir, which is made if need
// be, and returns their paths. Each file appears whole or not at all.
func Write(dir string, f Figure) ([]string, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making folder for figure %s: %w", f.Name, err)
	}
	var files []string
	for _, format := range []struct {
		ending string
		render func(io.Writer, Figure) error
	}{{".png", PNG}, {".svg", SVG}} {
		var b bytes.Buffer
		if err := format.render(&b, f); err != nil {
			return files, err
		}
		path := filepath.Join(dir, f.Name+format.ending)
		if err := writeAtomic(path, b.Bytes()); err != nil {
			return files, fmt.Errorf("writing figure %s: %w", f.Name, err)
		}
		files = append(files, path)
	}
	return files, nil
}

// PNG draws the figure as an image of two dots per pixel.
func PNG(w io.Writer, f Figure) error { return writePNG(w, f, density) }

func writePNG(w io.Writer, f Figure, dpi int) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s := newSheet(f)
	page := vgimg.NewWith(vgimg.UseWH(vg.Length(s.w), vg.Length(s.h)), vgimg.UseDPI(dpi))
	s.draw(pen{page})
	if _, err := (vgimg.PngCanvas{Canvas: page}).WriteTo(w); err != nil {
		return fmt.Errorf("writing figure %s as PNG: %w", f.Name, err)
	}
	return nil
}

// The font is named, not embedded: two embedded fonts would make every file a megabyte. All
// the stand-ins have the widths of Liberation Sans, so the layout holds with any of them.
// A quotation mark inside the figure's own texts is escaped, so only markup matches.
var (
	fontNamed  = []byte(`style="font-family:Liberation Sans;`)
	fontFamily = []byte(`style="font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;`)
	svgEnd     = []byte(`xmlns:xlink="http://www.w3.org/1999/xlink">` + "\n")
)

// SVG draws the figure as scalable graphics with text that stays text.
func SVG(w io.Writer, f Figure) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s := newSheet(f)
	page := vgsvg.New(vg.Length(s.w), vg.Length(s.h))
	s.draw(pen{page})
	var b bytes.Buffer
	if _, err := page.WriteTo(&b); err != nil {
		return fmt.Errorf("drawing figure %s as SVG: %w", f.Name, err)
	}
	out := bytes.ReplaceAll(b.Bytes(), fontNamed, fontFamily)
	out = bytes.Replace(out, svgEnd, append(svgEnd[:len(svgEnd):len(svgEnd)], description(f)...), 1)
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("writing figure %s as SVG: %w", f.Name, err)
	}
	return nil
}

// description is what a screen reader tells of the figure.
func description(f Figure) []byte {
	var b bytes.Buffer
	for _, part := range []struct{ tag, text string }{{"title", f.Title}, {"desc", f.Caption}} {
		if part.text == "" {
			continue
		}
		b.WriteString("<" + part.tag + ">")
		_ = xml.EscapeText(&b, []byte(clean(part.text))) // a bytes.Buffer takes everything
		b.WriteString("</" + part.tag + ">\n")
	}
	return b.Bytes()
}

// writeAtomic writes beside the target and renames, so that a reader never sees half a file.
func writeAtomic(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
