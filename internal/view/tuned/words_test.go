package tuned

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/bench/tune"
)

// The first line is the answer, whatever came of a study; nothing is claimed that was not
// confirmed, and there is something to paste only where something was.
func TestFirstLine(t *testing.T) {
	gain := &tune.Interval{Mid: math.Log(0.7), Low: math.Log(0.6), High: math.Log(0.8), Known: true, Count: 6}
	none := &tune.Interval{Mid: math.Log(0.9), Low: math.Log(0.7), High: math.Log(1.1), Known: true, Count: 6}
	few := &tune.Interval{Mid: math.Log(0.7), Count: 3}
	broken := tune.Failure{Setting: 0, Reason: "failed: exit code 3"}
	for want, c := range map[string]struct {
		a        tune.Answer
		maximise bool
	}{
		"best is A=2: time_us -30.0 % (95 % interval -40.0 to -20.0 %) against the default":                    {a: tune.Answer{Best: 1, Done: true, Confirmed: gain}},
		"best is A=2: time_us +42.9 % (95 % interval +25.0 to +66.7 %) against the default":                    {a: tune.Answer{Best: 1, Done: true, Confirmed: gain}, maximise: true},
		"no gain over the default is confirmed: A=2 comes to time_us -10.0 % (95 % interval -30.0 to +10.0 %)": {a: tune.Answer{Best: 1, Done: true, Confirmed: none}},
		"no gain over the default is confirmed: A=2 comes to time_us -30.0 % (too few pairs for an interval)":  {a: tune.Answer{Best: 1, Done: true, Confirmed: few}},
		"nothing better was found than the default (A unset)":                                                  {a: tune.Answer{Best: 0, Done: true}},
		"so far nothing is better than the default (A unset)":                                                  {a: tune.Answer{Best: 0}},
		"best so far, not confirmed: A=2 (time_us -30.0 % by the launches that chose it)":                      {a: tune.Answer{Best: 1, Expected: math.Log(0.7)}},
		"best so far, not confirmed: A=2 (time_us -30.0 % by the launches":                                     {a: tune.Answer{Best: 1, Expected: math.Log(0.7), Confirmed: gain}},
		"best so far is A=2, not confirmed: nothing was left to compare it with the default":                   {a: tune.Answer{Best: 1, Done: true}},
		"best is A=2; it was not compared with the default, which fails: failed: exit code 3":                  {a: tune.Answer{Best: 1, Done: true, Failed: []tune.Failure{broken}}},
		"no setting works: failed: exit code 3":                                                                {a: tune.Answer{Best: -1, Done: true, Failed: []tune.Failure{broken, {Setting: 1, Reason: broken.Reason}}}},
		"no setting works: failed: exit code 3; 1 is out for other reasons":                                    {a: tune.Answer{Best: -1, Done: true, Failed: []tune.Failure{broken, {Setting: 1, Reason: "timeout"}}}},
		"nothing is known yet: no launch has ended":                                                            {a: tune.Answer{Best: -1}},
	} {
		r := tune.Result{Metric: "time_us", Maximise: c.maximise, Variables: []tune.Variable{{Names: []string{"A"}, Env: []bool{true},
			Values: [][]string{{""}, {"2"}}, Unset: [][]bool{{true}, {false}}}},
			Findings: []tune.Finding{{Cells: 1, Size: 2, Levels: map[int][]int{0: {0}, 1: {1}}, Answer: c.a}}}
		first, _, _ := strings.Cut(Text(r), "\n")
		if !strings.HasPrefix(first, want) {
			t.Errorf("%s\nwant %s", first, want)
		}
		if note, err := Note(r); err != nil || note.Text != "tuned: "+first {
			t.Errorf("noted as %s, %v", note.Text, err)
		}
		if pasted := Exports(r) + Fragment(r); (pasted != "") != strings.HasPrefix(want, "best is A=2: ") {
			t.Errorf("%s: to paste:\n%s", want, pasted)
		}
		if text := Sections(r)[0].Text; !strings.HasPrefix(text, first) {
			t.Errorf("the report begins with %s", text)
		}
	}
}

// What was disturbed is said, and a launch is what --launches counts.
func TestCostAndDisturbance(t *testing.T) {
	r := tune.Result{Metric: "time_us", Variables: []tune.Variable{{Names: []string{"A"}, Env: []bool{true}, Values: [][]string{{""}, {"2"}},
		Unset: [][]bool{{true}, {false}}}}, Findings: []tune.Finding{{Cells: 3, Each: 3, Size: 2, Rows: 60, Disturbed: 7, DisturbedBy: "steal: 20 %",
		Levels: map[int][]int{0: {0}, 1: {1}}, Answer: tune.Answer{Best: 0, Done: true, Launches: 20, Started: 2, Full: 12}}}}
	text := Text(r)
	for _, want := range []string{"disturbed while measured: 7 of 60 rows (steal: 20 %)", "cost: 60 launches over 2 of 2 settings; the full sweep at 6 trials takes 36"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}
