//go:build !race

package main

import (
	"path/filepath"
	"regexp"

	"github.com/chromedp/chromedp"

	"github.com/kernbench/kernbench/internal/base/must"
)

// print checks the reports of several benches on screen and on paper: an answer comes first, the
// table of contents links to every section, and long tables are collapsed. Paper shows neither the
// contents nor the long tables.
func (b *browser) print() {
	dir := b.TempDir()
	for _, run := range []struct {
		args     []string
		sections int  // minimum number of sections
		pages    int  // maximum number of printed pages
		many     bool // the table of rows is long, so it starts collapsed
	}{
		{[]string{"--bench", "memory", "--size", "16K", "--ranks", "1", "--max-time", "10ms", "--remeasure", "0"}, 5, 3,
			false},
		{[]string{"--bench", "collectives", "--backend", "flat", "--ranks", "4,8", "--size", "1K,1M", "--algorithm",
			"ring,recursive-doubling"}, 5, 5, false},
		{[]string{"--bench", "predict"}, 5, 6, true},
		{[]string{"--bench", "llm-impact"}, 5, 12, true},
	} {
		name := run.args[1]
		if code, out := invoke(b.T, dir,
			append([]string{"kernbench", "run", "-q", "--out", name}, run.args...)...); code != 0 {
			b.Fatalf("%q: exit code %d\n%s", run.args, code, out)
		}
		b.do(chromedp.Navigate("file://" + filepath.Join(dir, name, "report.html")))
		b.want("document.title.startsWith('" + name +
			"') && document.querySelector('main > section').querySelector('p, li').innerText.length > 20")
		links := b.eval("[...document.querySelectorAll('nav a')].filter((a) => document.querySelector(a.hash))" +
			".length").(float64)
		if all := b.eval("document.querySelectorAll('nav a').length").(float64); links != all || int(links) < run.sections {
			b.Errorf("%s: %v of %v entries of the contents lead somewhere, want %d", name, links, all, run.sections)
		}
		if open := b.eval("document.querySelector('#rows details').open"); open == run.many {
			b.Errorf("%s: its rows are shown: %v", name, open)
		}
		b.want("document.documentElement.scrollWidth <= innerWidth")
		printed := b.pages()
		if printed < 1 || printed > run.pages {
			b.Errorf("%s: %d pages, want 1 to %d", name, printed, run.pages)
		}
		// If screen-only parts were printed, there would be more pages.
		b.eval("for (const e of document.querySelectorAll('.detail')) { e.className = ''; " +
			"for (const d of e.querySelectorAll('details')) { d.open = true; } } true")
		if whole := b.pages(); run.many != (whole > printed) {
			b.Errorf("%s: %d pages, and %d with all its rows", name, printed, whole)
		}
	}
	b.quiet("print")
}

// pages returns the number of pages that the document takes on paper.
func (b *browser) pages() int {
	b.Helper()
	pdf := must.Get(chromedp.Run(b.ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4))))(b)
	return len(regexp.MustCompile(`/Type\s*/Page\b[^s]`).FindAll(pdf, -1))
}
