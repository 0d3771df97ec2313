package cpu

import "testing"

// After a timeout the error blames a rank that does not answer. If all answer, it blames the rank that
// has made the fewest calls, because the others wait for it too; if all have made the same number, it
// blames the rank that was waited for.
func TestFurthestBehindIsBlamed(t *testing.T) {
	at := func(calls ...uint64) (ranks []progress) {
		for _, n := range calls {
			ranks = append(ranks, progress{calls: n})
		}
		return ranks
	}
	silent := func(ranks []progress, rank int) []progress {
		ranks[rank] = progress{silent: true}
		return ranks
	}
	for name, c := range map[string]struct {
		ranks  []progress
		waited int
		want   int
	}{
		"nobody is behind":                     {at(9, 9, 9, 9), 2, 2},
		"others are ahead":                     {at(9, 11, 10, 9), 2, 2},
		"the one that was waited for":          {at(9, 9, 8, 9), 2, 2},
		"another, for which that one waits":    {at(9, 9, 9, 8), 2, 3},
		"a rank before it waits itself":        {at(9, 8, 8, 7), 1, 3},
		"the furthest of several":              {at(9, 8, 3, 5), 1, 2},
		"the first of equals":                  {at(9, 8, 7, 7), 1, 2},
		"no answer counts before any answer":   {silent(at(9, 3, 9, 9), 2), 1, 2},
		"even before one that has not begun":   {silent(at(9, 0, 9, 9), 3), 1, 3},
		"the first that gives none":            {silent(silent(at(9, 9, 9, 9), 3), 1), 2, 1},
		"before any call nobody can be blamed": {at(0, 0, 0, 0), 3, 3},
	} {
		calls := c.ranks[0].calls // rank 0 asks the others
		if got := furthestBehind(c.ranks, calls, c.waited); got != c.want {
			t.Errorf("%s: rank %d is blamed, want %d", name, got, c.want)
		}
	}
}
