// Package must is for tests: what a call gives, where an error of it would end the test.
//
//	p := must.Get(plan.Make(b, req))(t)
//	must.Do(t, w.Close())
//
// It is for what a test needs, not for what it looks at.
package must

// T is what a *testing.T and a *rapid.T have in common.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if err is one.
func Do(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get gives the value that a call has returned, and ends the test where it has returned an error.
func Get[A any](a A, err error) func(T) A {
	return func(t T) A {
		t.Helper()
		Do(t, err)
		return a
	}
}

// Get2 is Get for a call that returns two values.
func Get2[A, B any](a A, b B, err error) func(T) (A, B) {
	return func(t T) (A, B) {
		t.Helper()
		Do(t, err)
		return a, b
	}
}
