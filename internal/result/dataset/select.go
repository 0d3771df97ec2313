package dataset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The selection language, which --only, plots and sentence rules use:
//
//	or    = and  { "||" and }
//	and   = not  { "&&" not }
//	not   = "!" not | "(" or ")" | test
//	test  = NAME [ ("=="|"!="|"<"|"<="|">"|">=") VALUE ]
//
// NAME is a coordinate or, for stored rows, a metric. VALUE is parsed by the kind of its name, so size>=1M
// means bytes. Texts may be in double or single quotes. The bare
// word unset matches a variable that the point removes. A NAME alone tests whether its value is true.
// If a point lacks the name, the test is false.

// Expr is a compiled expression. at returns the value of a name at the point that is tested.
type Expr func(at Lookup) bool

// Lookup returns a value by name. The value is zero if the point lacks the name.
type Lookup func(name string) Value

// Scope maps the valid names to the kinds of their values.
type Scope map[string]point.Kind

// CompileAll compiles several expressions.
func CompileAll(texts []string, names Scope) ([]Expr, error) {
	var out []Expr
	for _, t := range texts {
		e, err := Compile(t, names)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// AllHold reports whether all expressions hold.
func AllHold(exprs []Expr, at Lookup) bool {
	return !slices.ContainsFunc(exprs, func(e Expr) bool { return !e(at) })
}

// Compile compiles an expression. It reports unknown names and values of the wrong kind.
func Compile(text string, names Scope) (Expr, error) {
	return (&parser{text: text, names: names}).compile()
}

func (p *parser) compile() (Expr, error) {
	p.next()
	e := p.or()
	if p.err == nil && p.kind != tokEnd {
		p.fail("want &&, || or the end, have %q", p.tok)
	}
	return e, p.err
}

// Condition compiles an expression over numbers with the given names, such as the metrics of a
// row. It also returns the names that the expression uses. The expression is false if one of
// them has no value.
func Condition(text string, names []string) (func(values map[string]float64) bool, []string, error) {
	kinds := Scope{}
	for _, name := range names {
		kinds[name] = point.Float
	}
	p := &parser{text: text, names: kinds}
	condition, err := p.compile()
	if err != nil {
		return nil, nil, err
	}
	return func(values map[string]float64) bool {
		for _, name := range p.used {
			if _, has := values[name]; !has {
				return false
			}
		}
		return condition(func(name string) Value { return typed(point.FloatValue(values[name]), true) })
	}, p.used, nil
}

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokWord
	tokQuoted
	tokOp
)

// maxDepth limits nesting, so that a hostile expression cannot exhaust the stack.
const maxDepth = 200

type parser struct {
	text  string
	names Scope
	pos   int // where the next token starts
	at    int // where the current token started
	tok   string
	kind  tokenKind
	depth int
	used  []string // names in order of occurrence
	err   error
}

// fail records the first error. It ends the token stream, so that all parsing functions return.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("expression %q, column %d: %s", p.text, p.at+1, fmt.Sprintf(format, args...))
	}
	p.kind, p.tok = tokEnd, ""
}

// operators are tried in order, so longer ones come before their prefixes.
var operators = []string{"||", "&&", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")"}

// next scans the next token.
func (p *parser) next() {
	if p.err != nil {
		return
	}
	for p.pos < len(p.text) && unicode.IsSpace(rune(p.text[p.pos])) {
		p.pos++
	}
	p.at = p.pos
	rest := p.text[p.pos:]
	if rest == "" {
		p.kind, p.tok = tokEnd, ""
		return
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			p.kind, p.tok = tokOp, op
			p.pos += len(op)
			return
		}
	}
	if rest[0] == '"' {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			p.fail("missing closing quote")
			return
		}
		p.tok, _ = strconv.Unquote(quoted)
		p.kind = tokQuoted
		p.pos += len(quoted)
		return
	}
	if rest[0] == '\'' { // no escapes, as in a shell
		text, _, closed := strings.Cut(rest[1:], "'")
		if !closed {
			p.fail("missing closing quote")
			return
		}
		p.kind, p.tok = tokQuoted, text
		p.pos += len(text) + 2
		return
	}
	end := strings.IndexAny(rest, " \t\n\r()!=<>&|\"'")
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		p.fail("unexpected %q, want ==, !=, <, <=, >, >=, &&, || or !", rest[:1])
		return
	}
	p.kind, p.tok = tokWord, rest[:end]
	p.pos += end
}

func (p *parser) or() Expr {
	e := p.and()
	for p.kind == tokOp && p.tok == "||" {
		p.next()
		a, b := e, p.and()
		e = func(at Lookup) bool { return a(at) || b(at) }
	}
	return e
}

func (p *parser) and() Expr {
	e := p.not()
	for p.kind == tokOp && p.tok == "&&" {
		p.next()
		a, b := e, p.not()
		e = func(at Lookup) bool { return a(at) && b(at) }
	}
	return e
}

// not parses a negation, a parenthesis or a test.
func (p *parser) not() Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.kind == tokOp && p.tok == "!":
		p.next()
		e := p.not()
		return func(at Lookup) bool { return !e(at) }
	case p.kind == tokOp && p.tok == "(":
		p.next()
		e := p.or()
		if p.kind != tokOp || p.tok != ")" {
			p.fail("missing closing parenthesis")
		}
		p.next()
		return e
	case p.kind == tokWord || p.kind == tokQuoted:
		return p.test()
	}
	p.fail("want a name, have %q", p.tok)
	return func(Lookup) bool { return false }
}

// test parses a comparison, or a name alone. It resolves names and parses values while it compiles
// the expression, so that mistakes are reported before anything runs.
func (p *parser) test() Expr {
	name := p.tok
	kind, known := p.names[name]
	if !known {
		p.fail("%v", suggest.Unknown("name", name, slices.Collect(maps.Keys(p.names))))
	}
	p.used = append(p.used, name)
	p.next()
	if p.kind != tokOp || !strings.ContainsAny(p.tok[:1], "=!<>") || p.tok == "!" {
		return func(at Lookup) bool {
			v := at(name)
			return v.Has && !v.Unset && truthy(v.Point)
		}
	}
	op := p.tok
	p.next()
	if p.kind != tokWord && p.kind != tokQuoted {
		p.fail("want a value after %s %s", name, op)
		return nil
	}
	unset := p.kind == tokWord && p.tok == "unset"
	want, err := point.Parse(kind, p.tok)
	if err != nil && !unset {
		p.fail("%s: %v", name, err)
	}
	p.next()
	return func(at Lookup) bool {
		v := at(name)
		if !v.Has {
			return false
		}
		if unset || v.Unset {
			return (op == "==" && unset == v.Unset) || (op == "!=" && unset != v.Unset)
		}
		return compareOp(op, v.Point, want)
	}
}

// truthy reports whether a name that stands alone holds: its value is a number other than 0, or a
// text other than "", "0" and "false".
func truthy(v point.Value) bool {
	switch {
	case v.Kind() == point.Bool:
		return v.Bool()
	case v.Kind().Numeric():
		return v.Float() != 0
	}
	return v.String() != "" && v.String() != "0" && v.String() != "false"
}

// compareOp compares values of one kind. Two texts that are both numbers, as environment values often
// are, are ordered as numbers.
func compareOp(op string, a, b point.Value) bool {
	switch op {
	case "==":
		return a == b
	case "!=":
		return a != b
	}
	if x, err := strconv.ParseFloat(a.String(), 64); err == nil {
		if y, err := strconv.ParseFloat(b.String(), 64); err == nil {
			a, b = point.FloatValue(x), point.FloatValue(y)
		}
	}
	switch op {
	case "<":
		return a.Less(b)
	case "<=":
		return !b.Less(a)
	case ">":
		return b.Less(a)
	default:
		return !a.Less(b)
	}
}

// Select returns the rows for which all expressions hold. Expressions may use every coordinate and every metric. A
// coordinate hides a metric of the same name.
func (s Set) Select(exprs ...string) (Set, error) { return SelectKnown(nil, s, exprs...) }

// SelectKnown is like Set.Select, for expressions with names that h declares, although no row may have them.
func SelectKnown(h *journal.Header, s Set, exprs ...string) (Set, error) {
	if len(exprs) == 0 {
		return s, nil
	}
	names := s.names(h)
	kinds := Scope{}
	for name, n := range names {
		kinds[name] = n.kind
	}
	tests, err := CompileAll(exprs, kinds)
	if err != nil {
		return nil, err
	}
	return s.Where(func(r *journal.Row) bool {
		return AllHold(tests, func(name string) Value { return names[name].of(r) })
	}), nil
}

// named is a coordinate or a metric that expressions may use.
type named struct {
	kind point.Kind
	of   func(*journal.Row) Value
}

// names returns what expressions may name.
func (s Set) names(h *journal.Header) map[string]named {
	out := map[string]named{}
	metric := func(name string) named {
		return named{point.Float, func(r *journal.Row) Value {
			v, has := r.Metrics[name]
			return typed(point.FloatValue(v), has)
		}}
	}
	if h != nil {
		for _, m := range h.Metrics {
			out[m.Name] = metric(m.Name)
		}
	}
	for _, r := range s {
		for name := range r.Metrics {
			if _, known := out[name]; !known {
				out[name] = metric(name)
			}
		}
	}
	for _, c := range s.Coords(h) {
		n := named{point.String, c.Of}
		if c.Is(NumRanks, Trial, Sharing) {
			n.kind = point.Int
		}
		if c.Class == Axis || c.Class == Option {
			if r, found := lists.First(s, func(r *journal.Row) bool { return c.Of(r).Has }); found {
				n.kind = c.Of(r).Point.Kind()
			}
		}
		out[c.Name] = n
	}
	return out
}

// nameOrQuoted matches a name or a quoted value. Quoted values are matched so that the words in them
// are not taken for names.
var nameOrQuoted = regexp.MustCompile(`"[^"]*"|'[^']*'|[A-Za-z_][A-Za-z0-9_.]*`)

// NoMatch returns the error for expressions that no row satisfies. It lists the values of the names in the
// expressions.
func (s Set) NoMatch(exprs []string) error {
	names := s.names(nil)
	used := lists.Distinct(nameOrQuoted.FindAllString(strings.Join(exprs, " "), -1))
	used = lists.Filter(used, func(name string) bool { return names[name].of != nil })
	if len(used) == 0 {
		used = slices.Sorted(maps.Keys(names))
	}
	const maxListed = 12
	var available []string
	for _, name := range used {
		var list []point.Value
		for _, v := range Ordered(lists.Map(s, names[name].of)) {
			if v.Has && !v.Unset {
				list = append(list, v.Point)
			}
		}
		if len(list) == 0 {
			continue
		}
		text := name + "=" + point.FormatSpec(list[:min(len(list), maxListed)])
		if len(list) > maxListed {
			text += fmt.Sprintf(" and %d more", len(list)-maxListed)
		}
		available = append(available, text)
	}
	flags := lists.Map(exprs, func(o string) string { return fmt.Sprintf("--only %q", o) })
	return fmt.Errorf("no row matches %s (stored: %s)", strings.Join(flags, " "), strings.Join(available, "; "))
}
