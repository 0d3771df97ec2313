package tuned

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// The first line states the result. Only a confirmed gain is claimed, and only then are there
// configuration files.
func TestFirstLine(t *testing.T) {
	gain := &judge.Interval{Mid: math.Log(0.7), Low: math.Log(0.6), High: math.Log(0.8), Known: true, Count: 6}
	none := &judge.Interval{Mid: math.Log(0.9), Low: math.Log(0.7), High: math.Log(1.1), Known: true, Count: 6}
	worse := &judge.Interval{Mid: math.Log(1.2), Low: math.Log(1.1), High: math.Log(1.3), Known: true, Count: 6}
	few := &judge.Interval{Mid: math.Log(0.7), Count: 3}
	broken := tune.Failure{Setting: 0, Reason: "failed: exit code 3"}
	for want, c := range map[string]struct {
		a        tune.Answer
		maximise bool
	}{
		"best is A=2: time_us -30.0 % (95 % interval -40.0 to -20.0 %) against the default":                                                                  {a: tune.Answer{Best: 1, Done: true, Confirmed: gain}},
		"best is A=2: time_us +42.9 % (95 % interval +25.0 to +66.7 %) against the default":                                                                  {a: tune.Answer{Best: 1, Done: true, Confirmed: gain}, maximise: true},
		"no gain over the default is confirmed: with A=2, time_us changes by -10.0 % (95 % interval -30.0 to +10.0 %)":                                       {a: tune.Answer{Best: 1, Done: true, Confirmed: none}},
		"not confirmed: the limit of time or launches was reached after 3 pairs of A=2 and the default, too few to tell them apart (time_us -30.0 %)":        {a: tune.Answer{Best: 1, Done: true, Confirmed: few}},
		"nothing better was found than the default (A unset): with the best of the others, A=2, time_us changes by +20.0 % (95 % interval +10.0 to +30.0 %)": {a: tune.Answer{Best: 1, Done: true, Confirmed: worse}},
		"nothing better was found than the default (A unset)":                                                                                                {a: tune.Answer{Best: 0, Done: true}},
		"so far nothing is better than the default (A unset)":                                                                                                {a: tune.Answer{Best: 0}},
		"best so far, not confirmed: A=2 (time_us -30.0 % by the launches that chose it)":                                                                    {a: tune.Answer{Best: 1, Expected: math.Log(0.7)}},
		"best so far, not confirmed: A=2 (time_us -30.0 % by the launches":                                                                                   {a: tune.Answer{Best: 1, Expected: math.Log(0.7), Confirmed: gain}},
		"best so far is A=2, not confirmed: nothing was left to compare it with the default":                                                                 {a: tune.Answer{Best: 1, Done: true}},
		"best is A=2; it was not compared with the default, which fails: failed: exit code 3":                                                                {a: tune.Answer{Best: 1, Done: true, Failed: []tune.Failure{broken}}},
		"no setting works: failed: exit code 3":                                                                                                              {a: tune.Answer{Best: -1, Done: true, Failed: []tune.Failure{broken, {Setting: 1, Reason: broken.Reason}}}},
		"no setting works: failed: exit code 3; 1 is out for other reasons":                                                                                  {a: tune.Answer{Best: -1, Done: true, Failed: []tune.Failure{broken, {Setting: 1, Reason: "timeout"}}}},
		"nothing is known yet: no launch has ended":                                                                                                          {a: tune.Answer{Best: -1}},
	} {
		r := tune.Result{Metric: "time_us", Maximise: c.maximise,
			Variables: []tune.Variable{{Names: []string{"A"}, Env: []bool{true},
				Values: [][]string{{""}, {"2"}}, Unset: [][]bool{{true}, {false}}}},
			Findings: []tune.Finding{{Cells: 1, Size: 2, Levels: map[int][]int{0: {0}, 1: {1}}, Answer: c.a}}}
		first, _, _ := strings.Cut(Text(r, nil), "\n")
		if !strings.HasPrefix(first, want) {
			t.Errorf("%s\nwant %s", first, want)
		}
		if note, err := Note(r); err != nil || string(note.Text) != "tuned: "+first {
			t.Errorf("noted as %s, %v", note.Text, err)
		}
		if pasted := Exports(r) + Fragment(r); (pasted != "") != strings.HasPrefix(want, "best is A=2: ") {
			t.Errorf("%s: to paste:\n%s", want, pasted)
		}
		lead := Sections(r, nil)[0]
		if !strings.HasPrefix(lead.Text, "**"+first+"**\n") {
			t.Errorf("the report begins with %s", lead.Text)
		}
		if other := c.a.Best == 1; other != reflect.DeepEqual(lead.Table,
			[][]string{{"variable", "best", "default"}, {"A", "2", "unset"}}) {
			t.Errorf("%s: beside each other: %q", want, lead.Table)
		}
	}
}

// Settings are called slower only after a race, and not if the confirmation refutes it.
func TestSlowerBeyondDoubt(t *testing.T) {
	gain := &judge.Interval{Mid: math.Log(0.7), Low: math.Log(0.6), High: math.Log(0.8), Known: true, Count: 6}
	none := &judge.Interval{Mid: 0, Low: math.Log(0.9), High: math.Log(1.1), Known: true, Count: 6}
	few := &judge.Interval{Mid: math.Log(2.4), Count: 2}
	const sure = "all others of the race are slower beyond doubt"
	for want, a := range map[string]tune.Answer{
		sure: {Confirmed: gain, Rounds: 4, ChosenBy: 4, Dropped: 1},
		"there was no race: the limit of time or launches was reached before it, and this was chosen by 1 launch of its own; " +
			"not separated from it by the search: the default (A unset)": {Confirmed: few, ChosenBy: 1, Raced: []int{0}},
		"chosen by 1 launch of its own; outside the race, 1 setting is not ruled out": {Confirmed: few, ChosenBy: 1,
			Open: []int{0}},
		"the race and the confirmation disagree: by the race the default was slower beyond doubt (time_us -30.0 %)": {Confirmed: none, Rounds: 4, ChosenBy: 4,
			Raced: []int{0}, Refuted: true},
		"launches were repeated 2 times, too few to show how much they differ": {Confirmed: few, ChosenBy: 1, Raced: []int{0},
			Noise: 0.02, Repeats: 2},
		"no other setting of the race works": {Confirmed: gain, Rounds: 4, ChosenBy: 4},
	} {
		a.Best, a.Done, a.Expected = 1, true, math.Log(0.7)
		text := Text(tune.Result{Metric: "time_us",
			Variables: []tune.Variable{{Names: []string{"A"}, Env: []bool{true}, Values: [][]string{{""}, {"2"}},
				Unset: [][]bool{{true}, {false}}}},
			Findings: []tune.Finding{{Cells: 1, Size: 2, Levels: map[int][]int{0: {0}, 1: {1}}, Answer: a}}}, nil)
		if !strings.Contains(text, want) || want != sure && strings.Contains(text, sure) {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}

// Settings excluded for the same reason are listed together; a reason is never read.
func TestOutByReason(t *testing.T) {
	v := tune.Variable{Names: []string{"A"}, Env: []bool{true}, Values: [][]string{{""}, {"2"}, {"3"}, {"4"}},
		Unset: [][]bool{{true}, {false}, {false}, {false}}}
	r := tune.Result{Metric: "time_us", Variables: []tune.Variable{v},
		Findings: []tune.Finding{{Cells: 1, Size: 4, Levels: map[int][]int{0: {0}, 1: {1}, 2: {2}, 3: {3}},
			Answer: tune.Answer{Failed: []tune.Failure{{Setting: 1, Reason: "no route"},
				{Setting: 2, Reason: "timeout"}, {Setting: 3, Reason: "no route"}}}}}}
	const want = "  excluded: A=2, A=4 (no route); A=3 (timeout)\n"
	if text := Text(r, nil); !strings.Contains(text, want) {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// Without recorded steps there is no figure of convergence.
func TestNoConvergenceWithoutSteps(t *testing.T) {
	few := &judge.Interval{Mid: 1, Count: 2}
	r := tune.Result{Metric: "time_us", Findings: []tune.Finding{{Answer: tune.Answer{Best: 1, Confirmed: few}}}}
	if figures := Figures(r, nil); len(figures) != 0 {
		t.Errorf("%+v", figures)
	}
}

// The text reports disturbed rows, and counts launches like --launches does.
func TestCostAndDisturbance(t *testing.T) {
	steal := journal.NewCondition(journal.CodeSteal, journal.Named{"share": 0.2})
	r := tune.Result{Metric: "time_us",
		Variables: []tune.Variable{{Names: []string{"A"}, Env: []bool{true}, Values: [][]string{{""}, {"2"}},
			Unset: [][]bool{{true}, {false}}}},
		Findings: []tune.Finding{{Cells: 3, Each: 3, Size: 2, Rows: 60, Disturbed: 7, DisturbedBy: &steal,
			Levels: map[int][]int{0: {0}, 1: {1}},
			Answer: tune.Answer{Best: 0, Done: true, Launches: 20, Started: 2, Full: 12}}}}
	text := Text(r, nil)
	for _, want := range []string{
		"disturbed while measured: 7 of 60 rows (steal: the hypervisor took 20.0 % of this host's cores away)",
		"cost: 60 launches over 2 of 2 settings; the full sweep at 6 trials takes 36"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}

// A setting that was launched once is not called best, and two modes are shown with their shares
// instead of the median of one of them.
func TestAbstainsAndShowsModes(t *testing.T) {
	gain := &judge.Interval{Mid: math.Log(0.7), Low: math.Log(0.6), High: math.Log(0.8), Known: true, Count: 8}
	level := &judge.Interval{Mid: math.Log(34.6), Low: math.Log(33), High: math.Log(36), Known: true, Count: 8}
	for _, c := range []struct {
		a           tune.Answer
		want, lacks string
	}{
		{tune.Answer{ChosenBy: 1, Expected: math.Log(0.5)},
			"not resolved: the fastest launch was with A=2, but one launch does not show how launches differ", "best"},
		{tune.Answer{ChosenBy: 8, Rounds: 4, Done: true, Confirmed: gain, Level: level,
			Modes: []stats.Mode{{Center: 33.7, Share: 0.55}, {Center: 67, Share: 0.45}}},
			"its launches have two modes: time_us is 33.7 µs in 55 % and 67 µs in 45 % of them", "34.6"},
	} {
		c.a.Best = 1
		text := Text(tune.Result{Metric: "time_us", Unit: "us",
			Variables: []tune.Variable{{Names: []string{"A"}, Env: []bool{true}, Values: [][]string{{""}, {"2"}},
				Unset: [][]bool{{true}, {false}}}},
			Findings: []tune.Finding{{Cells: 1, Size: 2, Levels: map[int][]int{0: {0}, 1: {1}}, Answer: c.a}}}, nil)
		if !strings.Contains(text, c.want) || strings.Contains(text, c.lacks) {
			t.Errorf("%s\nwant %s and no %q", text, c.want, c.lacks)
		}
	}
}
