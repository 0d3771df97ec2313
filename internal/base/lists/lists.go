// Package lists makes lists from lists, where the standard library's slices has
// nothing for it.
package lists

// Map is what f makes of each element; nil of an empty list.
func Map[T, U any](list []T, f func(T) U) []U {
	if len(list) == 0 {
		return nil
	}
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// Keep is the elements for which keep holds, as a list of their own; nil without one.
func Keep[S ~[]T, T any](list S, keep func(T) bool) S {
	var out S
	for _, v := range list {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// First is the first element for which is holds; ok tells whether there is one.
func First[T any](list []T, is func(T) bool) (first T, ok bool) {
	for _, v := range list {
		if is(v) {
			return v, true
		}
	}
	return first, false
}

// At is the elements at some places.
func At[T any](list []T, places []int) []T { return Map(places, func(i int) T { return list[i] }) }

// Sum adds up.
func Sum[T int | float64](list []T) (total T) {
	for _, v := range list {
		total += v
	}
	return total
}

// Distinct is the list without what is in it before, in its order.
func Distinct[T comparable](list []T) []T {
	if len(list) < 2 { // as most often
		return append([]T(nil), list...)
	}
	seen := make(map[T]bool, len(list))
	return Keep(list, func(v T) bool {
		first := !seen[v]
		seen[v] = true
		return first
	})
}

// Numbers is 0, 1, ... n-1.
func Numbers[T int | int32](n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(i)
	}
	return out
}
