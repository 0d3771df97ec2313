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
	List  []inner            `json:"list,omitempty"`

	Shared map[string]string `json:"shared,omitempty"`
}

func readRecord() Reader[record] {
	readInner := Struct([]Member[inner]{
		Field("low", Float, func(v *inner) *float64 { return &v.Low }),
		Field("high", Pointer(Float), func(v *inner) **float64 { return &v.High }),
	})
	return Struct([]Member[record]{
		Field("name", Text, func(v *record) *string { return &v.Name }),
		Field("n", Int, func(v *record) *int { return &v.N }),
		Field("good", Bool, func(v *record) *bool { return &v.Good }),
		Field("rank", Pointer(Int), func(v *record) **int { return &v.Rank }),
		Field("words", List(Text[string]), func(v *record) *[]string { return &v.Words }),
		Field("map", Map(Float), func(v *record) *map[string]float64 { return &v.Map }),
		Field("texts", Map(Text[string]), func(v *record) *map[string]string { return &v.Texts }),
		Field("stats", Map(readInner), func(v *record) *map[string]inner { return &v.Stats }),
		Field("time", JSON, func(v *record) *time.Time { return &v.Time }),
		Field("raw", JSON, func(v *record) *json.RawMessage { return &v.Raw }),
		Field("list", List(readInner), func(v *record) *[]inner { return &v.List }),
		Field("shared", Shared(Map(Text[string])), func(v *record) *map[string]string { return &v.Shared }),
	})
}

// agree decodes a text with this package and, if that accepts it, with encoding/json. Both
// must give the same.
func agree(t *testing.T, text string) (accepted bool) {
	t.Helper()
	var got, want record
	d := NewDecoder()
	if d.Reset([]byte(text)); !readRecord()(d, &got) || !d.AtEnd() {
		return false
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatalf("%s: accepted, but encoding/json says: %v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: -encoding/json +fastjson\n%s", text, diff)
	}
	return true
}

// TestDecode checks that ordinary text is accepted and everything else declined.
func TestDecode(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { "name" : "a" , "n" : -12 } `, `{"name":"\u00e9\n\"x\"é\ud800","good":true}`,
		`{"name":null,"n":null,"good":null,"rank":null,"words":null,"map":null,"time":null}`,
		`{"rank":3,"words":["a","","a"],"map":{"a":1,"b":-0.5e-3,"c":null}}`,
		`{"texts":{"a":"b","c":null},"stats":{"t":{"low":1,"high":2},"u":{}},"good":false}`,
		`{"words":[],"map":{},"texts":{},"stats":{},"list":[{"low":1},{"high":1e308},{}]}`,
		`{"time":"2026-11-16T11:58:36.558498513Z","raw":{"any":[1,"]}",{"x":null}]}}`,
		`{"map":{"a":1,"a":2}}`, `{"n":1,"name":"later","good":true}`, `{"good":true,"n":1}`,
		`{"shared":{"a":"b"}}`, `{"shared":null}`,
	} {
		if !agree(t, text) {
			t.Errorf("%s: declined", text)
		}
	}
	for _, text := range []string{
		``, `null`, `[]`, `{`, `{}x`, "{}\x00", `{"name":"a"`, `{"name":"a",}`, `{"name" "a"}`, `{name:"a"}`,
		"{\"name\":\"a\nb\"}", `{"name":"\q"}`,
		`{"n":01}`, `{"n":1.0}`, `{"n":1e2}`, `{"n":+1}`, `{"n":"1"}`, `{"n":99999999999999999999}`, `{"map":{"a":1e999}}`,
		`{"map":{"a":.5}}`, `{"map":{"a":1.}}`, `{"map":{"a":0x1}}`,
		`{"map":{"a":NaN}}`, `{"good":1}`, `{"good":truee}`, `{"rank":nul}`, `{"time":"today"}`,
		`{"other":1}`, `{"Name":"a"}`, `{"name":"a","name":"b"}`, `{"words":["a"],"words":["b"]}`, `{"map":{},"map":{}}`,
		`{"n":0,"n":5}`,
		`{"raw":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`,
	} {
		if agree(t, text) {
			t.Errorf("%s: accepted", text)
		}
	}
}

// TestShared checks that a Shared reader yields the last value only if the text is equal.
func TestShared(t *testing.T) {
	d, read := NewDecoder(), readRecord()
	for _, text := range []string{`{"shared":{"a":"b"}}`, `{"shared":{"a":"b"}}`, `{"shared":{"a":"bc"}}`} {
		var got, want record
		d.Reset([]byte(text))
		if err := json.Unmarshal([]byte(text), &want); err != nil || !read(d, &got) || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got.Shared, err)
		}
	}
}

func TestDuplicate(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}`: "", `{"a":1,"b":2,"a":3}`: "a", `[{"x":{"é":1,"\u00e9":2}}]`: "é",
		`{"a":"\"a\":1,\"a\":2"}`: "", `[`: "", ``: "", `{"a":1,"a"`: "", strings.Repeat(`{"a":`, 100_000): "",
	} {
		if got := Duplicate([]byte(text)); got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"name":"a","n":1,"map":{"x":1}}`,
		`{"raw":[1,{"a":"b"}],"time":"2026-11-16T11:58:36Z"}`, `{"stats":{"a":{"low":1}},"words":["\u0041"]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}

// TestMembers checks that members come in order and that other text is no object.
func TestMembers(t *testing.T) {
	var got []string
	intern := func(b []byte) string { return string(b) }
	ok, err := Members([]byte(` {"b": 1, "a\u0041":[{}] } `), intern, func(name string, value []byte) error {
		got = append(got, name+"="+string(value))
		return nil
	})
	if diff := cmp.Diff([]string{"b=1", "aA=[{}]"}, got); !ok || err != nil || diff != "" {
		t.Error(ok, err, diff)
	}
	for _, text := range []string{``, `1`, `[]`, `{"a"}`, `{"a":1}{}`, `{"a":tru}`} {
		if ok, _ := Members([]byte(text), intern, func(string, []byte) error { return nil }); ok {
			t.Errorf("%q is taken for an object", text)
		}
	}
}
