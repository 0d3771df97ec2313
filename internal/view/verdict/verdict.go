// Package verdict writes judgements about points: as a table for people, as JSON,
// as JUnit XML, which build servers read, and as Markdown, for a pull request. What is judged, and how, is the
// caller's: its words are finished text.
package verdict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Outcome is what a build server makes of a verdict.
type Outcome uint8

// The outcomes.
const (
	Passed Outcome = iota
	Failed
	Undecided
)

// Line is the verdict on one point.
type Line struct {
	Cells   []string // of the table
	Class   string   // of tests that belong together, by dots
	Name    string   // of the point within its class
	Verdict string   // a word
	Outcome Outcome
	Message string // the verdict in one sentence
}

// Column is a column of the table.
type Column = texttab.Column

// Report is the verdicts of one comparison.
type Report struct {
	Heading  []string // words above the table
	Columns  []Column
	Lines    []Line
	Remarks  []string // lines below the table
	Suite    string   // name as a suite of tests
	Warnings []string // about the whole suite
	Data     any      // what JSON has
}

type format struct {
	name  string
	write func(r Report, w io.Writer, width int) error
}

func (f format) String() string { return f.name }

// formats are keyed by the user's word, the default first.
var formats = []format{
	{"table", Report.writeTable},
	{"json", Report.writeJSON},
	{"junit", Report.writeJUnit},
	{"markdown", Report.writeMarkdown},
}

// Formats are the words Write accepts, the default first.
func Formats() []string {
	return lists.Map(formats, format.String)
}

// Write shows the report; "" is the table. Width is that of the terminal, 0
// for no limit, and concerns the table only.
func (r Report) Write(w io.Writer, name string, width int) error {
	f, err := suggest.Find("format", cmp.Or(name, formats[0].name), formats, format.String)
	if err != nil {
		return err
	}
	if err := f.write(r, w, width); err != nil {
		return fmt.Errorf("writing the comparison as %s: %w", f.name, err)
	}
	return nil
}

func (r Report) writeTable(w io.Writer, width int) error {
	var b strings.Builder
	fmt.Fprintln(&b, texttab.Wrap(r.Heading, width, "  "))
	t := texttab.Table{Columns: r.Columns}
	for _, l := range r.Lines {
		t.Add(l.Cells...)
	}
	if err := t.Write(&b, width); err != nil {
		return err
	}
	for _, remark := range r.Remarks {
		fmt.Fprintln(&b, remark)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeJSON(w io.Writer, _ int) error {
	text, err := json.MarshalIndent(r.Data, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
