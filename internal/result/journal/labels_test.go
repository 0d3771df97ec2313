package journal

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseTags(t *testing.T) {
	many := strings.Split(strings.Repeat("a ", maxTags+1), " ")[:maxTags+1]
	for i := range many {
		many[i] += strings.Repeat("b", i)
	}
	for _, tt := range []struct {
		tags []string
		want string // the tags, or "error: " and a part of the error
	}{
		{nil, ""},
		{[]string{"nightly", "h200", "nightly"}, "nightly h200"},
		{[]string{"pr/12", "v1.2", "ünï", "gpu:0=a+b@c"}, "pr/12 v1.2 ünï gpu:0=a+b@c"},
		{[]string{strings.Repeat("ü", maxTag)}, strings.Repeat("ü", maxTag)},
		{[]string{strings.Repeat("ü", maxTag+1)}, "error: has 41 characters: want at most 40"},
		{[]string{""}, "error: an empty tag"},
		{[]string{"two words"}, `error: contains ' '`},
		{[]string{"a,b"}, `error: contains ','`},
		{[]string{"a\x1b[1m"}, `error: contains '\x1b'`},
		{[]string{"a\xff"}, "error: contains"},
		{[]string{"<b>"}, `error: contains '<'`},
		{[]string{"-x"}, "error: begins with a hyphen"},
		{many, "error: 17 tags: a run has at most 16"},
	} {
		tags, err := ParseTags(tt.tags)
		if want, bad := strings.CutPrefix(tt.want, "error: "); bad != (err != nil) ||
			bad && !strings.Contains(err.Error(), want) || !bad && strings.Join(tags, " ") != want {
			t.Errorf("%q: %q, %v; want %s", tt.tags, tags, err, tt.want)
		}
	}
	for text, good := range map[string]bool{"": true, "ok <b>": true, "a\nb": false, "\x1b": false, "\xff": false,
		strings.Repeat("ü", maxNote): true, strings.Repeat("ü", maxNote+1): false} {
		if err := CheckNote(text); (err == nil) != good {
			t.Errorf("note %.20q: %v", text, err)
		}
	}
}

// TestLabels checks which tags and notes a run has after it was resumed and labelled again, and that
// unsuitable tags of a foreign journal are left out.
func TestLabels(t *testing.T) {
	at := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	first := Header{Run: "r", Time: at, Tags: []string{"a", "two words", "a"}, Note: "first"}
	other := Header{Run: "s", Time: at, Tags: []string{"a"}}
	label := Label{Run: "r", Tags: []string{"b"}, Time: at}
	resumed := Header{Run: "r", Time: at, Tags: []string{"c", "b"}, Resumed: true}
	for _, tt := range []struct {
		records []any
		tags    []string
		note    string
		tagged  string // the latest run with the tag "a"
	}{
		{[]any{first}, []string{"a"}, "first", "r"},
		{[]any{first, other}, []string{"a"}, "first", "s"},
		{[]any{first, label}, []string{"b"}, "", ""},
		{[]any{first, label, resumed}, []string{"b", "c"}, "", ""},
		{[]any{first, Header{Run: "r", Time: at, Note: "second"}}, []string{"a"}, "second", "r"},
		{[]any{first, Label{Run: "r", Time: at}}, nil, "", ""},
	} {
		j := parseBytes(t, encodeAll(t, tt.records...))
		h := j.Runs[0].Header
		if !slices.Equal(h.Tags, tt.tags) || h.Note != tt.note || len(j.Runs[0].Notes) > 0 {
			t.Errorf("%v: %q, %q", tt.records, h.Tags, h.Note)
		}
		if r, err := j.Find("a"); tt.tagged == "" && err == nil || tt.tagged != "" && (err != nil || r.ID() != tt.tagged) {
			t.Errorf("%v: @a is %v, %v", tt.records, r, err)
		}
	}
}
