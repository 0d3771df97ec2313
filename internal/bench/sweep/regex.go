package sweep

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// regex is a metric source that takes a number from every match of a regular expression.
type regex struct {
	re    *regexp.Regexp
	text  string
	group int // the group that holds the number
	// unit is the unit of the metric, "" if it has none. A number that is followed by another unit is
	// an error, or is converted if auto is set.
	unit string
	auto bool
	// declared means that the sweep file states the unit. Otherwise it comes from the metric's name, and a label before
	// the number must not contradict it.
	declared bool
}

// newRegex compiles an expression that has one group, or one group named value. ^ and $ match at
// every line.
func newRegex(text string) (single, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	re := regexp.MustCompile("(?m)" + text)
	if i := re.SubexpIndex("value"); i > 0 {
		return &regex{re: re, text: text, group: i}, nil
	}
	if n := re.NumSubexp(); n != 1 {
		return nil, fmt.Errorf("the expression has %s: want one, or one named (?P<value>...), around the number",
			unit.Plural(n, "group"))
	}
	return &regex{re: re, text: text, group: 1}, nil
}

func (x regex) String() string { return "the expression " + x.text }

func (x regex) samples(text []byte, _ decl.RankOutput) ([]float64, error) {
	var samples []float64
	for _, at := range x.re.FindAllSubmatchIndex(text, -1) {
		from, to := at[2*x.group], at[2*x.group+1]
		if from < 0 {
			continue // the group belongs to an alternative that did not match
		}
		f, err := number(string(text[from:to]))
		if err != nil {
			return nil, fmt.Errorf("%v in %q", err, clip(string(text[at[0]:at[1]])))
		}
		factor, err := x.checkAround(text, at[0], from, to, at[1])
		if err != nil {
			return nil, fmt.Errorf("%w, in the line %q", err, clip(lineAround(text, from)))
		}
		samples = append(samples, f*factor)
	}
	return samples, nil
}

var (
	// moreOfNumber matches after the part of a number: 1,234 or 1_234 or 1.5e3 or 12.5 or 1:30 or 1m30s.
	moreOfNumber = regexp.MustCompile(`^(?:[0-9]|[` + groups + `][0-9]|[eE][+-]?[0-9]|:[0-9]{2}|` +
		`h ?[0-9]+m|m ?[0-9.]+s)`)
	// lessOfNumber matches before the rest of a number: the 1, of 1,234, the 2e+ of 2e+03, the - of -5, the . of .5.
	lessOfNumber = regexp.MustCompile(`(?:[0-9][` + groups + `]?|[0-9.][eE][+-]?|(?:^|[\s=:,(\[])(?:[-−]|[+-]?\.))$`)
	// hexadecimal matches after the 0 of 0x1F.
	hexadecimal = regexp.MustCompile(`^[xX][0-9a-fA-F]`)
	// magnitude matches a letter that multiplies the number before it, as in 12.5k.
	magnitude = regexp.MustCompile(`^[kKMGTP]i?(?:[^A-Za-z0-9_=:(]|$)`)
	// unitAfter matches a unit behind a number: us, GB/s, %, (ms). A name, as in "time=5 min=3", is none.
	unitAfter = regexp.MustCompile(`^([ \t]*[(\[]?)([A-Za-zµμ]+(?:/[A-Za-z]+)?|%)(?:[^A-Za-z0-9_=:(]|$)`)
	// timeAfter matches a unit of time that touches the number, whatever follows: 5ms(mean), 5ms_total, 5ms: done.
	timeAfter = regexp.MustCompile(`^()([numµμ]?s)(?:[^A-Za-z0-9]|$)`)
	// timeApart matches a unit of time behind a blank and before a colon or a bracket: 5 ms: done, 5 ms(mean).
	timeApart = regexp.MustCompile(`^([ \t]+)([numµμ]s(?:ecs?)?)[:(]`)
	// timePer matches the time of a rate's inverse, as in ms/iter and s/GB.
	timePer = regexp.MustCompile(`^([A-Za-zµμ]+)/[A-Za-z]+$`)
)

// groups are the characters between the digits of a number. A blank is none: it also separates two numbers.
const groups = ",.'_’\u00A0\u2009\u202F"

// lessBytes is the greatest length of a match of lessOfNumber.
const lessBytes = 4

// checkAround checks the text around a number, which starts at from and ends at to; the whole match
// starts at start and ends at end. It returns the factor that converts the number to the metric's unit.
func (x regex) checkAround(text []byte, start, from, to, end int) (factor float64, err error) {
	value := clip(string(text[from:to]))
	if start > 0 && wordByte(text[start-1]) && wordByte(text[start]) && start < from {
		return 0, fmt.Errorf("the expression %s matches inside the longer word %q: begin it with \\b for whole words, or "+
			"with \\w* to allow this", x.text, clip(wordAround(text, start)))
	}
	more := moreOfNumber.Find(text[to:])
	if more == nil && value == "0" {
		more = hexadecimal.Find(text[to:])
	}
	if more != nil {
		return 0, fmt.Errorf("the number goes on after %q, with %q: the group must match all of it", value, more)
	}
	if lessOfNumber.Match(text[max(0, from-lessBytes):from]) {
		return 0, fmt.Errorf("the number begins before %q: the group must match all of it", value)
	}
	found, spaced := "", false
	for _, after := range []*regexp.Regexp{timeAfter, unitAfter} {
		if m := after.FindSubmatch(text[to:]); m != nil {
			found, spaced = string(m[2]), len(m[1]) > 0
		}
	}
	if m := timeApart.FindSubmatch(text[to:]); m != nil && x.isTime() && !timeBefore(text[:from]) {
		found, spaced = string(m[2]), true
	}
	dimension, known := unit.Known(found)
	if per := timePer.FindStringSubmatch(found); per != nil && !known && found != x.unit {
		if above, _ := unit.Known(per[1]); above == "time" {
			found, dimension, known = per[1], above, true
		}
	}
	if end == to && found != x.unit && !known && magnitude.Match(text[to:]) {
		return 0, fmt.Errorf("%q is followed by %s, which would be lost: print the whole number, or put %s into the "+
			"expression", value, found, found)
	}
	switch {
	case x.auto && !known:
		return 0, fmt.Errorf("no known unit follows %q, as unit: auto requires", value)
	case !known:
		return 1, x.checkLabel(text[:from], value)
	}
	// A word behind a blank may happen to be a unit.
	word := spaced && found != "%" && !strings.Contains(dimension, "/")
	if x.unit == "" {
		if end > to || word && (dimension != "time" || len(found) == 1 || found == "min" || found == "second") {
			return 1, nil
		}
		return 0, fmt.Errorf("%q is in %s, but the metric has no unit: declare unit: %s, or put %s into the "+
			"expression", value, found, found, found)
	}
	factor, ok := unit.Conversion(found, x.unit)
	switch {
	case !ok && word && !x.auto:
		return 1, nil
	case !ok:
		return 0, fmt.Errorf("%q is in %s, which cannot be converted to the declared unit %s", value, found, x.unit)
	case !x.auto && factor != 1:
		return 0, fmt.Errorf("%q is in %s, but the declared unit is %s: declare unit: auto to convert it", value, found,
			x.unit)
	}
	return factor, nil
}

// isTime reports whether the metric is a time.
func (x regex) isTime() bool {
	dimension, _ := unit.Known(x.unit)
	return dimension == "time"
}

// timeBefore reports whether the text before a number states a unit of time on its line. The one behind the number may
// then belong to the next: "us: 5 ms: 0.005".
func timeBefore(before []byte) bool {
	named, _ := unit.TimeIn(string(lineBefore(before)))
	return named != ""
}

// labelBytes is how far before a number its label is looked for. A line may have thousands of numbers, so looking at
// all that precedes each of them would take minutes.
const labelBytes = 200

// lineBefore returns the last whole words of a text that are on its last line.
func lineBefore(before []byte) []byte {
	if cut := len(before) - labelBytes; cut > 0 {
		inWord := wordByte(before[cut-1])
		before = before[cut:]
		for inWord && len(before) > 0 && wordByte(before[0]) { // the end of tokens is no unit
			before = before[1:]
		}
	}
	return before[bytes.LastIndexByte(before, '\n')+1:]
}

// checkLabel checks the text before a number that no known unit follows. It may state a unit of time: time_ms=5.
func (x regex) checkLabel(before []byte, value string) error {
	label := strings.TrimRight(string(lineBefore(before)), " \t=:)]}\"'")
	named, last := unit.TimeIn(label)
	if factor, same := unit.Conversion(named, x.unit); last && same && factor != 1 && !x.declared {
		return fmt.Errorf("the label before %q says %s, but the metric is in %s: name the metric after its unit, or declare "+
			"unit: %s", value, named, x.unit, x.unit)
	}
	return nil
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// wordAround returns the word that contains the byte at an index.
func wordAround(text []byte, at int) string {
	from, to := at, at
	for from > 0 && wordByte(text[from-1]) {
		from--
	}
	for to < len(text) && wordByte(text[to]) {
		to++
	}
	return string(text[from:to])
}

// lineAround returns the line that contains the byte at an index.
func lineAround(text []byte, at int) string {
	from := bytes.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := bytes.Cut(text[from:], []byte("\n"))
	return strings.TrimSpace(string(line))
}
