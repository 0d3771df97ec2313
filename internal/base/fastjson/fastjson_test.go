package fastjson

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Low  float64  `json:"low"`
	High *float64 `json:"high,omitempty"`
}

type record struct {
	Name  string             `json:"name"`
	N     int                `json:"n"`
	Good  bool               `json:"good,omitempty"`
	Rank  *int               `json:"rank"`
	Words []string           `json:"words,omitempty"`
	Map   map[string]float64 `json:"map"`
	Texts map[string]string  `json:"texts"`
	Stats map[string]inner   `json:"stats"`
	Time  time.Time          `json:"time"`
	Raw   json.RawMessage    `json:"raw,omitempty"`
	Tree  []record           `json:"tree,omitempty"`
	Few   Object[inner]      `json:"few,omitempty"`

	Shared map[string]string `json:"shared,omitempty" fastjson:"shared"`
}

// agree has both decoders read a text: what this one takes must be the same.
func agree[T any](t *testing.T, text string) (taken bool) {
	t.Helper()
	var got, want T
	if !NewDecoder().Decode([]byte(text), &got) {
		return false
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatalf("%s: taken, but encoding/json says: %v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: -encoding/json +here\n%s", text, diff)
	}
	return true
}

// TestDecode: ordinary text is taken and means what encoding/json says; all else is
// declined.
func TestDecode(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { "name" : "a" , "n" : -12 } `, `{"name":"\u00e9\n\"x\"é\ud800","good":true}`,
		`{"name":null,"n":null,"rank":null,"words":null,"map":null,"time":null}`,
		`{"rank":3,"words":["a","","a"],"map":{"a":1,"b":-0.5e-3,"c":null},"texts":{"a":"b","c":null},"stats":{"t":{"low":1,"high":2},"u":{}}}`,
		`{"words":[],"map":{},"texts":{},"stats":{},"tree":[{"n":1,"tree":[{"name":"x"}]},{}]}`,
		`{"time":"2026-11-16T11:58:36.558498513Z","raw":{"any":[1,"]}",{"x":null}]}}`,
		`{"map":{"a":1,"a":2}}`, `{"n":1,"name":"later","good":true}`, `{"good":true,"n":1}`,
		`{"few":{"a":{"low":1},"b":{"high":2}}}`, `{"few":{}}`, `{"few":null}`, `{"shared":{"a":"b"}}`, `{"shared":null}`,
	} {
		if !agree[record](t, text) {
			t.Errorf("%s: declined", text)
		}
	}
	if !agree[inner](t, `{"low":1e308,"high":0}`) || !agree[struct {
		A inner `json:"a"`
	}](t, `{"a":{"low":2}}`) {
		t.Error("a struct within another is declined")
	}
	for _, text := range []string{
		``, `null`, `[]`, `{`, `{}x`, "{}\x00", `{"name":"a"`, `{"name":"a",}`, `{"name" "a"}`, `{name:"a"}`,
		"{\"name\":\"a\nb\"}", `{"name":"\q"}`,
		`{"n":01}`, `{"n":1.0}`, `{"n":1e2}`, `{"n":+1}`, `{"n":"1"}`, `{"n":99999999999999999999}`, `{"map":{"a":1e999}}`,
		`{"map":{"a":.5}}`, `{"map":{"a":1.}}`, `{"map":{"a":0x1}}`,
		`{"map":{"a":NaN}}`, `{"good":1}`, `{"good":truee}`, `{"rank":nul}`, `{"time":"today"}`,
		`{"other":1}`, `{"Name":"a"}`, `{"name":"a","name":"b"}`, `{"words":["a"],"words":["b"]}`, `{"map":{},"map":{}}`,
		`{"n":0,"n":5}`, `{"few":{"b":{},"a":{}}}`, `{"few":{"a":{},"a":{}}}`,
		`{"raw":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`,
	} {
		if agree[record](t, text) {
			t.Errorf("%s: taken", text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"name":"a","n":1,"map":{"x":1}}`,
		`{"raw":[1,{"a":"b"}],"time":"2026-11-16T11:58:36Z"}`, `{"stats":{"a":{"low":1}},"words":["\u0041"]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree[record](t, text) })
}

// TestMembers: members come in order, and what is no object is told.
func TestMembers(t *testing.T) {
	var got []string
	ok, err := Members([]byte(` {"b": 1, "a\u0041":[{}] } `), func(b []byte) string {
		return string(b)
	}, func(name string, value []byte) error {
		got = append(got, name+"="+string(value))
		return nil
	})
	if diff := cmp.Diff([]string{"b=1", "aA=[{}]"}, got); !ok || err != nil || diff != "" {
		t.Error(ok, err, diff)
	}
	for _, text := range []string{``, `1`, `[]`, `{"a"}`, `{"a":1}{}`, `{"a":tru}`} {
		if ok, _ := Members([]byte(text), func(b []byte) string {
			return string(b)
		}, func(string, []byte) error { return nil }); ok {
			t.Errorf("%q is taken for an object", text)
		}
	}
}
