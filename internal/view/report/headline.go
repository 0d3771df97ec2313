package report

import (
	"fmt"
	"io"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Headlines prints the sections that the bench wants to be read first, as text
// of the given width. It tells whether there was any.
func Headlines(w io.Writer, b *bench.Bench, rows []journal.Row, width int) (written bool, err error) {
	all, err := guarded("sections", b, func(b *bench.Bench) []bench.Section {
		if b.Sections == nil {
			return nil
		}
		return b.Sections(rows)
	})
	if err != nil {
		return false, err
	}
	for _, s := range all {
		if !s.Headline {
			continue
		}
		if written {
			fmt.Fprintln(w)
		}
		written = true
		if _, err := fmt.Fprintf(w, "%s\n", s.Title); err != nil {
			return written, err
		}
		if len(s.Table) > 0 {
			var tab texttab.Table
			for _, title := range s.Table[0] {
				tab.Columns = append(tab.Columns, texttab.Column{Title: title, Right: true})
			}
			for _, line := range s.Table[1:] {
				tab.Add(line...)
			}
			if err := tab.Write(w, width); err != nil {
				return written, err
			}
		}
		if s.Text != "" {
			fmt.Fprintln(w, s.Text)
		}
	}
	return written, nil
}
