package point

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// maxTerms is the largest number of values in a SPEC. A typo such as 0:1G:+1 is then an error
// instead of filling the memory.
const maxTerms = 100_000

// SpecError is an error in a SPEC and its position.
type SpecError struct {
	Spec   string
	Column int // byte position of the wrong item, from 1
	Msg    string
}

func (e *SpecError) Error() string {
	quoted := strconv.Quote(e.Spec)
	switch {
	case strings.Contains(e.Msg, quoted): // the message quotes the only item
		return e.Msg
	case e.Column == 1:
		return quoted + ": " + e.Msg
	}
	return fmt.Sprintf("%s, column %d: %s", quoted, e.Column, e.Msg)
}

// ParseSpec reads a list of values of one kind:
//
//	1,2,8         a list
//	1K:64M:x4     a geometric range: 1K, 4K, ... up to the last term <= 64M
//	0:64:+8       a linear range: 0, 8, ... 64
//	pow2:8:13     the powers of two 2^8 to 2^13
//	"a,b",c       values may be double-quoted, with the escapes \" and \\
//
// Lists and ranges may be mixed. Only numeric kinds have ranges.
func ParseSpec(kind Kind, spec string) ([]Value, error) {
	items, err := splitSpec(spec)
	if err != nil {
		return nil, err
	}
	var out []Value
	for _, it := range items {
		vals, err := parseItem(kind, it)
		if err != nil {
			return nil, &SpecError{spec, it.column, err.Error()}
		}
		out = append(out, vals...)
		if len(out) > maxTerms {
			return nil, &SpecError{spec, it.column, fmt.Sprintf("more than %d values", maxTerms)}
		}
	}
	return out, nil
}

// ParseEnvSpec reads a list of values for an environment variable. Values are kept exactly as
// written. A bare - means unset; a quoted "-" is a value.
func ParseEnvSpec(name, spec string) ([]EnvVar, error) {
	items, err := splitSpec(spec)
	if err != nil {
		return nil, err
	}
	out := make([]EnvVar, len(items))
	for i, it := range items {
		out[i] = EnvVar{Name: name, Value: it.text, Set: true}
		if it.text == "-" && !it.quoted {
			out[i] = EnvVar{Name: name}
		}
		if strings.ContainsRune(it.text, 0) {
			return nil, &SpecError{spec, it.column, "an environment value cannot hold a NUL byte"}
		}
	}
	return out, nil
}

// FormatSpec is the inverse of ParseSpec. Sizes are written as people type them: 64Ki.
func FormatSpec(values []Value) string {
	return strings.Join(lists.Map(values, func(v Value) string { return quoteSpec(v.Pretty(), v.kind) }), ",")
}

func quoteSpec(s string, kind Kind) string {
	if kind == String || kind == Tuple {
		if s == "" || s != strings.TrimSpace(s) || strings.ContainsAny(s, ",\"\\") {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
		}
	}
	return s
}

type specItem struct {
	text   string
	quoted bool
	column int
}

// splitSpec splits a SPEC at the commas outside of double quotes.
func splitSpec(spec string) ([]specItem, error) {
	var items []specItem
	for i := 0; ; {
		i = skipBlanks(spec, i)
		it := specItem{column: i + 1}
		if i < len(spec) && spec[i] == '"' {
			it.quoted = true
			var b strings.Builder
			for i++; ; i++ {
				if i >= len(spec) {
					return nil, &SpecError{spec, it.column, "the quote is never closed"}
				}
				if spec[i] == '\\' && i+1 < len(spec) && (spec[i+1] == '"' || spec[i+1] == '\\') {
					i++
				} else if spec[i] == '"' {
					i++
					break
				}
				b.WriteByte(spec[i])
			}
			it.text = b.String()
			if i = skipBlanks(spec, i); i < len(spec) && spec[i] != ',' {
				return nil, &SpecError{spec, i + 1, "want a comma after the closing quote"}
			}
		} else {
			end := strings.IndexByte(spec[i:], ',')
			if end < 0 {
				end = len(spec) - i
			}
			it.text = strings.TrimRight(spec[i:i+end], " \t")
			i += end
			if it.text == "" {
				return nil, &SpecError{spec, it.column, `a value is missing (an empty text is written "")`}
			}
		}
		items = append(items, it)
		if i >= len(spec) {
			return items, nil
		}
		i++ // the comma
	}
}

func skipBlanks(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

// parseItem reads a value or a range.
func parseItem(kind Kind, it specItem) ([]Value, error) {
	if it.quoted || !kind.Numeric() || !strings.Contains(it.text, ":") {
		v, err := Parse(kind, it.text)
		if err != nil {
			return nil, err
		}
		return []Value{v}, nil
	}
	parts := strings.Split(it.text, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("a range is START:END:xFACTOR, START:END:+STEP or pow2:LO:HI")
	}
	if parts[0] == "pow2" {
		return powersOfTwo(kind, parts[1], parts[2])
	}
	lo, err := Parse(kind, parts[0])
	if err != nil {
		return nil, err
	}
	hi, err := Parse(kind, parts[1])
	if err != nil {
		return nil, err
	}
	if hi.Less(lo) {
		return nil, fmt.Errorf("the range %s ends before it starts", it.text)
	}
	switch {
	case strings.HasPrefix(parts[2], "x"):
		return geometric(kind, lo, hi, parts[2][1:])
	case strings.HasPrefix(parts[2], "+"):
		return linear(kind, lo, hi, parts[2][1:])
	}
	return nil, fmt.Errorf("the step of a range starts with x (times) or + (plus), not %q", parts[2])
}

func powersOfTwo(kind Kind, lo, hi string) ([]Value, error) {
	a, errA := strconv.Atoi(lo)
	b, errB := strconv.Atoi(hi)
	if errA != nil || errB != nil || a < 0 || b > 62 || a > b {
		return nil, fmt.Errorf("pow2:LO:HI wants exponents 0 <= LO <= HI <= 62, have %s and %s", lo, hi)
	}
	var out []Value
	for e := a; e <= b; e++ {
		out = append(out, numeric(kind, int64(1)<<e, math.Ldexp(1, e)))
	}
	return out, nil
}

// geometric returns the terms of START:END:xFACTOR. The last term is at most the end.
func geometric(kind Kind, lo, hi Value, factor string) ([]Value, error) {
	if kind == Float {
		k, err := strconv.ParseFloat(factor, 64)
		if err != nil || !(k > 1) || math.IsInf(k, 0) || lo.f <= 0 {
			return nil, fmt.Errorf("a geometric range needs a factor above 1 and a start above 0")
		}
		var out []Value
		for f := lo.f; f <= hi.f*(1+1e-12); f *= k {
			if len(out) == maxTerms {
				return nil, fmt.Errorf("more than %d values", maxTerms)
			}
			out = append(out, FloatValue(f))
		}
		return out, nil
	}
	k, err := strconv.ParseInt(factor, 10, 64)
	if err != nil || k < 2 || lo.n <= 0 {
		return nil, fmt.Errorf("a geometric range needs a whole factor of at least 2 and a start above 0")
	}
	var out []Value
	for n := lo.n; ; n *= k {
		out = append(out, numeric(kind, n, 0))
		if n > hi.n/k {
			return out, nil
		}
	}
}

// linear returns the terms of START:END:+STEP. The last term is at most the end.
func linear(kind Kind, lo, hi Value, stepText string) ([]Value, error) {
	step, err := Parse(kind, stepText)
	if err != nil {
		return nil, err
	}
	if step.Float() <= 0 {
		return nil, fmt.Errorf("a linear range needs a step above 0")
	}
	// Compute each term from its index: repeated addition of floats would drift past the end.
	terms := math.Floor((hi.Float()-lo.Float())/step.Float()*(1+1e-12)) + 1
	if kind != Float {
		terms = math.Floor(float64(uint64(hi.n)-uint64(lo.n))/float64(step.n)) + 1
	}
	if terms > maxTerms {
		return nil, fmt.Errorf("more than %d values", maxTerms)
	}
	var out []Value
	for i := range int64(terms) {
		n := lo.n + i*step.n
		if kind != Float && n > hi.n {
			break
		}
		out = append(out, numeric(kind, n, lo.f+float64(i)*step.f))
	}
	return out, nil
}

// numeric returns a value of a numeric kind from n, or from f for Float.
func numeric(kind Kind, n int64, f float64) Value {
	switch kind {
	case Bytes:
		return BytesValue(n)
	case Float:
		return FloatValue(f)
	}
	return IntValue(n)
}
