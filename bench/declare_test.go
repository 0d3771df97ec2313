package bench

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
)

func nothing(context.Context, *State) error { return nil }

// Each mistake in a declaration is reported.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		bench *Bench
		want  []string
	}{
		{New("", nothing), []string{`name ""`}},
		{New("9lives", nothing), []string{`name "9lives"`}},
		{New("a b", nothing), []string{`name "a b"`}},
		{Suite("s"), []string{"it has no part"}},
		{Suite("s", Ints("i", "1"), Part("p", nothing)), []string{"a suite has no axes of its own"}},
		{Suite("s", Part("p", nothing), Part("p", nothing)), []string{`duplicate part "p"`}},
		{Suite("s", Part("p", nil)), []string{"part p: it needs either a body or a command"}},
		{New("b", nothing, Ints("i", "1:")), []string{`axis "i"`}},
		{New("b", nothing, Ints("i", "1,1")), []string{`axis "i": duplicate value 1`}},
		{New("b", nothing, Ints("i", "1"), Ints("i", "2")), []string{`axis "i" clashes with the axis`}},
		{New("b", nothing, Ints("i", "1"), Env("i", "2")), []string{`environment variable "i" clashes with the axis`}},
		{New("b", nothing, Ints("i", "1"), Option("i", point.Int, "2", "")), []string{`axis "i" clashes with the option`}},
		{New("b", nothing, Ints("backend", "1")), []string{`axis name "backend"`}},
		{New("b", nothing, Ints("no spaces", "1")), []string{`axis name "no spaces"`}},
		{New("b", nothing, Strings("s")), []string{`axis "s" has no values`}},
		{New("b", nothing, DTypes("d", "f33")), []string{`axis "d"`}},
		{New("b", nothing, Ranks("0")), []string{"at least one rank"}},
		{New("b", nothing, Env("1X", "a")), []string{`environment variable "1X"`}},
		{New("b", nothing, Env("X")), []string{`environment variable "X" has no values`}},
		{New("b", nothing, Env("X", "a", "a")), []string{`"X": duplicate value a`}},
		{New("b", nothing, Env("X", Unset, Unset)), []string{`"X": duplicate value (unset)`}},
		{New("b", nothing, Zip(Ints("i", "1"))), []string{"at least two names"}},
		{New("b", nothing, Zip(Ints("i", "1,2"), Env("X", "a"))), []string{`"i" has 2 values, "X" has 1`}},
		{New("b", nothing, Option("o", point.Int, "x", "")), []string{`option "o": default`}},
		{New("b", nothing, Option("o", point.Int, "1", ""), Option("o", point.Int, "1", "")),
			[]string{`duplicate option "o"`}},
		{New("b", nothing, Option("an option", point.Int, "1", "")), []string{`option name "an option"`}},
		{New("b", nothing, Choice("o", "")), []string{`option "o": no choices`}},
		// All at once, not one after the other.
		{New("b", nil, Ints("i", "x"), Env("X"), Choice("o", "")),
			[]string{`axis "i"`, `"X" has no values`, "no choices", "either a body or a command"}},
	} {
		err := c.bench.Validate()
		if err == nil {
			t.Errorf("no fault found, want %q", c.want)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant it to say %q", err, want)
			}
		}
	}
	twice := New("b", nothing, Ints("i", "1,2"), Ints("j", "1,2"), Ints("k", "1,2"))
	twice.Parts[0].Zips = [][]string{{"i", "j"}, {"i", "k"}, {"j", "nowhere"}}
	for _, want := range []string{`zip: duplicate name "i"`, `zip names "nowhere"`} {
		if err := twice.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}

// Every clause sets its part of the declaration.
func TestBuild(t *testing.T) {
	b := Suite("suite", Help("what it is"), Version("2"), Out("here"), Backends("ahbm", "cpu"),
		Option("iters", point.Int, "10", "how many"), Choice("alg", "which", "ring", "tree"),
		FileOption("topology", "", "a file"),
		Part("latency", nothing, Help("how long"), Ranks("2,4"),
			Bytes("size", "1K:4K:x2"), Floats("x", "0.5,1"), Bools("inplace", false, true), Tuples("shape", "qkv=1x2x3"),
			DTypes("dtype", "f32", "bf16"), Strings("op", "sum"),
			Zip(Env("MIN", "1", Unset), Env("MAX", "1", Unset)), Trials(3), Metric("lat_us", "us", "lower"),
			Drop(func(point.Point) error { return nil })),
		Part("kinds", nothing, Ints("i", "1")))
	must.Do(t, b.Validate())
	p, ok := b.Part("latency")
	if !ok || p.Trials != 3 || len(p.Drops) != 1 || p.Metrics[0].Name != "lat_us" || p.Help != "how long" {
		t.Errorf("%+v", p)
	}
	if _, ok := b.Part("nowhere"); ok {
		t.Error("a part from nowhere")
	}
	got := map[string]string{}
	for _, a := range p.Axes {
		got[a.Name] = fmt.Sprint(a.Kind, " ", point.FormatSpec(a.Values))
	}
	want := map[string]string{"num_ranks": "int 2,4", "size": "bytes 1Ki,2Ki,4Ki", "x": "float 0.5,1",
		"inplace": "bool false,true", "shape": "tuple qkv=1x2x3", "dtype": "dtype f32,bf16", "op": "string sum"}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("axis %s is %q, want %q", name, got[name], text)
		}
	}
	if _, ok := p.Axis("i"); ok {
		t.Error("an axis of the other part")
	}
	if !reflect.DeepEqual(p.Zips, [][]string{{"MIN", "MAX"}}) {
		t.Errorf("zips %q", p.Zips)
	}
	if e := p.Envs[0].Values; !e[0].Set || e[0].Value != "1" || e[1].Set {
		t.Errorf("environment %v", p.Envs)
	}
	if o, ok := b.Option("alg"); !ok || o.Default.String() != "ring" || len(o.Choices) != 2 {
		t.Errorf("option %+v", o)
	}
	if o, _ := b.Option("topology"); !o.File {
		t.Errorf("option %+v", o)
	}
	if _, ok := b.Option("nowhere"); ok {
		t.Error("an option from nowhere")
	}
	if b.Help != "what it is" || b.Version != "2" || b.Out != "here" || b.Backends[0] != "ahbm" {
		t.Errorf("%+v", b)
	}
	if plain := New("plain", nothing, Help("one line")); plain.Help != "one line" {
		t.Errorf("the help of a plain bench is %q", plain.Help)
	}
}

// Names of declared views that no row can have are mistakes in the declaration.
func TestViewFaults(t *testing.T) {
	declared := func(view Clause) error {
		return New("b", nothing, Ints("i", "1"), Env("X", "1"), Option("o", KindInt, "1", "help"),
			Metric("exposed_KIND_us", "us", "lower"), view).Validate()
	}
	for _, good := range []Clause{Plot("x=i,y=time_us.p99+busbw,by=X+o,panel=num_ranks"),
		Plot("x=busbw,share=exposed_a_us"), Plot("x=2*i,y=i*time_us/exposed_a_us"),
		Plot("x=point,where=i>1 && kind==\"measured\" && busbw>2"), Pivot("rows=i+X,columns=o,value=gbps")} {
		if err := declared(good); err != nil {
			t.Error(err)
		}
	}
	for want, view := range map[string]Clause{
		`unknown key "z"`:        Plot("z=i"),
		`unknown coordinate "j"`: Plot("x=i,by=j"),
		`unknown coordinate "k"`: Plot("x=k"),
		`unknown metric "speed"`: Plot("x=i,y=speed"),
		`unknown metric "limit"`: Plot("x=i,y=busbw/limit"),
		`unknown name "iter"`:    Plot("x=i,where=iter>2"),
		"missing rows":           Pivot("columns=i"),
		`unknown coordinate "l"`: Pivot("rows=l"),
		`unknown metric "gbp"`:   Pivot("rows=i,value=gbp"),
		`unknown name "jter"`:    Pivot("rows=i,where=jter>2"),
	} {
		if err := declared(view); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The contents of a point have the sums of all values that name data. Data that cannot be read changes the identity.
func TestContentHashes(t *testing.T) {
	digest := func(value string) (string, error) {
		switch value {
		case "none":
			return "", nil
		case "gone":
			return "", errors.New("no such file")
		}
		return "sum of " + value, nil
	}
	b := New("b", nothing, ContentHashes(digest, "axis", "option"), ContentHashes(digest, "other"))
	p := point.Point{{Name: "axis", Value: point.StringValue("x")}}
	options := point.Point{{Name: "axis", Value: point.StringValue("not swept")},
		{Name: "option", Value: point.StringValue("none")}, {Name: "other", Value: point.StringValue("gone")}}
	want := map[string]string{"axis x": "sum of x", "other gone": "unknown: no such file"}
	if got := b.Content(p, options); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
