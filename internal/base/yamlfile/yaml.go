// Package yamlfile reads YAML strictly. It reports unknown, missing and duplicate keys and wrong
// values, each with its line, column and an excerpt, and all at once.
//
// It reads the syntax tree instead of decoding into Go values, because decoding changes texts
// (0o17 becomes 15) and stops at the first error. This is the only package that imports the YAML
// library. The callers give the keys their meaning.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Node is a node of the syntax tree. The methods of Reader interpret it.
type Node = *yaml.Node

// Reader reads the syntax tree of a file and collects faults. Its methods take a node and what it
// is ("axis size"), for the text of faults.
type Reader struct {
	source
	// Number, if not nil, is called for every number with the path of its key, its text and the
	// digits of Decimal. The reader uses the text that it returns.
	Number func(what, text string, digits int) string
	// Absent, if not nil, is called for every optional key that is missing, with its path.
	Absent func(what string)
	// Separator stands between the keys of a path. "" means a dot.
	Separator string
}

// Entry is a key of a mapping and its value.
type Entry struct {
	Key   string
	At    Node // the node of the key, for faults
	Value Node
}

// Scalar is a single value as written in the file.
type Scalar struct {
	Text   string
	Quoted bool // in quotes, or a | or > block: not a number and not null
	Null   bool
	Number bool // a number by the rules of YAML
	At     Node
}

// Parse parses a file and returns the root of its only document, or nil if there are faults. name
// is the file name, noun is the content of such a file ("sweep"), and needs is its
// minimal content, for the fault of an empty file.
func Parse(name string, data []byte, noun, needs string) (*Reader, Node) {
	r := &Reader{source: newSource(name, data)}
	return r, r.document(data, noun, needs)
}

// document parses the text and returns the root of its only document. Syntax errors, several
// documents and an empty file are faults.
func (r *Reader) document(data []byte, noun, needs string) Node {
	if !utf8.Valid(data) {
		r.add(1, 1, "the file is not UTF-8 text")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // the byte order mark of some editors
	docs, err := documents(bytes.NewReader(data))
	if err != nil {
		r.syntax(data, err)
		return nil
	}
	docs = slices.DeleteFunc(docs, func(n Node) bool { return isNull(n) && n.Value == "" })
	if len(docs) == 0 {
		r.add(1, 1, fmt.Sprintf("the file is empty: a %s has at least %s", noun, needs))
		return nil
	}
	for _, doc := range docs[1:] {
		r.Fault(doc, "a second document: one file holds one %s", noun)
	}
	w := walk{Reader: r, anchors: map[string]bool{}, sizes: map[Node]int{}}
	if n := w.size(docs[0]); n > maxNodes {
		r.Fault(docs[0], "with its aliases, the file has more than %d values", maxNodes)
	} else if !w.endless {
		return docs[0]
	}
	return nil
}

// documents parses a text and returns the roots of its documents.
func documents(text io.Reader) (roots []Node, err error) {
	for d := yaml.NewDecoder(text); ; {
		var doc yaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return roots, nil
		} else if err != nil {
			return nil, err
		}
		roots = append(roots, doc.Content[0])
	}
}

// parserPlace matches what the library writes before the message of an error. Some messages give the line where the
// surrounding list or mapping begins, others no line.
var parserPlace = regexp.MustCompile(`^yaml: (line \d+: )?`)

// syntax records an error of the parser at the character where it stopped to read. It may have read a part of the next
// line before it found the error.
func (r *Reader) syntax(data []byte, err error) {
	message := func(err error) string { return parserPlace.ReplaceAllString(err.Error(), "") }
	text := &byteReader{text: data}
	_, _ = documents(text)
	read := data[:max(text.read-1, 0)]
	line := bytes.LastIndexByte(read, '\n') + 1
	if _, before := documents(bytes.NewReader(data[:line])); before != nil && message(before) == message(err) {
		read = data[:line-1]
		line = bytes.LastIndexByte(read, '\n') + 1
	}
	r.add(bytes.Count(read, []byte("\n"))+1, utf8.RuneCount(read[line:])+1, message(err))
}

// byteReader delivers one byte at a time, so that read is where the parser is.
type byteReader struct {
	text []byte
	read int
}

func (b *byteReader) Read(p []byte) (int, error) {
	if b.read == len(b.text) {
		return 0, io.EOF
	}
	p[0] = b.text[b.read]
	b.read++
	return 1, nil
}

// maxNodes limits the values of a file. Aliases count as what they stand for: a list of aliases of lists of aliases has
// exponentially many.
const maxNodes = 100_000

// walk visits the nodes of a document and reports what YAML allows and this program does not: an anchor that is defined
// twice, because an alias means the last one before it, an anchor that contains itself, and tags.
type walk struct {
	*Reader
	anchors map[string]bool
	sizes   map[Node]int // of nodes with an anchor; 0 while one is being counted
	endless bool         // an anchor contains itself
}

// size returns the number of nodes that a reader may visit, or a number above maxNodes if there are more.
func (w *walk) size(n Node) int {
	if n.Kind == yaml.AliasNode {
		if w.sizes[n.Alias] == 0 {
			w.Fault(n, "the anchor &%s contains itself", n.Value)
			w.endless = true
		}
		return 1 + w.sizes[n.Alias]
	}
	if n.Style&yaml.TaggedStyle != 0 {
		w.Fault(n, "%s is a tag, which is not supported", n.Tag)
	}
	if n.Anchor != "" && w.anchors[n.Anchor] {
		w.Fault(n, "the anchor &%s is defined twice: use two names", n.Anchor)
	}
	w.anchors[n.Anchor] = true
	total := 1
	for _, part := range n.Content {
		if total += w.size(part); total > maxNodes {
			break
		}
	}
	if n.Anchor != "" {
		w.sizes[n] = total
	}
	return total
}

// resolve follows an alias, so that *x has the value marked &x.
func resolve(n Node) Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Fault records a fault at a node.
func (r *Reader) Fault(n Node, format string, args ...any) {
	r.add(n.Line, n.Column, fmt.Sprintf(format, args...))
}

// FaultIn records a fault at an offset, in characters, within the text of a scalar.
func (r *Reader) FaultIn(n Node, offset int, format string, args ...any) {
	if n.Style&quoted != 0 {
		offset++
	}
	r.add(n.Line, n.Column+offset, fmt.Sprintf(format, args...))
}

// The styles of a text in quotes, and of a block of text.
const (
	quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	block  = yaml.LiteralStyle | yaml.FoldedStyle
)

// isNull reports whether a node is a missing or null value.
func isNull(n Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe returns the kind of a node in words, as in "want a list, have a mapping".
func describe(n Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	case n.Style&block != 0:
		return "a block of text"
	}
	return fmt.Sprintf("%q", n.Value)
}

// Mapping returns the entries of a mapping. Duplicate keys are faults and left out.
func (r *Reader) Mapping(n Node, what string) ([]Entry, bool) {
	x := resolve(n)
	if x.Kind != yaml.MappingNode {
		r.Fault(n, "%s: want a mapping of names to values, have %s", what, describe(x))
		return nil, false
	}
	var entries []Entry
	seen := map[string]bool{}
	for i := 0; i < len(x.Content); i += 2 {
		key, value := x.Content[i], x.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.Fault(key, "%s: want a plain word as key", what)
		case seen[key.Value]:
			r.Fault(key, "%s: duplicate key %q", what, key.Value)
		default:
			seen[key.Value] = true
			entries = append(entries, Entry{key.Value, key, value})
		}
	}
	return entries, true
}

// Fields returns the values of a mapping by key, or nil if n is no mapping. Unknown keys are
// faults; clean is then false, and callers should not report missing keys, because the
// unknown key is probably a misspelt one.
func (r *Reader) Fields(n Node, what string, known ...string) (values map[string]Node, clean bool) {
	entries, clean := r.Mapping(n, what)
	if !clean {
		return nil, false
	}
	values = map[string]Node{}
	for _, e := range entries {
		if !slices.Contains(known, e.Key) {
			r.Fault(e.At, "%s: %v", what, suggest.Unknown("key", e.Key, known))
			clean = false
			continue
		}
		values[e.Key] = e.Value
	}
	return values, clean
}

// List returns the items of a list. An empty list is a fault.
func (r *Reader) List(n Node, what string) ([]Node, bool) {
	x := resolve(n)
	if x.Kind != yaml.SequenceNode {
		r.Fault(n, "%s: want a list, have %s", what, describe(x))
		return nil, false
	}
	if len(x.Content) == 0 {
		r.Fault(n, "%s: the list is empty", what)
		return nil, false
	}
	return x.Content, true
}

// Scalar returns a single value as written, which may be null.
func (r *Reader) Scalar(n Node, what string) (Scalar, bool) {
	x := resolve(n)
	if x.Kind != yaml.ScalarNode {
		r.Fault(n, "%s: want a single value, have %s", what, describe(x))
		return Scalar{}, false
	}
	if isNull(x) {
		return Scalar{Null: true, At: n}, true
	}
	tag := x.ShortTag()
	return Scalar{Text: x.Value, Quoted: x.Style&(quoted|block) != 0, Number: tag == "!!int" || tag == "!!float",
		At: x}, true
}

// Text is Scalar for a value that must not be null.
func (r *Reader) Text(n Node, what string) (Scalar, bool) {
	s, ok := r.Scalar(n, what)
	if ok && s.Null {
		r.Fault(n, "%s: the value is missing", what)
		return s, false
	}
	return s, ok
}

// Texts returns the values of a list. None may be null.
func (r *Reader) Texts(n Node, what string) ([]Scalar, bool) {
	nodes, ok := r.List(n, what)
	var items []Scalar
	for _, item := range nodes {
		s, good := r.Text(item, what)
		ok = ok && good
		items = append(items, s)
	}
	return items, ok
}

// Word returns a value that must be one of the words. noun names them in the fault.
func (r *Reader) Word(n Node, what, noun string, words ...string) (string, bool) {
	s, ok := r.Text(n, what+": "+noun)
	if ok && !slices.Contains(words, s.Text) {
		r.Fault(n, "%s: %v", what, suggest.Unknown(noun, s.Text, words))
		ok = false
	}
	return s.Text, ok
}

// IsList reports whether a value is a list.
func (r *Reader) IsList(n Node) bool { return resolve(n).Kind == yaml.SequenceNode }

// IsMapping reports whether a value is a mapping.
func (r *Reader) IsMapping(n Node) bool { return resolve(n).Kind == yaml.MappingNode }

// Peek is Mapping without recording faults.
func (r *Reader) Peek(n Node) []Entry {
	faults := len(r.faults)
	entries, _ := r.Mapping(n, "")
	r.faults = r.faults[:faults]
	return entries
}

// Name returns the file name that was passed to Parse.
func (r *Reader) Name() string { return r.name }

// String returns the text of a value that is a string in YAML, quoted or not.
func (r *Reader) String(n Node) (string, bool) {
	if x := resolve(n); x.Kind == yaml.ScalarNode && x.ShortTag() == "!!str" && x.Style&block == 0 {
		return x.Value, true
	}
	return "", false
}

// Content returns a text that is the same for nodes with the same content, whatever their comments, quotes and layout.
func Content(n Node) string {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%s %q", n.ShortTag(), n.Value)
	}
	return fmt.Sprint(n.ShortTag(), lists.Map(n.Content, Content))
}
