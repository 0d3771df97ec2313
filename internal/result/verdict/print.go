package verdict

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Document is a comparison as text. It can be printed as a table for a terminal, as JSON, as JUnit XML for
// CI servers, as Markdown, and as a short comment on a pull request.
type Document struct {
	Heading []string // words of the lines above the table
	// Differences lists how the sides differ besides what is compared, one line each.
	Differences []string
	Columns     []texttab.Column
	Lines       []Line
	Remarks     []string // lines below the table
	Suite       string   // name of the JUnit test suite
	Sentence    string   // the answer in one sentence, for a comment on a pull request
	Link        string   // address of the full report; may be ""
	Warnings    []string // about the whole suite
	Data        any      // encoded by the JSON format
}

// Line is the verdict on one point.
type Line struct {
	Cells   []string // of the table
	Class   string   // JUnit class name: bench.part
	Name    string   // JUnit test name: the point
	Verdict string
	Outcome Outcome
	Message string // the verdict as a sentence
}

type format struct {
	name  string
	write func(d Document, w io.Writer, width int) error
}

func (f format) String() string { return f.name }

var formats = []format{
	{"table", Document.writeTable},
	{"json", Document.writeJSON},
	{"junit", Document.writeJUnit},
	{"markdown", Document.writeMarkdown},
	{"github", Document.writeGitHub},
}

// Formats returns the names that Write accepts, the default first.
func Formats() []string { return lists.Map(formats, format.String) }

// Write prints the document in the named format; "" means the table. width is the width of the terminal,
// or 0 for no limit. Only the table uses it.
func (d Document) Write(w io.Writer, name string, width int) error {
	f, err := suggest.Find("format", cmp.Or(name, formats[0].name), formats, format.String)
	if err != nil {
		return err
	}
	if err := f.write(d.plain(), w, width); err != nil {
		return fmt.Errorf("writing the comparison as %s: %w", f.name, err)
	}
	return nil
}

// plain returns the document with the control characters in its texts made visible. A name or value from a journal can
// then neither forge a line nor control the terminal. Tables escape their cells themselves.
func (d Document) plain() Document {
	all := func(texts []string) []string { return lists.Map(texts, texttab.Plain) }
	d.Heading, d.Differences, d.Remarks, d.Warnings = all(d.Heading), all(d.Differences), all(d.Remarks), all(d.Warnings)
	d.Suite, d.Sentence = texttab.Plain(d.Suite), texttab.Plain(d.Sentence)
	d.Lines = lists.Map(d.Lines, func(l Line) Line {
		l.Class, l.Name, l.Message = texttab.Plain(l.Class), texttab.Plain(l.Name), texttab.Plain(l.Message)
		return l
	})
	return d
}

func (d Document) writeTable(w io.Writer, width int) error {
	var b strings.Builder
	out := texttab.ForTerminal(&b)
	wrap := func(words []string) { out.Printf("%s\n", texttab.Block(texttab.Wrap(words, width, "  "))) }
	wrap(d.Heading)
	for _, difference := range d.Differences {
		wrap(strings.Fields(difference))
	}
	t := texttab.Table{Columns: d.Columns}
	for _, l := range d.Lines {
		t.Add(l.Cells...)
	}
	if len(d.Lines) > 0 {
		if err := t.Write(&b, width); err != nil {
			return err
		}
	}
	for _, remark := range d.Remarks {
		out.Printf("%s\n", texttab.Block(texttab.Wrap(strings.Fields(remark), width, "   ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d Document) writeJSON(w io.Writer, _ int) error {
	text, err := json.MarshalIndent(d.Data, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// The subset of JUnit XML that common readers support.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Out      string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

// writeJUnit writes each point as a test. A bad verdict is a failure. An undecided one is a skipped test,
// so that CI servers show it separately.
func (d Document) writeJUnit(w io.Writer, _ int) error {
	suite := junitSuite{Name: d.Suite, Tests: len(d.Lines),
		Out: texttab.Plain(strings.Join(slices.Concat(d.Differences, d.Warnings), "; "))}
	for _, l := range d.Lines {
		c := junitCase{Class: l.Class, Name: l.Name}
		switch l.Outcome {
		case Bad:
			suite.Failures++
			c.Failure = &junitMessage{Message: l.Message, Type: l.Verdict}
		case Undecided:
			suite.Skipped++
			c.Skipped = &junitMessage{Message: l.Message}
		default:
			c.Out = l.Message
		}
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(text)+"\n")
	return err
}

// maxMarkdown limits the lines of a Markdown table, because GitHub rejects comments of more than 64 KiB.
const maxMarkdown = 200

// writeMarkdown writes the points with a finding first and the others in a folded section.
func (d Document) writeMarkdown(w io.Writer, _ int) error {
	var b strings.Builder
	m := texttab.ForMarkdown(&b)
	m.Printf("### %s\n\n", strings.TrimSuffix(strings.Join(d.Heading, " "), ":"))
	d.writeDifferences(m)
	equal := lists.Filter(d.Lines, func(l Line) bool { return l.Outcome == Equal })
	d.writeMarkdownTable(m, lists.Filter(d.Lines, func(l Line) bool { return l.Outcome != Equal }))
	for _, remark := range lists.NonEmpty(d.Remarks...) {
		m.Printf("%s\n\n", texttab.Paragraph(remark))
	}
	if len(equal) > 0 {
		m.Printf("<details><summary>%d without a finding</summary>\n\n", len(equal))
		d.writeMarkdownTable(m, equal)
		m.Printf("</details>\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDifferences lists the differences between the sides besides what is compared.
func (d Document) writeDifferences(m texttab.Out) {
	for _, difference := range d.Differences {
		m.Printf("- %s\n", texttab.Paragraph(difference))
	}
	if len(d.Differences) > 0 {
		m.Printf("\n")
	}
}

func (d Document) writeMarkdownTable(m texttab.Out, lines []Line) {
	if len(lines) == 0 {
		return
	}
	t := texttab.Table{Columns: d.Columns}
	for _, l := range lines[:min(len(lines), maxMarkdown)] {
		t.Add(l.Cells...)
	}
	m.Table(&t)
	if more := len(lines) - maxMarkdown; more > 0 {
		m.Printf("\nand %d more\n", more)
	}
	m.Printf("\n")
}
