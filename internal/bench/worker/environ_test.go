package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// Whatever a launcher or another host has done to the planned variables, they get their planned values, and
// nothing else changes.
func TestCorrect(t *testing.T) {
	odd := "a b\xff\n;$x"
	empty := ""
	vars := must.Get(PlannedVars(launch.EnvOverrides{"GONE": nil, "ODD": &odd, "EMPTY": &empty}))(t)
	plan := plannedVar + "=" + vars[plannedVar]
	right := []string{"A=1", "EMPTY=", "ODD=" + odd}
	for name, c := range map[string]struct {
		environ []string
		differs bool
	}{
		"as planned":                 {append(slices.Clone(right), plan), false},
		"set where it should not be": {append(slices.Clone(right), plan, "GONE=remote"), true},
		"another value":              {[]string{"A=1", "EMPTY=", "ODD=other", plan}, true},
		"not set":                    {[]string{"A=1", "ODD=" + odd, plan}, true},
		"cut by a quote":             {[]string{"A=1", "EMPTY=", "ODD=a", plan}, true},
	} {
		got, differs, err := correctEnv(c.environ)
		slices.Sort(got)
		if err != nil || differs != c.differs || !slices.Equal(got, right) {
			t.Errorf("%s: %q, differs %v, %v", name, got, differs, err)
		}
	}
	none := plannedVar + "=" + must.Get(PlannedVars(nil))(t)[plannedVar]
	if got, differs, err := correctEnv(append(slices.Clone(right), none)); err != nil || differs ||
		!slices.Equal(got, right) {
		t.Errorf("a plan of nothing: %q, differs %v, %v", got, differs, err)
	}
	if got, differs, err := correctEnv(right); err != nil || differs || !slices.Equal(got, right) {
		t.Errorf("without a plan: %q, differs %v, %v", got, differs, err)
	}
	if _, _, err := correctEnv([]string{plannedVar + "=?"}); err == nil ||
		!strings.Contains(err.Error(), "planned environment") {
		t.Errorf("got %v", err)
	}
}
