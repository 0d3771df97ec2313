// Package lists builds slices from slices, where package slices of the standard library has
// no function for it. No function changes its arguments.
package lists

// Map returns f of each element, or nil for an empty list.
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

// TryMap is Map for a function that may fail. It stops at the first error and returns it.
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

// Filter returns a new list of the elements for which keep returns true, or nil if there are none.
func Filter[S ~[]T, T any](list S, keep func(T) bool) S {
	var out S
	for _, v := range list {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// NonEmpty returns the texts that are not "".
func NonEmpty(texts ...string) []string {
	return Filter(texts, func(s string) bool { return s != "" })
}

// First returns the first element for which match returns true, and whether there is one.
func First[T any](list []T, match func(T) bool) (first T, ok bool) {
	for _, v := range list {
		if match(v) {
			return v, true
		}
	}
	return first, false
}

// At returns the elements at the given indices.
func At[T any](list []T, indices []int) []T {
	return Map(indices, func(i int) T { return list[i] })
}

// Sum returns the sum of the elements.
func Sum[T int | float64](list []T) (total T) {
	for _, v := range list {
		total += v
	}
	return total
}

// Set is a list of distinct elements in the order in which they were added.
type Set[T comparable] struct {
	List []T
	has  map[T]bool
}

// Add adds an element unless the set has it already, and reports whether it was added.
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

// Distinct returns the elements without repetitions, in the order of their first occurrence.
func Distinct[T comparable](list []T) []T {
	if len(list) < 2 { // the usual case needs no map
		return append([]T(nil), list...)
	}
	var s Set[T]
	for _, v := range list {
		s.Add(v)
	}
	return s.List
}

// Group is the elements of a list that have the same key, as a list of the same type S.
type Group[K comparable, S any] struct {
	Key   K
	Items S
}

// GroupBy groups the elements by key. Groups are in the order of their first element, and
// elements keep their order within a group. A group of one element shares the list's memory;
// its capacity is 1, so that appending to it copies.
func GroupBy[S ~[]T, T any, K comparable](list S, key func(T) K) []Group[K, S] {
	var groups []Group[K, S]
	index := map[K]int{}
	for i, v := range list {
		k := key(v)
		at, seen := index[k]
		if seen {
			groups[at].Items = append(groups[at].Items, v)
			continue
		}
		index[k] = len(groups)
		groups = append(groups, Group[K, S]{k, list[i : i+1 : i+1]})
	}
	return groups
}

// Range returns 0, 1, ... n-1.
func Range[T int | int32](n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(i)
	}
	return out
}
