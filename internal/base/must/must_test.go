package must

import (
	"errors"
	"testing"
)

// fatal is a test that records the arguments of Fatal.
type fatal struct{ with []any }

func (f *fatal) Helper()           {}
func (f *fatal) Fatal(args ...any) { f.with = append(f.with, args...) }

func TestMust(t *testing.T) {
	one := func(err error) (int, error) { return 1, err }
	two := func(err error) (int, string, error) { return 1, "b", err }
	planted := errors.New("planted")
	for what, use := range map[string]func(T, error) bool{
		"Do":   func(t T, err error) bool { Do(t, err); return true },
		"Get":  func(t T, err error) bool { return Get(one(err))(t) == 1 },
		"Get2": func(t T, err error) bool { a, b := Get2(two(err))(t); return a == 1 && b == "b" },
	} {
		var good, bad fatal
		if !use(&good, nil) || len(good.with) > 0 {
			t.Errorf("%s ends a test without an error: %v", what, good.with)
		}
		if use(&bad, planted); len(bad.with) != 1 || bad.with[0] != planted {
			t.Errorf("%s ends a test with %v, want the planted error", what, bad.with)
		}
	}
}
