// Package document is the model of a report and its writers: HTML, Markdown,
// terminal text, and JSON for the web page.
//
// Package report builds a [Document] once from the rows of a run; package web
// serves the same document as JSON. All texts of a document are plain. Each writer
// escapes them for its medium, so that no value of a row can become markup or
// control a terminal.
package document

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Document is the report of a run. Fields without a JSON name are not sent to the
// web page, which shows rows and figures in its own way.
type Document struct {
	Title    string     `json:"-"`
	Subtitle string     `json:"-"`
	Counts   []Count    `json:"-"`
	Doubtful int        `json:"-"` // rows that were disturbed while they were measured
	Summary  string     `json:"summary"`
	Remarks  []string   `json:"remarks"`
	Sections []Section  `json:"sections"` // those with Lead come before the summary
	Figures  []Figure   `json:"figures"`
	NoFigure string     `json:"no_figure,omitempty"` // why there is no figure
	Tables   []Table    `json:"-"`                   // the rows, one table per bench or part
	Omitted  string     `json:"-"`                   // a sentence about rows that Tables does not have
	Evidence []Evidence `json:"evidence,omitempty"`  // rows behind generated sentences
	Facts    []Fact     `json:"facts"`
	Inputs   []Fact     `json:"-"` // input files with their hashes
	Environ  []Fact     `json:"-"`
	Commands []string   `json:"commands"` // that made the rows
	Redraw   string     `json:"-"`        // the command that writes these views again
	Alone    bool       `json:"-"`        // the document has no other files beside it
}

// Count is the number of rows with one status.
type Count struct {
	N      int
	Status journal.Status
}

// Evidence lists the rows behind a generated sentence, which ends in the ID in brackets.
type Evidence struct {
	ID   string   `json:"id"`
	Rows []string `json:"rows"` // one line each
}

// Fact is one line of the provenance.
type Fact struct{ Name, Value string }

// Section is a headed part of the document.
type Section struct {
	Title  string     `json:"title"`
	Text   string     `json:"-"`                // as the bench wrote it, for the terminal
	Blocks []Block    `json:"blocks,omitempty"` // Text as paragraphs and lists
	Table  [][]string `json:"table,omitempty"`  // the first row is the heading
	Cites  []string   `json:"cites,omitempty"`  // IDs in the last column of Table, by line; "" for none
	Right  []bool     `json:"right,omitempty"`  // the columns of Table that hold numbers
	Grid   *decl.Grid `json:"grid,omitempty"`
	Lead   bool       `json:"lead,omitempty"`
	Detail bool       `json:"detail,omitempty"` // folded until opened, and not printed
}

// NewSection parses the text of a bench's section, and adds its sentences and the citations of its table lines.
func NewSection(s bench.Section) Section {
	out := Section{Title: s.Title, Text: s.Text, Blocks: parse(s.Text), Table: s.Table,
		Grid: s.Grid, Lead: s.Lead, Detail: s.Detail && !s.Lead}
	for _, sentence := range s.Sentences {
		out.add(sentence)
	}
	if cites := lists.Map(s.Lines, views.Sentence.Citation); len(lists.NonEmpty(cites...)) > 0 {
		out.Cites, out.Table = cites, [][]string{append(slices.Clip(s.Table[0]), "rows")}
		for i, line := range rest(s.Table) {
			id := ""
			if i < len(cites) && cites[i] != "" {
				id = "[" + cites[i] + "]"
			}
			out.Table = append(out.Table, append(slices.Clip(line), id))
		}
	}
	out.Right = numbers(out.Table)
	return out
}

// Link returns the ID that a cell of the table leads to, or "". line counts the lines after the heading.
func (s Section) Link(line, column int) string {
	if line >= len(s.Cites) || column != len(s.Table[0])-1 {
		return ""
	}
	return s.Cites[line]
}

// add appends a sentence to the text and ends it in its citation.
func (s *Section) add(sentence views.Sentence) {
	text, blocks := sentence.Text, parse(sentence.Text)
	if id := sentence.Citation(); id != "" && len(blocks) > 0 {
		items := blocks[len(blocks)-1].Items
		items[len(items)-1] = append(items[len(items)-1], Span{Text: " "}, Span{Text: "[" + id + "]", Link: id})
		text += " [" + id + "]"
	}
	s.Text = strings.Join(lists.NonEmpty(s.Text, text), "\n")
	for _, b := range blocks {
		last := len(s.Blocks) - 1
		switch {
		case last < 0 || s.Blocks[last].List != b.List || s.Blocks[last].Ordered != b.Ordered:
			s.Blocks = append(s.Blocks, b)
		case b.List:
			s.Blocks[last].Items = append(s.Blocks[last].Items, b.Items...)
		default: // sentences of one paragraph
			s.Blocks[last].Items[0] = slices.Concat(s.Blocks[last].Items[0], []Span{{Text: " "}}, b.Items[0])
		}
	}
}

// Plain returns Markdown text without its marks.
func Plain(text string) string {
	var b strings.Builder
	for _, block := range parse(text) {
		for _, item := range block.Items {
			for _, span := range item {
				b.WriteString(span.Text)
			}
		}
	}
	return b.String()
}

// numbers reports for every column of a table whether most of its cells begin with a number.
func numbers(table [][]string) []bool {
	if len(table) == 0 {
		return nil
	}
	right := make([]bool, len(table[0]))
	for i := range right {
		number, other := 0, 0
		for _, line := range table[1:] {
			if i >= len(line) {
				continue
			}
			switch text := strings.TrimLeft(line[i], "+-−±<>≤≥~ ("); {
			case text == "":
			case text[0] >= '0' && text[0] <= '9':
				number++
			default:
				other++
			}
		}
		right[i] = number > other
	}
	return right
}

// Figure is a figure with its text for readers who cannot see it.
type Figure struct {
	figure.Figure
	Alt string `json:"alt"`
	SVG []byte `json:"-"`
}

// NewFigure describes a figure in words. svg may be nil for the web page, which
// draws charts itself.
func NewFigure(f figure.Figure, svg []byte) Figure {
	parts := []string{f.Title}
	for _, p := range f.Panels {
		over, series := "", ""
		if p.Y.Label != "" && p.X.Label != "" {
			over = p.Y.Label + " over " + p.X.Label
		}
		if len(p.Series) > 0 {
			series = "series " + strings.Join(lists.Map(p.Series, func(s figure.Series) string { return s.Name }), ", ")
		}
		parts = append(parts, strings.Join(lists.NonEmpty(p.Title, over, series), ": "))
	}
	alt := strings.Join(lists.NonEmpty(append(parts, f.Caption)...), ". ")
	return Figure{f, cmp.Or(alt, f.Name), svg}
}

// Table is a table of rows. Columns with the same value in all rows are lifted out
// as constants.
type Table struct {
	Title     string     `json:"title"`
	Columns   []Column   `json:"columns"`
	Constants []string   `json:"constants"` // name=value
	Rows      []TableRow `json:"rows"`
	Legend    []string   `json:"legend,omitempty"` // explains marks
	Note      string     `json:"note,omitempty"`   // explains an empty column
}

// Column is the heading of a column.
type Column struct {
	Name    string `json:"name"` // for sorting
	Title   string `json:"title"`
	Numeric bool   `json:"numeric"`
}

// TableRow is one point with its trials, or one row.
type TableRow struct {
	Cells     []Cell `json:"cells"`
	Status    string `json:"status"` // the class of the worst status, see StatusClass
	Disturbed bool   `json:"disturbed,omitempty"`
	Point     string `json:"point"` // identifies the point in all runs
	Trouble   `json:"-"`
}

// Trouble describes a row that failed, or is in doubt.
type Trouble struct {
	Reason string   `json:"reason"`
	Output string   `json:"output,omitempty"` // the end of a failed rank's output
	Ranks  []string `json:"ranks,omitempty"`  // how each rank of a failed row ended
	Logs   string   `json:"logs,omitempty"`   // the folder with the whole output
}

// Cell is the value of a row in one column.
type Cell struct {
	Text  string `json:"t"`
	Exact string `json:"x,omitempty"` // the full value if Text is rounded
	Class string `json:"-"`           // of a status or quality, see StatusClass
}

// StatusClass returns the style class of a status. An unknown status counts as failed.
func StatusClass(s journal.Status) string {
	switch s {
	case journal.OK:
		return "ok"
	case journal.Skipped, journal.NotExecuted:
		return "skipped"
	}
	return "failed"
}

// CountClass returns the style class of a number of rows. Ok rows count as good only if none was disturbed.
func (d Document) CountClass(c Count) string {
	if c.Status == journal.OK && d.Doubtful > 0 {
		return StatusClass(journal.Skipped)
	}
	return StatusClass(c.Status)
}

// gridClass returns the style class of a grid's cell. Unlike StatusClass it tells
// cells that were not executed from cells that were skipped on purpose.
func gridClass(s journal.Status) string {
	switch s {
	case "":
		return "empty"
	case journal.NotExecuted:
		return "missing"
	}
	return StatusClass(s)
}

// Block is a paragraph or a list.
type Block struct {
	List    bool // Items are list entries; otherwise there is one item, a paragraph
	Ordered bool
	Items   [][]Span
}

// Span is a run of text in one style.
type Span struct {
	Text       string
	Code, Bold bool
	Link       string `json:",omitempty"` // ID of the sentence whose rows it leads to
}

var (
	bulletRE  = regexp.MustCompile(`^\s*[-*]\s+(.*)$`)
	orderedRE = regexp.MustCompile(`^\s*[0-9]+[.)]\s+(.*)$`)
)

// parse reads a small part of Markdown: paragraphs separated by empty lines, lists
// that start with "-", "*" or "1.", `code` and **bold**. Everything else is text.
func parse(text string) []Block {
	var out []Block
	var open *Block // the block that the next line may continue
	var lines []string
	flush := func() { // ends the current paragraph or list entry
		if open != nil && len(lines) > 0 {
			open.Items = append(open.Items, parseSpans(strings.Join(lines, " ")))
		}
		lines = nil
	}
	begin := func(list, ordered bool) {
		flush()
		if open == nil || !list || open.List != list || open.Ordered != ordered {
			out = append(out, Block{List: list, Ordered: ordered})
			open = &out[len(out)-1]
		}
	}
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		bullet, number := bulletRE.FindStringSubmatch(line), orderedRE.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "":
			flush()
			open = nil
			continue
		case bullet != nil:
			begin(true, false)
			line = bullet[1]
		case number != nil:
			begin(true, true)
			line = number[1]
		case open == nil:
			begin(false, false)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	flush()
	return out
}

// parseSpans finds code and bold text. A mark without its partner is text.
func parseSpans(s string) []Span {
	var out []Span
	bold := false
	emit := func(text string, code bool) {
		last := len(out) - 1
		switch {
		case text == "":
		case last >= 0 && out[last].Code == code && out[last].Bold == bold:
			out[last].Text += text
		default:
			out = append(out, Span{Text: text, Code: code, Bold: bold})
		}
	}
	for {
		i := strings.IndexAny(s, "`*")
		if i < 0 {
			emit(s, false)
			return out
		}
		end := -1
		if s[i] == '`' {
			end = strings.IndexByte(s[i+1:], '`')
		}
		switch {
		case end > 0:
			emit(s[:i], false)
			emit(s[i+1:i+1+end], true)
			s = s[i+1+end+1:]
		case strings.HasPrefix(s[i:], "**") && (bold || strings.Contains(s[i+2:], "**")):
			emit(s[:i], false)
			bold = !bold
			s = s[i+2:]
		default:
			emit(s[:i+1], false)
			s = s[i+1:]
		}
	}
}
