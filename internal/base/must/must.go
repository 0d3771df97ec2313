// Package must ends a test at the first error of a call that the test merely needs:
//
//	p := must.Get(plan.Make(b, req))(t)
//	must.Do(t, w.Close())
//
// Errors that a test is about should be compared instead.
package must

// T is the common part of *testing.T and *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get takes the results of a call, and returns a function that returns the value or ends the
// test if the call failed. It takes t separately because Go passes on several results only as
// the complete list of arguments.
func Get[A any](a A, err error) func(T) A {
	return func(t T) A {
		t.Helper()
		Do(t, err)
		return a
	}
}

// Get2 is Get for a call that returns two values and an error.
func Get2[A, B any](a A, b B, err error) func(T) (A, B) {
	return func(t T) (A, B) {
		t.Helper()
		Do(t, err)
		return a, b
	}
}
