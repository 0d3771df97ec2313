package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The language of --only:
//
//	or    = and  { "||" and }
//	and   = not  { "&&" not }
//	not   = "!" not | "(" or ")" | test
//	test  = NAME [ ("=="|"!="|"<"|"<="|">"|">=") VALUE ]
//
// NAME is an axis, an environment variable, an option, num_ranks, backend or part. VALUE is parsed
// by the kind of its name, so size>=1M means bytes. Texts may be in double or single quotes. The bare
// word unset matches a variable that the point removes. A NAME alone tests whether its value is true.
// In parts without the name, the test is false.

// expr is a compiled expression over the values of one point.
type expr func(values map[string]operand) bool

// operand is one named value of a point.
type operand struct {
	value point.Value
	unset bool // an environment variable that the point removes
}

// scope maps the valid names to the kinds of their values.
type scope map[string]point.Kind

// scopeOf returns the names that --only may use in a run of the given parts.
func scopeOf(b *bench.Bench, parts []*decl.Part, options point.Point) scope {
	s := scope{bench.BackendName: point.String, "part": point.String, bench.RanksAxis: point.Int}
	for _, p := range parts {
		for _, a := range p.Axes {
			s[a.Name] = a.Kind
		}
		for _, e := range p.Envs {
			s[e.Name] = point.String
		}
	}
	for _, o := range b.Options {
		s[o.Name] = o.Kind
	}
	return s
}

// values returns the named values of a task. Later assignments take precedence: the swept value of an
// option replaces its single value.
func (p *Plan) values(part *decl.Part, t Task) map[string]operand {
	m := map[string]operand{
		bench.BackendName: {value: point.StringValue(p.Backend)},
		"part":            {value: point.StringValue(part.Name)},
	}
	if t.Ranks > 0 {
		m[bench.RanksAxis] = operand{value: point.IntValue(int64(t.Ranks))}
	}
	for _, c := range p.Options {
		m[c.Name] = operand{value: c.Value}
	}
	for _, c := range t.Point {
		m[c.Name] = operand{value: c.Value}
	}
	for _, e := range t.Env {
		m[e.Name] = operand{value: point.StringValue(e.Value), unset: !e.Set}
	}
	return m
}

func compileAll(texts []string, names scope) ([]expr, error) {
	var out []expr
	for _, t := range texts {
		e, err := compile(t, names)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// all reports whether all expressions hold.
func all(exprs []expr, values map[string]operand) bool {
	return !slices.ContainsFunc(exprs, func(e expr) bool { return !e(values) })
}

func compile(text string, names scope) (expr, error) {
	return (&parser{text: text, names: names}).compile()
}

func (p *parser) compile() (expr, error) {
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
	kinds := scope{}
	for _, name := range names {
		kinds[name] = point.Float
	}
	p := &parser{text: text, names: kinds}
	condition, err := p.compile()
	if err != nil {
		return nil, nil, err
	}
	return func(values map[string]float64) bool {
		operands := map[string]operand{}
		for _, name := range p.used {
			v, has := values[name]
			if !has {
				return false
			}
			operands[name] = operand{value: point.FloatValue(v)}
		}
		return condition(operands)
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
	names scope
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

func (p *parser) or() expr {
	e := p.and()
	for p.kind == tokOp && p.tok == "||" {
		p.next()
		a, b := e, p.and()
		e = func(v map[string]operand) bool { return a(v) || b(v) }
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.kind == tokOp && p.tok == "&&" {
		p.next()
		a, b := e, p.not()
		e = func(v map[string]operand) bool { return a(v) && b(v) }
	}
	return e
}

// not parses a negation, a parenthesis or a test.
func (p *parser) not() expr {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.kind == tokOp && p.tok == "!":
		p.next()
		e := p.not()
		return func(v map[string]operand) bool { return !e(v) }
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
	return func(map[string]operand) bool { return false }
}

// test parses a comparison, or a name alone. It resolves names and parses values while it compiles
// the expression, so that mistakes are reported before anything runs.
func (p *parser) test() expr {
	name := p.tok
	kind, known := p.names[name]
	if !known {
		p.fail("%v", suggest.Unknown("name", name, slices.Collect(maps.Keys(p.names))))
	}
	p.used = append(p.used, name)
	p.next()
	if p.kind != tokOp || !strings.ContainsAny(p.tok[:1], "=!<>") || p.tok == "!" {
		return func(v map[string]operand) bool {
			o, ok := v[name]
			return ok && !o.unset && truthy(o.value)
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
	return func(v map[string]operand) bool {
		o, ok := v[name]
		if !ok {
			return false
		}
		if unset || o.unset {
			return (op == "==" && unset == o.unset) || (op == "!=" && unset != o.unset)
		}
		return compareOp(op, o.value, want)
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

// FilterRows returns the stored rows for which all --only expressions hold. In addition to the
// names that a run knows, expressions may use status, trial, kind and the metrics.
func FilterRows(only []string, rows []journal.Row) ([]journal.Row, error) {
	if len(only) == 0 {
		return rows, nil
	}
	names := scope{"status": point.String, "trial": point.Int, "kind": point.String, bench.BackendName: point.String,
		"part": point.String, bench.RanksAxis: point.Int}
	for i := range rows {
		for name, o := range rowValues(&rows[i]) {
			if _, known := names[name]; !known {
				names[name] = o.value.Kind()
			}
		}
	}
	tests, err := compileAll(only, names)
	if err != nil {
		return nil, err
	}
	return lists.Filter(rows, func(r journal.Row) bool { return all(tests, rowValues(&r)) }), nil
}

// rowValues returns the named values of a row. A coordinate hides a metric of the same name.
func rowValues(r *journal.Row) map[string]operand {
	m := map[string]operand{}
	for name, v := range r.Metrics {
		m[name] = operand{value: point.FloatValue(v)}
	}
	for _, p := range []point.Point{r.Options, r.Point} {
		for _, c := range p {
			m[c.Name] = operand{value: c.Value}
		}
	}
	for _, e := range r.Env {
		m[e.Name] = operand{value: point.StringValue(e.Value), unset: !e.Set}
	}
	if r.NumRanks != nil {
		m[bench.RanksAxis] = operand{value: point.IntValue(int64(*r.NumRanks))}
	}
	for name, text := range map[string]string{bench.BackendName: r.Backend, "part": r.Part, "status": string(r.Status),
		"kind": string(r.Kind)} {
		m[name] = operand{value: point.StringValue(text)}
	}
	m["trial"] = operand{value: point.IntValue(int64(r.Trial))}
	return m
}
