package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// The values of a line's "type" field.
const (
	typeRun   = "run"
	typeBegin = "begin"
	typeRow   = "row"
	typeNote  = "note"
	typeLabel = "label"
	typeEnd   = "end"
)

// entry is a record ready to be appended.
type entry struct {
	what string // describes the record in errors
	run  string
	line []byte // without chain and checksum; ends in a newline
	// chained means that the line has the checksum of the run's previous row.
	chained bool
	sync    bool // the record must survive a power failure
}

// encode validates a record and returns its line. Required maps and lists are written as empty ones
// rather than as null. Times are in UTC, so that they sort as text.
func encode(rec any) (entry, error) {
	var typ, run string
	e := entry{sync: true}
	var err error
	switch r := rec.(type) {
	case Header:
		typ, run, e.what = typeRun, r.Run, "the header of run "+r.Run
		r.Schema, r.Time = Schema, r.Time.UTC()
		r.Argv, r.Axes, r.Metrics = nonNil(r.Argv), nonNil(r.Axes), nonNil(r.Metrics)
		r.Environ = nonNilMap(r.Environ)
		rec = r
	case Begin:
		typ, run, e.what = typeBegin, r.Run, fmt.Sprintf("the begin of %s trial %d", r.Key, r.Trial)
		// A begin record distinguishes a point that was never reached from one that killed the run.
		// It only has to survive the process, and the page cache does, so it is not synced. A sync
		// would disturb the measurement that is about to start.
		e.sync = false
		r.Time = r.Time.UTC()
		err = needKey(r.Key)
		rec = r
	case Row:
		typ, run, e.what = typeRow, r.Run, describeRow(r)
		r.Schema, r.Time = Schema, r.Time.UTC()
		r.Metrics, r.Units = nonNilMap(r.Metrics), nonNilMap(r.Units)
		r.Reason = clip(r.Reason)
		r.Output = clip(r.Output)
		r.Conditions = lists.Map(r.Conditions, func(c Condition) Condition { c.Text = clip(c.Text); return c })
		err = needKey(r.Key)
		rec = r
	case Note:
		typ, run, e.what = typeNote, r.Run, fmt.Sprintf("the note %.60q", r.Text)
		r.Time = r.Time.UTC()
		rec = r
	case Label:
		typ, run, e.what = typeLabel, r.Run, "the tags of run "+r.Run
		r.Time, r.Tags = r.Time.UTC(), nonNil(r.Tags)
		rec = r
	case End:
		typ, run, e.what = typeEnd, r.Run, "the end of run "+r.Run
		r.Time, r.Counts = r.Time.UTC(), nonNilMap(r.Counts)
		rec = r
	default:
		return e, fmt.Errorf("recording a %T: want a Header, Begin, Row, Note, Label or End", rec)
	}
	if run == "" {
		err = errors.Join(errors.New("it has no run id"), err)
	}
	e.run, e.chained = run, typ == typeRow || typ == typeEnd
	if err == nil {
		e.line, err = marshalLine(typ, rec)
	}
	if err != nil {
		return e, fmt.Errorf("recording %s: %w", e.what, err)
	}
	return e, nil
}

// marshalLine returns the record as JSON with its type as the first member.
func marshalLine(typ string, rec any) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":%q,`, typ)
	start := b.Len()
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // keep < and & readable; no browser reads this file
	if err := enc.Encode(rec); err != nil {
		return nil, err
	}
	line := slices.Delete(b.Bytes(), start, start+1) // the opening brace of the record itself
	return line, checkLength(len(line) + chainLen + crcLen)
}

// maxText is the length of the longest text for people in a row, in bytes. Such a text may quote the output of a
// program, and a row of more than maxLine bytes would be lost.
const maxText = 1 << 20

func clip[T ~string](text T) T {
	if len(text) <= maxText {
		return text
	}
	return T(strings.ToValidUTF8(string(text[:maxText]), "")) + "..."
}

// checkLength returns an error for a line that is too long for Read.
func checkLength(bytes int) error {
	if bytes > maxLine {
		return fmt.Errorf("it has %s bytes, and the limit is %s", unit.FormatBytes(int64(bytes)), unit.FormatBytes(maxLine))
	}
	return nil
}

func describeRow(r Row) string {
	parts := lists.NonEmpty("the row of", r.Bench, r.Part, r.Point.String())
	return fmt.Sprintf("%s trial %d", strings.Join(parts, " "), r.Trial)
}

// needKey returns an error for a record without a key.
func needKey(key string) error {
	if key == "" {
		return errors.New("it has no key, so a resumed run could not find it")
	}
	return nil
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func nonNilMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// Clean returns a copy of the row without numbers that JSON cannot represent, with a condition for each. So
// the row is not lost because one metric is NaN. Coordinates are kept, because they identify the row:
// Append returns an error if one of them is not finite.
func (r Row) Clean() Row {
	var found []string
	r.Metrics = dropFrom(r.Metrics, "metric", &found)
	r.Limits = dropFrom(r.Limits, "limit", &found)
	r.Resolution = dropFrom(r.Resolution, "resolution of", &found)
	for name, s := range r.Stats.All() {
		if bad := unwritable(s); bad != "" {
			r.Stats = r.Stats.Without(name)
			found = append(found, "spread of "+name+" has a "+bad)
		}
	}
	dropPart(&r.Skew, "skew is", &found)
	dropPart(&r.Load, "load has a", &found)
	dropPart(&r.Sampling, "sampling has a", &found)
	clean := func(c Condition) Condition {
		c.Values = dropNumbers(c.Values, "a value of the condition "+string(c.Code)+",", &found)
		return c
	}
	r.Conditions = lists.Map(r.Conditions, clean)
	r.Measurements = lists.Map(r.Measurements, func(m Measurement) Measurement {
		m.Conditions, m.Metrics = lists.Map(m.Conditions, clean), dropNumbers(m.Metrics, "measured", &found)
		return m
	})
	for _, text := range found {
		r.Conditions.Add(NewCondition(CodeNotFinite, nil, text))
	}
	return r
}

// unwritable returns the text of a number that JSON cannot represent, or "" if v has none.
func unwritable(v any) string {
	_, err := json.Marshal(v)
	if bad, is := errors.AsType[*json.UnsupportedValueError](err); is {
		return bad.Str
	}
	return ""
}

// dropPart removes a part of a row that has a non-finite number and appends its description to found.
func dropPart[T any](part **T, what string, found *[]string) {
	if bad := unwritable(*part); bad != "" {
		*part = nil
		*found = append(*found, what+" "+bad)
	}
}

// dropFrom returns m without non-finite numbers and appends their descriptions to found.
func dropFrom(m map[string]float64, what string, found *[]string) map[string]float64 {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if bad := unwritable(m[name]); bad != "" {
			m = maps.Clone(m)
			delete(m, name)
			*found = append(*found, fmt.Sprintf("%s %s is %s", what, name, bad))
		}
	}
	return m
}

// dropNumbers is dropFrom for Numbers.
func dropNumbers(o Numbers, what string, found *[]string) Numbers {
	for name, v := range o.All() {
		if bad := unwritable(v); bad != "" {
			o = o.Without(name)
			*found = append(*found, fmt.Sprintf("%s %s is %s", what, name, bad))
		}
	}
	return o
}
