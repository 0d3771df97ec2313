// Package yamlfile reads YAML strictly. It reports unknown, missing and duplicate keys and wrong
// values, each with its line, column and an excerpt, and all at once.
//
// It reads the syntax tree instead of decoding into Go values, because decoding changes texts
// (0o17 becomes 15) and stops at the first error. This is the only package that imports the YAML
// library. The callers give the keys their meaning.
package yamlfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Node is a node of the syntax tree. The methods of Reader interpret it.
type Node = ast.Node

// Reader reads the syntax tree of a file and collects faults. Its methods take a node and what it
// is ("axis size"), for the text of faults.
type Reader struct {
	source
	anchors map[string]Node
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
	// The library does not fold the lines of a quoted text if they end in \r\n.
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	// Some texts, such as a folded text of blank lines, take the lexer minutes per megabyte.
	file, err := infile.Within(context.Background(), parseTime, func() (*ast.File, error) {
		tokens := lexer.Tokenize(text)
		if err := bounded(tokens); err != nil {
			return nil, err
		}
		// Duplicate keys are reported later, together with all other faults.
		file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
		if err == nil {
			err = misread(tokens)
		}
		return file, err
	})
	if err != nil {
		if syntax, is := errors.AsType[yaml.Error](err); is && syntax.GetToken() != nil {
			line, column := r.position(syntax.GetToken())
			r.add(line, column, syntax.GetMessage())
		} else if bound, is := errors.AsType[*boundError](err); is {
			r.add(bound.line, bound.column, bound.msg)
		} else {
			r.add(1, 1, err.Error())
		}
		return nil
	}
	var root Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root == nil:
			root = doc.Body
		default:
			r.Fault(doc.Body, "a second document: one file holds one %s", noun)
		}
	}
	if root == nil {
		r.add(1, 1, fmt.Sprintf("the file is empty: a %s has at least %s", noun, needs))
		return nil
	}
	r.anchors = map[string]Node{}
	ast.Walk(anchorCollector{r, map[string]Node{}}, root)
	if n := (&counter{anchors: r.anchors, sizes: map[string]int{}}).size(root); n > maxNodes {
		r.Fault(root, "with its aliases, the file has more than %d values", maxNodes)
		return nil
	}
	return root
}

// Limits of a file. The parser's time grows with the square of the tokens, and its stack and memory with
// the depth: 200,000 opening brackets took it 22 GB. The tokens are counted first, in linear time.
const (
	maxTokens = 30_000
	maxDepth  = 64
	maxNodes  = 100_000 // aliases count as what they stand for
)

// parseTime limits the time that a text may take. Tests shorten it.
var parseTime = infile.Deadline

// boundError is the place where a text exceeds a limit, or cannot be read.
type boundError struct {
	line, column int
	msg          string
}

func (e *boundError) Error() string { return e.msg }

// bounded returns an error if the parser cannot read the text in reasonable time and memory.
func bounded(tokens token.Tokens) error {
	brackets, dashes, line := 0, 0, 0
	for i, t := range tokens {
		if t.Position.Line != line {
			dashes, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		switch {
		case brackets+dashes > maxDepth:
			return &boundError{line, t.Position.Column, fmt.Sprintf("lists and mappings are nested more than %d deep", maxDepth)}
		case i >= maxTokens:
			return &boundError{line, t.Position.Column,
				fmt.Sprintf("the file has more than %d values, keys and marks", maxTokens)}
		}
	}
	return nil
}

// blockMark matches the mark of a block of text.
var blockMark = regexp.MustCompile(`^[|>][-+0-9]{0,2}$`)

// misread returns an error if the library read the text as something else without a word: it drops tabs within a
// value, so that 1<tab>2 becomes 12, and the text of a block that begins on the line of its |.
func misread(tokens token.Tokens) error {
	block := false // the next token is the text of a block
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		text, fault := strings.TrimSpace(t.Origin), ""
		mark := t.Type == token.LiteralType || t.Type == token.FoldedType
		switch {
		case t.Type == token.InvalidType, mark && !blockMark.MatchString(text):
			fault = fmt.Sprintf("%q is not YAML", text)
		case !block && !isQuoted(t) && strings.Contains(text, "\t"):
			fault = fmt.Sprintf("a tab within %q: write it in quotes, or with blanks", text)
		}
		if fault != "" {
			return &boundError{t.Position.Line, t.Position.Column, fault}
		}
		block = mark
	}
	return nil
}

// counter counts the nodes that a reader of the file may visit. A list of aliases of lists of aliases has
// exponentially many.
type counter struct {
	anchors map[string]Node
	sizes   map[string]int // by anchor; 0 while one is being counted, because it may contain itself
}

// size returns the number of nodes, or a number above maxNodes if there are more.
func (c *counter) size(n Node) int {
	total := 1
	add := func(part Node) { total = min(total+c.size(part), maxNodes+1) }
	switch x := n.(type) {
	case *ast.MappingNode:
		for _, v := range x.Values {
			add(v)
		}
	case *ast.MappingValueNode:
		add(x.Value)
	case *ast.SequenceNode:
		for _, v := range x.Values {
			add(v)
		}
	case *ast.AnchorNode:
		add(x.Value)
	case *ast.AliasNode:
		name := x.Value.GetToken().Value
		size, counted := c.sizes[name]
		if target := c.anchors[name]; !counted && target != nil {
			c.sizes[name] = 0
			size = c.size(target)
			c.sizes[name] = size
		}
		total = min(total+size, maxNodes+1)
	}
	return total
}

// anchorCollector fills the map of anchors, in the order of the text.
type anchorCollector struct {
	r     *Reader
	early map[string]Node // aliases without an anchor before them
}

func (c anchorCollector) Visit(n Node) ast.Visitor {
	switch x := n.(type) {
	case *ast.AnchorNode:
		name := x.Name.GetToken().Value
		switch alias := c.early[name]; {
		case c.r.anchors[name] != nil: // YAML allows it: an alias means the last one before it
			c.r.Fault(n, "the anchor &%s is defined twice: use two names", name)
		case alias != nil:
			c.r.Fault(alias, "the alias *%s stands before its anchor", name)
		}
		c.r.anchors[name] = x.Value
	case *ast.AliasNode:
		if name := x.Value.GetToken().Value; c.r.anchors[name] == nil {
			c.early[name] = n
		}
	}
	return c
}

// resolve follows anchors and aliases, so that *x has the value marked &x. It stops after 8
// steps, because an alias may refer to itself; describe then calls it undefined.
func (r *Reader) resolve(n Node) Node {
	for range 8 {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			target, ok := r.anchors[x.Value.GetToken().Value]
			if !ok {
				return n
			}
			n = target
		default:
			return n
		}
	}
	return n
}

// Fault records a fault at a node.
func (r *Reader) Fault(n Node, format string, args ...any) {
	line, column := r.position(startToken(n))
	r.add(line, column, fmt.Sprintf(format, args...))
}

// FaultIn records a fault at an offset, in characters, within the text of a scalar.
func (r *Reader) FaultIn(n Node, offset int, format string, args ...any) {
	line, column := r.position(startToken(n))
	if isQuoted(n.GetToken()) {
		column++
	}
	r.add(line, column+offset, fmt.Sprintf(format, args...))
}

func isQuoted(tk *token.Token) bool {
	return tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType
}

// startToken returns the first token of a node. The token of a mapping in the tree is its colon.
func startToken(n Node) *token.Token {
	switch x := n.(type) {
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return x.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return x.Key.GetToken()
	}
	return n.GetToken()
}

// position returns the line and column of a token. The column of the scanner is sometimes one
// too large (after trailing blanks), so position looks for the token in the text.
func (r *Reader) position(tk *token.Token) (line, column int) {
	if tk == nil || tk.Position == nil {
		return 1, 1
	}
	line, column = tk.Position.Line, max(tk.Position.Column, 1)
	runes := []rune(r.line(line))
	if isQuoted(tk) || column <= len(runes) && strings.HasPrefix(string(runes[column-1:]), tk.Value) {
		return line, column
	}
	upTo := string(runes[:min(len(runes), column-1+utf8.RuneCountInString(tk.Value))])
	if i := strings.LastIndex(upTo, tk.Value); i >= 0 && tk.Value != "" {
		return line, utf8.RuneCountInString(upTo[:i]) + 1
	}
	return line, column
}

// describe returns the kind of a node in words, as in "want a list, have a mapping".
func describe(n Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.TagNode:
		return "a tag, which is not supported"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an undefined alias"
	case *ast.LiteralNode:
		return "a block of text"
	}
	return fmt.Sprintf("%q", n.GetToken().Value)
}

// Mapping returns the entries of a mapping. Duplicate keys are faults and left out.
func (r *Reader) Mapping(n Node, what string) ([]Entry, bool) {
	var pairs []*ast.MappingValueNode
	switch x := r.resolve(n).(type) {
	case *ast.MappingNode:
		pairs = x.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{x}
	default:
		r.Fault(n, "%s: want a mapping of names to values, have %s", what, describe(x))
		return nil, false
	}
	var entries []Entry
	seen := map[string]bool{}
	for _, p := range pairs {
		key, ok := p.Key.(ast.ScalarNode)
		if !ok {
			r.Fault(p.Key, "%s: want a plain word as key", what)
			continue
		}
		name := key.GetToken().Value
		if seen[name] {
			r.Fault(p.Key, "%s: duplicate key %q", what, name)
			continue
		}
		seen[name] = true
		entries = append(entries, Entry{name, p.Key, p.Value})
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
	seq, ok := r.resolve(n).(*ast.SequenceNode)
	if !ok {
		r.Fault(n, "%s: want a list, have %s", what, describe(r.resolve(n)))
		return nil, false
	}
	if len(seq.Values) == 0 {
		r.Fault(n, "%s: the list is empty", what)
		return nil, false
	}
	return seq.Values, true
}

// Scalar returns a single value as written, which may be null.
func (r *Reader) Scalar(n Node, what string) (Scalar, bool) {
	node := r.resolve(n)
	switch x := node.(type) {
	case *ast.NullNode:
		return Scalar{Null: true, At: n}, true
	case *ast.StringNode:
		return Scalar{Text: x.Value, Quoted: isQuoted(x.Token), At: node}, true
	case *ast.LiteralNode:
		return Scalar{Text: x.Value.Value, Quoted: true, At: n}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return Scalar{Text: node.GetToken().Value, Number: true, At: node}, true
	case *ast.BoolNode:
		return Scalar{Text: x.GetToken().Value, At: node}, true
	}
	r.Fault(n, "%s: want a single value, have %s", what, describe(node))
	return Scalar{}, false
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
func (r *Reader) IsList(n Node) bool {
	_, ok := r.resolve(n).(*ast.SequenceNode)
	return ok
}

// IsMapping reports whether a value is a mapping.
func (r *Reader) IsMapping(n Node) bool {
	switch r.resolve(n).(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

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
	if s, ok := r.resolve(n).(*ast.StringNode); ok {
		return s.Value, true
	}
	return "", false
}
