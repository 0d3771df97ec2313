package journal

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

func TestSentence(t *testing.T) {
	for want, c := range map[string]Condition{
		"steal: the hypervisor took 5.2 % of this host's cores away": NewCondition(CodeSteal, Named{"share": 0.052}),
		"another kernbench is measuring on this host":                {Code: CodeCrowd},
		"another kernbench (process 7) is measuring on this host":    NewCondition(CodeCrowd, Named{"process": 7}),
		"4 ranks share 1.5 cores":                                    NewCondition(CodeCrowded, Named{"ranks": 4, "cores": 1.5}),
		"4 ranks share 2 cores of host node1":                        NewCondition(CodeCrowded, Named{"ranks": 4, "cores": 2}, "node1"),
		"drift: from the first to the second half of the samples, the median changed by +7.5 %": NewCondition(CodeDrift,
			Named{"change": 0.075}),
		"drift: from the first to the second half of the samples, the median changed by -20.0 %": NewCondition(CodeDrift,
			Named{"change": -0.2}),
		"noise: the median is known to 3.0 %, not 0.5 % (stopped: max-time)": NewCondition(CodeNoise,
			Named{"noise": 0.03, "target": 0.005}, "max-time"),
		"noise: the median is known to 0.6 %, not 0.5 %": NewCondition(CodeNoise,
			Named{"noise": 0.00501, "target": 0.005}),
		"two modes: 1.25 µs (40 % of the samples) and 3 ms (60 %)": NewCondition(CodeModes, Named{"first": 1.25,
			"first_share": 0.4, "second": 3000, "second_share": 0.6}, "us"),
		"two modes: 12 GB/s (40 % of the samples) and 13 GB/s (60 %)": NewCondition(CodeModes, Named{"first": 12,
			"first_share": 0.4, "second": 13, "second_share": 0.6}, "GB/s"),
		"claim: the program printed t=600 for each of 3 calls, which is 1.8 s, but it ran for 1 ms (declare simulated: " +
			"true for times of another machine)": NewCondition(CodeClaim, Named{"printed": 600, "calls": 3,
			"claimed_us": 1.8e6, "ran_us": 1000}, "t"),
		"claim: the program printed t=600, which is 600 s, but it used 1 ms of processor time (declare simulated: " +
			"true for times of another machine)": NewCondition(CodeClaim, Named{"printed": 600, "claimed_us": 6e8,
			"cpu_us": 1000}, "t"),
		"rank 2: only 3 samples of at least 10 in 0.5 s": NewCondition(CodeFewSamples, Named{"samples": 3, "wanted": 10,
			"seconds": 0.5, "rank": 2}),
		"starved: rank 1 sent nothing for 12 s, while its threads waited 9.5 s for a processor": NewCondition(CodeStarved,
			Named{"rank": 1, "silent_s": 12, "waited_s": 9.5}),
		"a remark with [brackets] and {braces}":            NewCondition(CodeRemark, nil, "a remark with [brackets] and {braces}"),
		"load: other programs used ? of this host's cores": {Code: CodeForeign},
		"moon-phase: full a=1 b=2":                         NewCondition("moon-phase", Named{"b": 2, "a": 1}, "full"),
	} {
		if got := c.Sentence(); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", c, got, want)
		}
	}
}

// A footnote of several rows has the range of each value.
func TestSummarise(t *testing.T) {
	noise := func(v float64) Condition {
		return NewCondition(CodeNoise, Named{"noise": v, "target": 0.005}, "max-samples")
	}
	modes := func(a, b float64) Condition {
		return NewCondition(CodeModes, Named{"first": a, "first_share": 0.4, "second": b, "second_share": 0.6}, "us")
	}
	for want, cs := range map[string][]Condition{
		"noise: the median is known to 1.1 to 34.0 %, not 0.5 % (stopped: max-samples)": {noise(0.062), noise(0.34), noise(0.011)},
		"noise: the median is known to 6.2 %, not 0.5 % (stopped: max-samples)":         {noise(0.062), noise(0.062)},
		"two modes: 1 to 2 µs (40 % of the samples) and 3 µs to 4 ms (60 %)":            {modes(1, 3), modes(2, 4000)},
		"2 to 8 ranks share 2 cores": {NewCondition(CodeCrowded, Named{"ranks": 8, "cores": 2}),
			NewCondition(CodeCrowded, Named{"ranks": 2, "cores": 2})},
	} {
		if got := Summarise(cs); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", cs, got, want)
		}
	}
}

func TestConditionJSON(t *testing.T) {
	text := string(must.Get(json.Marshal(NewCondition(CodeSteal, Named{"share": 0.052, "bad": math.NaN()})))(t))
	if want := `{"code":"steal","values":{"share":0.052}}`; text != want {
		t.Errorf("%s, want %s", text, want)
	}
	var c Condition
	must.Do(t, json.Unmarshal([]byte(text), &c))
	if !c.Equal(NewCondition(CodeSteal, Named{"share": 0.052})) || c.Equal(NewCondition(CodeSteal, Named{"share": 1})) {
		t.Errorf("%+v", c)
	}
}

// TestMeanings checks the table of codes: its templates are well formed.
func TestMeanings(t *testing.T) {
	field := regexp.MustCompile(`\{([^}]*)\}`)
	for _, code := range Codes() {
		m := meanings[code]
		balanced := func(a, b string) bool { return strings.Count(m.text, a) == strings.Count(m.text, b) }
		if !balanced("[", "]") || !balanced("{", "}") {
			t.Errorf("%s: unbalanced brackets", code)
		}
		for _, f := range field.FindAllStringSubmatch(m.text, -1) {
			name, verb, _ := strings.Cut(f[1], " ")
			if verbs[verb] == nil || name == "" {
				t.Errorf("%s: {%s} has no verb", code, f[1])
			}
		}
	}
	if !slices.IsSorted(Codes()) {
		t.Error("the codes are not sorted")
	}
}
