package sweep

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

	"github.com/kernbench/kernbench/internal/suggest"
)

// reader walks the syntax tree of a sweep file and collects faults. It reads
// the tree and never decodes into Go values, because decoding rewrites texts
// (0o17 becomes 15) and stops at the first fault.
type reader struct {
	source
	anchors map[string]ast.Node
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	at    ast.Node // the key, for faults
	value ast.Node
}

// scalar is one value as it was written.
type scalar struct {
	text   string
	quoted bool // quoted, or a | or > block: never a number, never null
	null   bool
	number bool // YAML takes it for a number
	at     ast.Node
}

// document parses the text and returns its only document, or nil after
// recording what is wrong.
func (r *reader) document(data []byte) ast.Node {
	if !utf8.Valid(data) {
		r.add(1, 1, "the file is not UTF-8 text")
		return nil
	}
	// Duplicate keys are let through here and reported with all other faults.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			line, column := r.place(syntax.GetToken())
			r.add(line, column, syntax.GetMessage())
		} else {
			r.add(1, 1, err.Error())
		}
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root == nil:
			root = doc.Body
		default:
			r.fault(doc.Body, "a second document: one file holds one sweep")
		}
	}
	if root == nil {
		r.add(1, 1, "the file is empty: a sweep has at least name, command and metrics")
		return nil
	}
	r.anchors = map[string]ast.Node{}
	ast.Walk(anchorCollector(r.anchors), root)
	return root
}

type anchorCollector map[string]ast.Node

func (c anchorCollector) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		c[a.Name.GetToken().Value] = a.Value
	}
	return c
}

// resolve looks through anchors and aliases, so that `*x` reads as what `&x`
// marks. An alias of an alias of itself ends as an unresolved node.
func (r *reader) resolve(n ast.Node) ast.Node {
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

// fault records something wrong at a node.
func (r *reader) fault(n ast.Node, format string, args ...any) {
	line, column := r.place(startToken(n))
	r.add(line, column, fmt.Sprintf(format, args...))
}

// faultIn is fault at so many characters into a scalar's text.
func (r *reader) faultIn(n ast.Node, offset int, format string, args ...any) {
	line, column := r.place(startToken(n))
	if isQuoted(n.GetToken()) {
		column++
	}
	r.add(line, column+offset, fmt.Sprintf(format, args...))
}

func isQuoted(tk *token.Token) bool {
	return tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType
}

// startToken is the first token of a node; the tree hangs mappings on a colon.
func startToken(n ast.Node) *token.Token {
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

// place is the line and column of a token. The scanner counts some columns one
// too far (after trailing blanks); the text itself decides.
func (r *reader) place(tk *token.Token) (line, column int) {
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
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.TagNode:
		return "a tag, which has no use here"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an alias of nothing"
	case *ast.LiteralNode:
		return "a block of text"
	}
	return fmt.Sprintf("%q", n.GetToken().Value)
}

// mapping returns the entries of a mapping without duplicate keys.
func (r *reader) mapping(n ast.Node, what string) ([]entry, bool) {
	var pairs []*ast.MappingValueNode
	switch x := r.resolve(n).(type) {
	case *ast.MappingNode:
		pairs = x.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{x}
	default:
		r.fault(n, "%s: want a mapping of names to values, have %s", what, describe(x))
		return nil, false
	}
	var entries []entry
	seen := map[string]bool{}
	for _, p := range pairs {
		key, ok := p.Key.(ast.ScalarNode)
		if !ok {
			r.fault(p.Key, "%s: want a plain word as key", what)
			continue
		}
		name := key.GetToken().Value
		if seen[name] {
			r.fault(p.Key, "%s: the key %q is there twice", what, name)
			continue
		}
		seen[name] = true
		entries = append(entries, entry{name, p.Key, p.Value})
	}
	return entries, true
}

// fields returns the values of a mapping whose keys are known in advance; nil
// if it is none. After an unknown key, clean is false: a key that seems to be
// missing was probably misspelt, and one fault is enough to say so.
func (r *reader) fields(n ast.Node, what string, known ...string) (values map[string]ast.Node, clean bool) {
	entries, clean := r.mapping(n, what)
	if !clean {
		return nil, false
	}
	values = map[string]ast.Node{}
	for _, e := range entries {
		if !slices.Contains(known, e.key) {
			r.fault(e.at, "%s: %v", what, suggest.Unknown("key", e.key, known))
			clean = false
			continue
		}
		values[e.key] = e.value
	}
	return values, clean
}

// list returns the items of a list that has at least one.
func (r *reader) list(n ast.Node, what string) ([]ast.Node, bool) {
	seq, ok := r.resolve(n).(*ast.SequenceNode)
	if !ok {
		r.fault(n, "%s: want a list, have %s", what, describe(r.resolve(n)))
		return nil, false
	}
	if len(seq.Values) == 0 {
		r.fault(n, "%s: the list is empty", what)
		return nil, false
	}
	return seq.Values, true
}

// scalar returns a value as it was written.
func (r *reader) scalar(n ast.Node, what string) (scalar, bool) {
	node := r.resolve(n)
	switch x := node.(type) {
	case *ast.NullNode:
		return scalar{null: true, at: n}, true
	case *ast.StringNode:
		return scalar{text: x.Value, quoted: isQuoted(x.Token), at: node}, true
	case *ast.LiteralNode:
		return scalar{text: x.Value.Value, quoted: true, at: n}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return scalar{text: node.GetToken().Value, number: true, at: node}, true
	case *ast.BoolNode:
		return scalar{text: x.GetToken().Value, at: node}, true
	}
	r.fault(n, "%s: want a single value, have %s", what, describe(node))
	return scalar{}, false
}

// text is scalar for where a value must not be missing.
func (r *reader) text(n ast.Node, what string) (scalar, bool) {
	s, ok := r.scalar(n, what)
	if ok && s.null {
		r.fault(n, "%s: the value is missing", what)
		return s, false
	}
	return s, ok
}

// texts is a list of values none of which is missing.
func (r *reader) texts(n ast.Node, what string) ([]scalar, bool) {
	nodes, ok := r.list(n, what)
	var items []scalar
	for _, item := range nodes {
		s, good := r.text(item, what)
		ok = ok && good
		items = append(items, s)
	}
	return items, ok
}

// word is a value out of a fixed set; noun says what the words are.
func (r *reader) word(n ast.Node, what, noun string, words ...string) (string, bool) {
	s, ok := r.text(n, what+": "+noun)
	if ok && !slices.Contains(words, s.text) {
		r.fault(n, "%s: %v", what, suggest.Unknown(noun, s.text, words))
		ok = false
	}
	return s.text, ok
}
