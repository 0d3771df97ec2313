//go:build !race

package main

import (
	"compress/gzip"
	"io"
	"os"
	"strings"

	"github.com/chromedp/chromedp"

	"github.com/kernbench/kernbench/internal/base/must"
)

// accessible checks pages of every kind in both colour schemes with axe-core, which must find no violation.
// testdata/axe.min.js.gz is the file of the npm package axe-core 4.14.0 (Mozilla Public License 2.0).
func (b *browser) accessible() {
	file := must.Get(os.Open("testdata/axe.min.js.gz"))(b)
	defer file.Close()
	axe := string(must.Get(io.ReadAll(must.Get(gzip.NewReader(file))(b)))(b))
	for i, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, page := range []string{"/", "/?group=tag&open=nightly", "/run?run=a@new",
			"/run?run=simulated", "/history?run=a@new", "/compare?run=a@old&run=a@new", "/docs/", "/docs/running"} {
			ready := "body[data-ready]"
			if strings.HasPrefix(page, "/docs/") {
				ready = "main"
			}
			b.do(chromedp.Navigate(strings.TrimSuffix(b.site, "/")+page), chromedp.WaitVisible(ready))
			b.eval("[...document.querySelectorAll('details')].map((e) => { e.open = true; })")
			b.eval(axe + "; true")
			rules := "{}" // only colours differ between the schemes
			if i > 0 {
				rules = "{ runOnly: ['color-contrast'] }"
			}
			if found := b.violations(rules); len(found) > 0 {
				b.Errorf("%s, %s: axe finds %v", page, scheme, found)
			}
		}
	}
	// A planted violation is found.
	b.eval("document.querySelector('main').append(document.createElement('img')); true")
	if found := b.violations("{ runOnly: ['image-alt'] }"); len(found) != 1 {
		b.Errorf("axe finds %v, want a picture without a text", found)
	}
	b.scheme("light")
	b.forget()
}

// violations returns what axe finds on the current page.
func (b *browser) violations(rules string) []any {
	b.eval("window.found = undefined; axe.run(document, " + rules + ").then((r) => { " +
		"window.found = r.violations.map((v) => v.id + ': ' + v.help + ': ' + " +
		"v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150)).join(' | ')); }, " +
		"(e) => { window.found = [String(e)]; }); true")
	b.until("window.found !== undefined")
	return b.eval("window.found").([]any)
}
