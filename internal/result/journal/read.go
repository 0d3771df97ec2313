package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// ErrNewer is the error of a Problem whose record has a newer schema than Schema.
var ErrNewer = errors.New("newer than this program reads")

const (
	// excerptLen is how much of a bad line a Problem quotes.
	excerptLen = 80
	// maxLine is the length of the longest line that is read or written, in bytes. A file from
	// somebody else may have no line end at all, so longer lines are skipped without storing them.
	maxLine = 64 << 20
)

// Problem is a line that could not be used, or that does not follow the row before it.
type Problem struct {
	Line int    // number, from 1
	Run  string // the run that it probably belongs to; "" if unknown
	Text string // beginning of the line
	Err  error
}

func (p Problem) String() string {
	run := ""
	if p.Run != "" {
		run = " (run " + p.Run + ")"
	}
	text := texttab.Plain(fmt.Sprintf("line %d%s: %v: %q", p.Line, run, p.Err, p.Text))
	if errors.Is(p.Err, ErrChain) {
		return text
	}
	return text + " (left out)"
}

// Read reads the journal of a RUN folder, or a file whose name ends in .jsonl. Lines that cannot be used
// become Problems rather than errors. Read takes no lock, so a line that another process is just writing
// may be among them.
func Read(path string) (*Journal, error) {
	at, err := locate(path)
	if err != nil {
		return nil, err
	}
	f, err := at.open()
	if err != nil {
		return nil, fmt.Errorf("reading a journal: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading a journal: %w", err)
	}
	j, err := parse(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", at.path, err)
	}
	j.Path = at.path
	return j, nil
}

// location is where a journal is.
type location struct {
	path   string
	folder string // the RUN folder, or "" if the user named the file itself
}

// open opens the journal. It follows no link out of the RUN folder, which may come from somebody else.
func (l location) open() (*infile.File, error) {
	if l.folder == "" {
		return infile.Open(l.path, infile.Data)
	}
	root, err := os.OpenRoot(l.folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return infile.OpenBelow(root, FileName, infile.Data)
}

// locate returns the journal of a path, which is a RUN folder or the file itself.
func locate(path string) (location, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isJSONL(path):
		return location{}, fmt.Errorf("reading a journal: no file %s: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrNotExist):
		return location{}, fmt.Errorf("reading a journal: no folder %s%s: %w", path, besides(path), fs.ErrNotExist)
	case err != nil:
		return location{}, fmt.Errorf("reading a journal: %w", err)
	case info.IsDir():
		file := filepath.Join(path, FileName)
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			return location{}, fmt.Errorf("reading a journal: the folder %s has no %s%s: %w", path, FileName, below(path),
				fs.ErrNotExist)
		}
		return location{file, path}, nil
	case !isJSONL(path):
		return location{}, fmt.Errorf("reading a journal: %s is neither a folder nor a .jsonl file", path)
	}
	return location{path: path}, nil
}

func isJSONL(path string) bool { return strings.EqualFold(filepath.Ext(path), ".jsonl") }

// reader collects the records of one file.
type reader struct {
	j     *Journal
	byID  map[string]*Run
	newer map[string]bool // runs whose latest header has a newer schema
	line  int             // number of the current line
	last  string          // run of the latest good record

	partial        bool  // the current line has been counted but has no newline yet
	consumed, size int64 // bytes of the input, so far and in total; size is 0 if unknown

	chains             chainer
	lineChain, lineSum string // chain and checksum of the current line

	fast fastReader
	// row and begin are buffers for the record being decoded, so that not every line allocates one.
	row   Row
	begin Begin

	maxLine int // tests use a smaller one
}

// Beginnings of the lines that fastReader decodes.
var rowStart, beginStart = []byte(`{"type":"row",`), []byte(`{"type":"begin",`)

func newReader() *reader {
	return &reader{j: &Journal{}, byID: map[string]*Run{}, newer: map[string]bool{}, chains: chainer{},
		fast: newFastReader(), maxLine: maxLine}
}

// parse reads a whole journal. size is its length in bytes, or 0 if unknown. An error means that reading
// failed; bad content is never an error.
func parse(src io.Reader, size int64) (*Journal, error) {
	r := newReader()
	if _, err := r.read(src, size, true); err != nil {
		return nil, err
	}
	return r.j, nil
}

// read adds the lines of src and returns the number of bytes that it has used. If the last line is cut
// off and final is true, the line is a Problem. If final is false, it is left for a later call, because
// another process may still be writing it.
func (r *reader) read(src io.Reader, size int64, final bool) (consumed int64, err error) {
	r.consumed, r.size = 0, size
	in := lineReader{in: bufio.NewReaderSize(src, 1<<16), most: r.maxLine}
	for err != io.EOF {
		counted := r.partial
		var line []byte
		line, err = in.next()
		if err != nil && err != io.EOF {
			return r.consumed, err
		}
		text := bytes.TrimSpace(line)
		if err == io.EOF && !final && in.skipped == 0 && !json.Valid(text) {
			break
		}
		r.consumed += int64(len(line)) + in.skipped
		if len(line) > 0 {
			if !counted {
				r.line++
			}
			r.partial = err == io.EOF
		}
		if len(text) == 0 {
			continue
		}
		bad := error(nil)
		if in.skipped > 0 {
			bad = fmt.Errorf("the line has %s bytes, and the limit is %s: want one record on each line",
				unit.FormatBytes(int64(len(line))+in.skipped), unit.FormatBytes(int64(r.maxLine)))
		} else {
			bad = r.add(text)
		}
		if bad != nil {
			if err == io.EOF {
				bad = fmt.Errorf("the last line is cut off: %w", bad)
			}
			run := r.runOf(text)
			r.j.Problems = append(r.j.Problems, Problem{r.line, run, excerpt(text), bad})
			if !errors.Is(bad, ErrChain) {
				r.chains[run] = chainUnknown
				if m := runMember.FindSubmatch(text); m != nil { // of a run whose first line was damaged too
					r.chains[string(m[1])] = chainUnknown
				}
			}
		}
	}
	for _, run := range r.j.Runs {
		run.finish()
	}
	return r.consumed, nil
}

// addRow adds a row. It returns an error instead if the row's numbers contradict each other. A row that does not
// follow the run's previous row is added, and the error is ErrChain.
func (r *reader) addRow(row *Row) error {
	if err := checkNumbers(row); err != nil {
		return fmt.Errorf("the row contradicts itself: %w", err)
	}
	follows := r.chains.follows(row.Run, r.lineChain)
	r.chains[row.Run] = r.lineSum
	run := r.run(row.Run)
	run.Rows = grown(r, run.Rows)
	run.addRow(row)
	return run.chained(follows)
}

// chained counts a break of the chain of rows.
func (r *Run) chained(follows bool) error {
	if follows {
		return nil
	}
	r.Breaks++
	return ErrChain
}

func (r *reader) addBegin(b Begin) {
	run := r.run(b.Run)
	run.Begun = grown(r, run.Begun)
	run.addBegin(b)
}

// grown returns the list with room for another record. A full list grows by the number of records that
// the rest of the file probably has. Rows are large: doubling the list, as append does, would waste
// memory and copy the list too often. The growth is bounded, because the first lines of a file may not be
// typical.
func grown[T any](r *reader, list []T) []T {
	n := len(list)
	if n < cap(list) || r.consumed == 0 || r.size <= r.consumed {
		return list
	}
	const typical, most = 1 << 10, 1 << 18
	bound := 3 * n
	if n >= typical {
		bound = max(bound, most)
	}
	expected := int64(n) * (r.size - r.consumed) / r.consumed
	return slices.Grow(list, int(min(expected+expected/16, int64(bound)))+16)
}

// lineReader reads lines of bounded length.
type lineReader struct {
	in      *bufio.Reader
	most    int    // bytes that are kept of a line
	buf     []byte // holds lines longer than the buffer of in
	skipped int64  // bytes of the latest line that were not kept
}

// next returns the next line, or the beginning of a line that is too long. It is valid until the next
// call. With the last line, the error is io.EOF.
func (r *lineReader) next() ([]byte, error) {
	r.skipped = 0
	part, err := r.in.ReadSlice('\n')
	if err != bufio.ErrBufferFull && len(part) <= r.most {
		return part, err // nearly all lines are short and need not be copied
	}
	r.buf = r.buf[:0]
	for {
		kept := min(len(part), r.most-len(r.buf))
		r.buf = append(r.buf, part[:kept]...)
		r.skipped += int64(len(part) - kept)
		if err != bufio.ErrBufferFull {
			return r.buf, err
		}
		part, err = r.in.ReadSlice('\n')
	}
}

// add adds one record. A last line without a newline is valid if its JSON is complete, because the next
// writer will add the newline.
func (r *reader) add(line []byte) error {
	var record []byte
	var err error
	if record, r.lineChain, r.lineSum, err = unseal(line); err != nil {
		return err
	}
	added, err := r.addFast(record)
	if !added && err == nil {
		err = r.addSlowly(record)
	}
	return err
}

// runMember matches the id of a run in a damaged line.
var runMember = regexp.MustCompile(`"run":"([^"]*)"`)

// runOf returns the probable run of a damaged line: the run that the line names, if there is such a run,
// else the run of the record before it.
func (r *reader) runOf(line []byte) string {
	if m := runMember.FindSubmatch(line); m != nil && r.byID[string(m[1])] != nil {
		return string(m[1])
	}
	return r.last
}

// addSlowly adds any record, with encoding/json.
func (r *reader) addSlowly(line []byte) error {
	var head struct {
		Type   *string `json:"type"`
		Schema int     `json:"schema"`
		Run    string  `json:"run"`
	}
	err := json.Unmarshal(line, &head)
	// Check the schema before the error, because fields of a newer record may have other types.
	if head.Schema > Schema {
		if head.Type != nil && *head.Type == typeRun {
			r.newer[head.Run] = true
		}
		return fmt.Errorf("schema %d is %w (up to %d)", head.Schema, ErrNewer, Schema)
	}
	if err != nil {
		return err
	}
	if head.Type == nil {
		return errors.New("the record has no type")
	}
	switch *head.Type {
	case typeRun, typeBegin, typeRow, typeNote, typeLabel, typeEnd:
	default:
		return nil // a type that a newer program has added; the known records do not depend on it
	}
	if head.Run == "" {
		return fmt.Errorf("the %s record has no run id", *head.Type)
	}
	return r.addTyped(*head.Type, head.Run, line)
}

// addFast adds a row or begin record if it has the exact form in which this program writes it, and
// reports whether it did. The error is for a row that contradicts itself.
func (r *reader) addFast(line []byte) (bool, error) {
	if rest, ok := bytes.CutPrefix(line, rowStart); ok {
		r.row = Row{}
		r.fast.Reset(rest)
		if !r.fast.row(r.fast.Decoder, &r.row) || !r.fast.AtEnd() || r.row.Schema > Schema || r.row.Run == "" {
			return false, nil
		}
		return true, r.addRow(&r.row)
	}
	if rest, ok := bytes.CutPrefix(line, beginStart); ok {
		r.begin = Begin{}
		r.fast.Reset(rest)
		if b := &r.begin; !r.fast.begin(r.fast.Decoder, b) || !r.fast.AtEnd() || r.newer[b.Run] || b.Run == "" {
			return false, nil
		}
		r.addBegin(r.begin)
		return true, nil
	}
	return false, nil
}

// addTyped decodes a record of a known type and adds it. If a field of a header is damaged, the other
// fields are used, and the error is returned as well.
func (r *reader) addTyped(typ, id string, line []byte) error {
	switch typ {
	case typeRun:
		var h Header
		err := json.Unmarshal(line, &h)
		var damaged *json.UnmarshalTypeError
		if err == nil || errors.As(err, &damaged) { // the other fields were read
			delete(r.newer, id)
			r.run(id).addHeader(h)
			r.moveLast(id)
		}
		return err
	case typeRow:
		var row Row
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		return r.addRow(&row)
	}
	// The other records have the schema of their run's header.
	if r.newer[id] {
		return fmt.Errorf("the schema of its run is %w", ErrNewer)
	}
	switch typ {
	case typeBegin:
		return decode(line, r.addBegin)
	case typeNote:
		return decode(line, func(n Note) { run := r.run(id); run.Notes = append(run.Notes, n) })
	case typeLabel:
		return decode(line, func(l Label) {
			h := &r.run(id).Header
			h.Tags, h.Note = mergeTags(nil, l.Tags), l.Note
		})
	default:
		var e End
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		run := r.run(id)
		run.End = &e
		follows := r.chains.follows(id, r.lineChain)
		r.chains[id] = r.lineChain // so that a row that is missing is reported once
		return run.chained(follows)
	}
}

// decode decodes a record and passes it to use, unless decoding fails.
func decode[T any](line []byte, use func(T)) error {
	var rec T
	if err := json.Unmarshal(line, &rec); err != nil {
		return err
	}
	use(rec)
	return nil
}

// run returns the run with the id and adds it if it is new.
func (r *reader) run(id string) *Run {
	run := r.byID[id]
	r.last = id
	if run == nil {
		run = &Run{path: &r.j.Path, Header: Header{Run: id}, open: map[pointTrial]int{}}
		r.byID[id] = run
		r.j.Runs = append(r.j.Runs, run)
	}
	return run
}

// moveLast moves a run to the end of the list.
func (r *reader) moveLast(id string) {
	run := r.byID[id]
	i := slices.Index(r.j.Runs, run)
	r.j.Runs = append(slices.Delete(r.j.Runs, i, i+1), run)
}

func excerpt(line []byte) string {
	if len(line) > excerptLen {
		return strings.ToValidUTF8(string(line[:excerptLen]), "") + "..."
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}
