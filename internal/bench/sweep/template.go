package sweep

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// Substitute replaces the placeholders in arguments by the values of a point:
//
//	{size}       the value of the axis size; byte sizes as plain integers
//	{shape.0}    one number of a tuple, counted from 0
//	{num_ranks}  the number of ranks of the launch
//	{{ and }}    literal braces
//
// ranks is nil for a program that starts its own ranks.
func Substitute(argv []string, p point.Point, ranks *int) ([]string, error) {
	out := make([]string, len(argv))
	for i, arg := range argv {
		pieces, fault := parseTemplate(arg)
		if fault != nil {
			return nil, fmt.Errorf("argument %q: %s", arg, fault.msg)
		}
		var b strings.Builder
		for _, piece := range pieces {
			text, err := piece.expand(p, ranks)
			if err != nil {
				return nil, fmt.Errorf("argument %q: %w", arg, err)
			}
			b.WriteString(text)
		}
		out[i] = b.String()
	}
	return out, nil
}

// literalArg returns the text of an argument, and whether it is constant: free of placeholders.
func literalArg(arg string) (text string, constant bool) {
	pieces, fault := parseTemplate(arg)
	if fault != nil {
		return "", false
	}
	for _, p := range pieces {
		if !p.literal {
			return "", false
		}
		text += p.text
	}
	return text, true
}

// piece is literal text or a placeholder.
type piece struct {
	text    string // literal text, or the text between the braces
	literal bool
	offset  int // position in the argument, in characters
}

// templateFault is a misplaced brace.
type templateFault struct {
	offset int
	msg    string
}

// templateToken matches a doubled brace, a placeholder, a misplaced brace or text.
var templateToken = regexp.MustCompile(`\{\{|\}\}|\{[^{}]*\}|[{}]|[^{}]+`)

// parseTemplate splits an argument into literal texts and placeholders. Doubled braces stand for
// themselves.
func parseTemplate(arg string) (pieces []piece, fault *templateFault) {
	for _, at := range templateToken.FindAllStringIndex(arg, -1) {
		token, offset := arg[at[0]:at[1]], utf8.RuneCountInString(arg[:at[0]])
		p := piece{text: token, literal: true}
		switch {
		case token == "}":
			return nil, &templateFault{offset, "a } without its {: a literal brace is written }}"}
		case token == "{":
			return nil, &templateFault{offset, "a { without its }: a literal brace is written {{"}
		case token == "{{", token == "}}":
			p.text = token[:1]
		case token[0] == '{':
			p = piece{text: token[1 : len(token)-1], offset: offset}
		}
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// component splits shape.0 into the axis and the index of the component.
func component(name string) (axis string, index int, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", 0, false
	}
	index, err := strconv.Atoi(name[i+1:])
	return name[:i], index, err == nil && index >= 0
}

func (p piece) expand(at point.Point, ranks *int) (string, error) {
	if p.literal {
		return p.text, nil
	}
	if p.text == bench.RanksAxis {
		if ranks == nil {
			return "", fmt.Errorf("{%s} is not known: the program starts its own ranks", p.text)
		}
		return strconv.Itoa(*ranks), nil
	}
	// Try the whole name first, because an axis name may contain a dot.
	if v, ok := at.Get(p.text); ok {
		return v.String(), nil
	}
	if axis, index, ok := component(p.text); ok {
		if v, ok := at.Get(axis); ok {
			return tupleComponent(v, axis, index)
		}
	}
	return "", suggest.Unknown("axis", p.text, lists.Map(at, func(c point.Coord) string { return c.Name }))
}

// check returns the axis that a placeholder names, or an error if the placeholder cannot be
// replaced at every point of the sweep.
func (p piece) check(part *decl.Part) (axis string, err error) {
	if _, whole := part.Axis(p.text); whole {
		return p.text, nil
	}
	if p.text == bench.RanksAxis {
		return "", fmt.Errorf("{%s} needs the key \"ranks\": without it the program starts its own", p.text)
	}
	name, index, ok := component(p.text)
	if a, known := part.Axis(name); ok && known {
		for _, v := range a.Values {
			if _, err := tupleComponent(v, name, index); err != nil {
				return name, err
			}
		}
		return name, nil
	}
	if !point.ValidName(p.text) {
		return "", fmt.Errorf("{%s} is not a placeholder: literal braces are written {{ and }}", p.text)
	}
	return "", suggest.Unknown("axis", p.text, lists.Map(part.Axes, func(a decl.Axis) string { return a.Name }))
}

func tupleComponent(v point.Value, axis string, index int) (string, error) {
	if v.Kind() != point.Tuple {
		return "", fmt.Errorf("{%s.%d}: only an axis of type tuple has components", axis, index)
	}
	dims := v.Dims()
	if index >= len(dims) {
		return "", fmt.Errorf("{%s.%d}: %v has components 0 to %d", axis, index, v, len(dims)-1)
	}
	return strconv.FormatInt(dims[index], 10), nil
}
