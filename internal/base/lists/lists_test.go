package lists

import (
	"slices"
	"strconv"
	"testing"
)

func TestLists(t *testing.T) {
	numbers := []int{3, 1, 3, 2, 1}
	if got := Map(numbers, strconv.Itoa); !slices.Equal(got, []string{"3", "1", "3", "2", "1"}) {
		t.Errorf("Map gives %q", got)
	}
	if got := Distinct(numbers); !slices.Equal(got, []int{3, 1, 2}) {
		t.Errorf("Distinct gives %v", got)
	}
	var set Set[int]
	if !set.Add(3) || !set.Add(1) || set.Add(3) || !slices.Equal(set.List, []int{3, 1}) {
		t.Errorf("a set has %v", set.List)
	}
	if got := Keep(numbers, func(n int) bool { return n > 1 }); !slices.Equal(got, []int{3, 3, 2}) || numbers[1] != 1 {
		t.Errorf("Keep gives %v and leaves %v", got, numbers)
	}
	if got := NotEmpty("a", "", "b"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("NotEmpty gives %q", got)
	}
	if got, err := TryMap([]string{"3", "1"}, strconv.Atoi); !slices.Equal(got, []int{3, 1}) || err != nil {
		t.Errorf("TryMap gives %v, %v", got, err)
	}
	if got, err := TryMap([]string{"3", "x", "1"}, strconv.Atoi); got != nil || err == nil {
		t.Errorf("TryMap gives %v, %v of what is no number", got, err)
	}
	if got, ok := First(numbers, func(n int) bool { return n < 3 }); got != 1 || !ok {
		t.Errorf("First gives %d, %v", got, ok)
	}
	if got, ok := First(numbers, func(n int) bool { return n > 3 }); got != 0 || ok {
		t.Errorf("First gives %d, %v of none", got, ok)
	}
	if got := At(numbers, []int{3, 0}); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("At gives %v", got)
	}
	if got := Sum(numbers); got != 10 {
		t.Errorf("Sum gives %d", got)
	}
	if got := Numbers[int32](3); !slices.Equal(got, []int32{0, 1, 2}) {
		t.Errorf("Numbers gives %v", got)
	}
	byParity := GroupBy(numbers, func(n int) bool { return n%2 == 0 })
	if len(byParity) != 2 || byParity[0].Key || !slices.Equal(byParity[0].Items, []int{3, 1, 3, 1}) ||
		!slices.Equal(byParity[1].Items, []int{2}) || !slices.Equal(numbers, []int{3, 1, 3, 2, 1}) {
		t.Errorf("GroupBy gives %v and leaves %v", byParity, numbers)
	}
	// JSON tells a list that is empty from none.
	none := []int{}
	if Map(none, strconv.Itoa) != nil || Distinct(none) != nil || Keep(numbers, func(int) bool { return false }) != nil {
		t.Error("a list of nothing is not nil")
	}
}
