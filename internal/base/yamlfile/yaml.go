// Package yamlfile reads YAML strictly: unknown, missing and duplicate keys and
// values of the wrong kind are all collected, each with its line, column and an
// excerpt, so that all of them are seen at once.
//
// It reads the syntax tree and never decodes into Go values, because decoding
// rewrites texts (0o17 becomes 15) and stops at the first fault. What the keys
// mean is up to the caller; it is the only importer of the YAML library.
package yamlfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Node is a node of the syntax tree, which the methods of Reader read.
type Node = ast.Node

// Reader walks the syntax tree of a file and collects faults.
type Reader struct {
	source
	anchors map[string]Node
	// Number, if it is set, is told of every number, the path to its key and its digits, and gives
	// the text that is read in its place.
	Number func(what, text string, digits int) string
	// Absent, if it is set, is told of every optional key that is not there.
	Absent func(what string)
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Key   string
	At    Node // the key, for faults
	Value Node
}

// Scalar is one value as it was written.
type Scalar struct {
	Text   string
	Quoted bool // quoted, or a | or > block: never a number, never null
	Null   bool
	Number bool // YAML takes it for a number
	At     Node
}

// Parse reads the text and returns its only document, or nil after recording
// what is wrong. The name is for errors; noun is what a file holds ("sweep")
// and needs what it holds at least, for the error about an empty one.
func Parse(name string, data []byte, noun, needs string) (*Reader, Node) {
	r := &Reader{source: newSource(name, data)}
	return r, r.document(data, noun, needs)
}

func (r *Reader) document(data []byte, noun, needs string) Node {
	if !utf8.Valid(data) {
		r.add(1, 1, "the file is not UTF-8 text")
		return nil
	}
	// Duplicate keys are let through here and reported with all other faults.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if syntax, is := errors.AsType[yaml.Error](err); is && syntax.GetToken() != nil {
			line, column := r.position(syntax.GetToken())
			r.add(line, column, syntax.GetMessage())
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
	ast.Walk(anchorCollector(r.anchors), root)
	return root
}

type anchorCollector map[string]Node

func (c anchorCollector) Visit(n Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		c[a.Name.GetToken().Value] = a.Value
	}
	return c
}

// resolve looks through anchors and aliases, so that `*x` reads as what `&x`
// marks. An alias of an alias of itself ends as an unresolved node.
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

// Fault records something wrong at a node.
func (r *Reader) Fault(n Node, format string, args ...any) {
	line, column := r.position(startToken(n))
	r.add(line, column, fmt.Sprintf(format, args...))
}

// FaultIn is Fault at so many characters into a scalar's text.
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

// startToken is the first token of a node; the tree hangs mappings on a colon.
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

// position is the line and column of a token. The scanner counts some columns one
// too far (after trailing blanks); the text itself decides.
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

// describe names what a node is, for "want a list, have a mapping".
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

// Mapping returns the entries of a mapping without duplicate keys.
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

// Fields returns the values of a mapping whose keys are known in advance; nil
// if it is none. After an unknown key, clean is false: a key that seems to be
// missing was probably misspelt, and one fault is enough to say so.
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

// List returns the items of a list that has at least one.
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

// Scalar returns a value as it was written.
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

// Text is Scalar for where a value must not be missing.
func (r *Reader) Text(n Node, what string) (Scalar, bool) {
	s, ok := r.Scalar(n, what)
	if ok && s.Null {
		r.Fault(n, "%s: the value is missing", what)
		return s, false
	}
	return s, ok
}

// Texts is a list of values none of which is missing.
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

// Word is a value out of a fixed set; noun says what the words are.
func (r *Reader) Word(n Node, what, noun string, words ...string) (string, bool) {
	s, ok := r.Text(n, what+": "+noun)
	if ok && !slices.Contains(words, s.Text) {
		r.Fault(n, "%s: %v", what, suggest.Unknown(noun, s.Text, words))
		ok = false
	}
	return s.Text, ok
}

// IsList and IsMapping tell which form a value has that may have several.
func (r *Reader) IsList(n Node) bool {
	_, ok := r.resolve(n).(*ast.SequenceNode)
	return ok
}

// IsMapping is true for a mapping of any style.
func (r *Reader) IsMapping(n Node) bool {
	switch r.resolve(n).(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// Peek is Mapping without reporting its faults a second time.
func (r *Reader) Peek(n Node) []Entry {
	kept := len(r.faults)
	entries, _ := r.Mapping(n, "")
	r.faults = r.faults[:kept]
	return entries
}

// Name is the file's name as given to Parse.
func (r *Reader) Name() string { return r.name }

// String is the text of a value that is written as one, quoted or not.
func (r *Reader) String(n Node) (string, bool) {
	if s, ok := r.resolve(n).(*ast.StringNode); ok {
		return s.Value, true
	}
	return "", false
}
