package lists

import (
	"slices"
	"strconv"
	"testing"
)

func TestLists(t *testing.T) {
	numbers := []int{3, 1, 3, 2, 1}
	if got := Map(numbers, strconv.Itoa); !slices.Equal(got, []string{"3", "1", "3", "2", "1"}) {
		t.Errorf("Map returns %q", got)
	}
	if got := Distinct(numbers); !slices.Equal(got, []int{3, 1, 2}) {
		t.Errorf("Distinct returns %v", got)
	}
	var set Set[int]
	if !set.Add(3) || !set.Add(1) || set.Add(3) || !slices.Equal(set.List, []int{3, 1}) {
		t.Errorf("a set has %v", set.List)
	}
	if got := Filter(numbers, func(n int) bool { return n > 1 }); !slices.Equal(got, []int{3, 3, 2}) || numbers[1] != 1 {
		t.Errorf("Filter returns %v, with the argument %v", got, numbers)
	}
	if got := NonEmpty("a", "", "b"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("NonEmpty returns %q", got)
	}
	if got, err := TryMap([]string{"3", "1"}, strconv.Atoi); !slices.Equal(got, []int{3, 1}) || err != nil {
		t.Errorf("TryMap returns %v, %v", got, err)
	}
	if got, err := TryMap([]string{"3", "x", "1"}, strconv.Atoi); got != nil || err == nil {
		t.Errorf("TryMap returns %v, %v for a text that is no number", got, err)
	}
	if got, ok := First(numbers, func(n int) bool { return n < 3 }); got != 1 || !ok {
		t.Errorf("First returns %d, %v", got, ok)
	}
	if got, ok := First(numbers, func(n int) bool { return n > 3 }); got != 0 || ok {
		t.Errorf("First returns %d, %v without a match", got, ok)
	}
	if got := At(numbers, []int{3, 0}); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("At returns %v", got)
	}
	if got := Sum(numbers); got != 10 {
		t.Errorf("Sum returns %d", got)
	}
	if got := Range[int32](3); !slices.Equal(got, []int32{0, 1, 2}) {
		t.Errorf("Range returns %v", got)
	}
	byParity := GroupBy(numbers, func(n int) bool { return n%2 == 0 })
	if len(byParity) != 2 || byParity[0].Key || !slices.Equal(byParity[0].Items, []int{3, 1, 3, 1}) ||
		!slices.Equal(byParity[1].Items, []int{2}) || !slices.Equal(numbers, []int{3, 1, 3, 2, 1}) {
		t.Errorf("GroupBy returns %v, with the argument %v", byParity, numbers)
	}
	// An empty result is nil, which JSON writes as null and omitempty omits.
	none := []int{}
	if Map(none, strconv.Itoa) != nil || Distinct(none) != nil || Filter(numbers, func(int) bool { return false }) != nil {
		t.Error("an empty result is not nil")
	}
}
