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

// NotEmpty are the texts that say something.
func NotEmpty(texts ...string) []string { return Keep(texts, func(s string) bool { return s != "" }) }

// TryMap is Map by what may fail, up to the first error.
func TryMap[T, U any](list []T, f func(T) (U, error)) (out []U, err error) {
	for _, v := range list {
		u, err := f(v)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
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

// Set is a list without repetitions, in the order in which they were added.
type Set[T comparable] struct {
	List []T
	has  map[T]bool
}

// Add reports whether the element was not there before.
func (s *Set[T]) Add(v T) bool {
	if s.has[v] {
		return false
	}
	if s.has == nil {
		s.has = map[T]bool{}
	}
	s.has[v] = true
	s.List = append(s.List, v)
	return true
}

// Distinct is the list without what is in it before, in its order.
func Distinct[T comparable](list []T) []T {
	if len(list) < 2 { // as most often
		return append([]T(nil), list...)
	}
	var s Set[T]
	for _, v := range list {
		s.Add(v)
	}
	return s.List
}

// Group is the elements of a list that share a key.
type Group[K comparable, T any] struct {
	Key   K
	Items []T
}

// GroupBy puts elements of the same key together, in the order of the first of each. A single one is not copied.
func GroupBy[T any, K comparable](list []T, key func(T) K) []Group[K, T] {
	var groups []Group[K, T]
	index := map[K]int{}
	for i, v := range list {
		k := key(v)
		at, seen := index[k]
		if seen {
			groups[at].Items = append(groups[at].Items, v)
			continue
		}
		index[k] = len(groups)
		groups = append(groups, Group[K, T]{k, list[i : i+1 : i+1]})
	}
	return groups
}

// Numbers is 0, 1, ... n-1.
func Numbers[T int | int32](n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(i)
	}
	return out
}
