package document

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	pageStyle string
	//go:embed sort.js
	pageScript string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"isNumber": isNumber, "gridClass": gridClass, "dataURL": dataURL, "rest": rest,
	}).Parse(pageSource))
)

// page is the input of the template. The template escapes all texts of the
// document; only the style, the script and the figures are trusted.
type page struct {
	Document
	Policy string // a content security policy that allows only what follows
	Style  template.CSS
	Script template.JS
	Short  bool // there are at most shortRows rows: they are shown open and printed
}

// shortRows is the largest number of rows that are shown without a click.
const shortRows = 50

// WriteHTML writes the document as one self-contained page.
func (d Document) WriteHTML(w io.Writer) error {
	rows := 0
	for _, t := range d.Tables {
		rows += len(t.Rows)
	}
	// The browser runs the script with this hash and no other, in case a text ever
	// gets into the page unescaped.
	sum := sha256.Sum256([]byte(pageScript))
	p := page{Document: d, Style: template.CSS(pageStyle), Script: template.JS(pageScript),
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-%s'",
			base64.StdEncoding.EncodeToString(sum[:])),
		Short: rows <= shortRows && len(d.Sections) < 4}
	if err := pageTemplate.Execute(textWriter{w}, p); err != nil {
		return fmt.Errorf("making the page: %w", err)
	}
	return nil
}

// dataURL returns a picture as an address that needs no second file.
func dataURL(svg []byte) template.URL {
	return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg))
}

// isNumber reports whether a column holds numbers.
func isNumber(right []bool, column int) bool { return column < len(right) && right[column] }

// rest returns the rows of a table below its heading.
func rest(table [][]string) [][]string { return table[min(1, len(table)):] }

// textWriter makes control characters, directions of text and invalid UTF-8 visible, because names and the outputs of
// programs may hold any bytes. Every write must end at a character boundary.
type textWriter struct{ w io.Writer }

func (t textWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(t.w, texttab.Visible(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
