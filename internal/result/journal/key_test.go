package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
)

// keyArgs are the arguments of Key.
type keyArgs struct {
	bench, part, version string
	pt                   point.Point
	ranks                *int
	backend              string
	env                  point.Env
	options              point.Point
	inputs               map[string]string
}

func (a keyArgs) key() string {
	return Key(a.bench, a.part, a.version, a.pt, a.ranks, a.backend, a.env, a.options, a.inputs)
}

func exampleKey() keyArgs {
	ranks := 2
	return keyArgs{
		bench: "all_reduce", part: "latency", version: "1", ranks: &ranks, backend: "cpu",
		pt:      point.Point{{Name: "size", Value: point.BytesValue(64)}, {Name: "algo", Value: point.StringValue("ring")}},
		env:     point.Env{{Name: "A", Value: "1", Set: true}, {Name: "B"}},
		options: point.Point{{Name: "check", Value: point.BoolValue(true)}},
		inputs:  map[string]string{"topo.yaml": "abc"},
	}
}

// TestKeyIsPinned pins the encoding of keys. If it changed, --resume would repeat the work of
// all existing journals.
func TestKeyIsPinned(t *testing.T) {
	if got, want := exampleKey().key(), "c4cc4da8d432cccc"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
}

// TestKeyTellsApart changes one argument at a time, including changes that an ambiguous
// encoding would not distinguish. All keys must differ.
func TestKeyTellsApart(t *testing.T) {
	seen := map[string]string{exampleKey().key(): "unchanged"}
	change := func(name string, f func(*keyArgs)) {
		a := exampleKey()
		f(&a)
		if other, dup := seen[a.key()]; dup {
			t.Errorf("%q has the key of %q", name, other)
		}
		seen[a.key()] = name
	}
	size := func(v point.Value) func(*keyArgs) { return func(a *keyArgs) { a.pt = a.pt.With("size", v) } }
	change("bench", func(a *keyArgs) { a.bench = "all_reducelatency"; a.part = "" })
	change("part", func(a *keyArgs) { a.part = "" })
	change("bench and part swapped", func(a *keyArgs) { a.bench, a.part = a.part, a.bench })
	change("version", func(a *keyArgs) { a.version = "2" })
	change("backend", func(a *keyArgs) { a.backend = "mpi" })
	change("other ranks", func(a *keyArgs) { n := 3; a.ranks = &n })
	change("no ranks", func(a *keyArgs) { a.ranks = nil })
	change("no ranks at all", func(a *keyArgs) { n := 0; a.ranks = &n })
	change("other size", size(point.BytesValue(65)))
	change("size as text", size(point.StringValue("64")))
	change("size true", size(point.BoolValue(true)))
	change("size as text true", size(point.StringValue("true")))
	change("size 64.5", size(point.FloatValue(64.5)))
	change("no value", size(point.Value{}))
	change("empty text", size(point.StringValue("")))
	change("one coordinate less", func(a *keyArgs) { a.pt = a.pt.Without("algo") })
	change("one coordinate more", func(a *keyArgs) { a.pt = a.pt.With("x", point.IntValue(1)) })
	change("name and value run together", func(a *keyArgs) {
		a.pt = point.Point{{Name: "size", Value: point.BytesValue(64)}, {Name: "algor", Value: point.StringValue("ing")}}
	})
	change("coordinate as option", func(a *keyArgs) { a.pt, a.options = nil, append(a.options, a.pt...) })
	change("values exchanged", func(a *keyArgs) {
		a.pt = point.Point{{Name: "size", Value: point.StringValue("ring")}, {Name: "algo", Value: point.BytesValue(64)}}
	})
	change("option", func(a *keyArgs) { a.options = a.options.With("check", point.BoolValue(false)) })
	change("env value", func(a *keyArgs) { a.env[0].Value = "2" })
	change("env unset", func(a *keyArgs) { a.env[0] = point.EnvVar{Name: "A"} })
	change("env empty", func(a *keyArgs) { a.env[0].Value = "" })
	change("env equals sign", func(a *keyArgs) { a.env[0].Value = "=" })
	change("env not swept", func(a *keyArgs) { a.env = a.env[:1] })
	change("input changed", func(a *keyArgs) { a.inputs["topo.yaml"] = "abd" })
	change("input renamed", func(a *keyArgs) { a.inputs = map[string]string{"topo": ".yamlabc"} })
	change("no inputs", func(a *keyArgs) { a.inputs = nil })
	change("not UTF-8", size(point.StringValue("\xff")))
	change("otherwise not UTF-8", size(point.StringValue("\xfe")))
	for key := range seen {
		if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(key) {
			t.Errorf("key %q is not 16 hex digits", key)
		}
	}
}

// TestKeyIgnoresOrderAndJSON checks that the key computed from a row that was written and read,
// with its lists in any order, is the original key.
func TestKeyIgnoresOrderAndJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := exampleKey()
		a.pt = drawPoint(t, genAxes("").Draw(t, "axes"))
		a.options = drawPoint(t, genAxes("").Draw(t, "options"))
		a.env = genEnv.Draw(t, "env")
		b := a
		b.pt, b.options, b.env = nil, nil, nil // decoding would overwrite a's arrays
		for _, pair := range []struct{ from, to any }{{a.pt, &b.pt}, {a.options, &b.options}, {a.env, &b.env}} {
			text := must.Get(json.Marshal(pair.from))(t)
			must.Do(t, json.Unmarshal(text, pair.to))
		}
		slices.Reverse(b.pt)
		slices.Reverse(b.env)
		slices.Reverse(b.options)
		if a.key() != b.key() {
			t.Fatalf("%v and %v have different keys", a, b)
		}
	})
}

func TestKeyOfNumbers(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 2, -64, 1e6, 0.1, 1e-9, 1e20, 1e21, 1e300, 7.224818002919035e+17,
		1 << 53, 1 << 63, -1 << 63} {
		a, b := exampleKey(), exampleKey()
		a.pt = point.Point{{Name: "x", Value: point.FloatValue(f)}}
		b.pt = nil
		text, err := json.Marshal(a.pt)
		if err == nil {
			err = json.Unmarshal(text, &b.pt)
		}
		if err != nil || a.key() != b.key() {
			t.Errorf("%v, read back as %v: another key (%v)", f, b.pt, err)
		}
	}
}

func TestNewRunID(t *testing.T) {
	now := time.Date(2026, 11, 15, 2, 42, 33, 999, time.FixedZone("CET", 3600))
	if got, want := NewRunID(now, bytes.NewReader([]byte{0x7f, 0x3a})), "20261115-014233-7f3a"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
	earlier, later := NewRunID(now, bytes.NewReader([]byte{0xff, 0xff})),
		NewRunID(now.Add(time.Second), bytes.NewReader([]byte{0, 0}))
	if earlier >= later {
		t.Errorf("%s does not sort before %s", earlier, later)
	}
	broken := iotest.ErrReader(errors.New("no randomness"))
	one, two := NewRunID(now, broken), NewRunID(now.Add(time.Millisecond), broken)
	if one == two || len(one) != len(earlier) {
		t.Errorf("without randomness: %s and %s", one, two)
	}
}
