package sweep

import (
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// wrongs lists the wrong rows with their reasons.
func wrongs(rows []decl.ParsedRow) string {
	var texts []string
	for _, r := range rows {
		texts = append(texts, r.Wrong)
	}
	return strings.Join(texts, "|")
}

// A table that counts wrong elements fails the rows that have some, even if the column is no
// metric.
func TestWrongColumns(t *testing.T) {
	classic := must.Get(os.ReadFile("testdata/nccl-classic.txt"))(t)
	old := must.Get(os.ReadFile("testdata/nccl-2.0.txt"))(t)
	for _, c := range []struct{ name, metric, text, want string }{
		{"in place, asked for out of place", "t: {nccl_tests: time}", string(classic), "|2 wrong elements|"},
		{"deviations within bounds", "t: {nccl_tests: time}", string(old), "|"},
		{"deviations out of bounds", "t: {nccl_tests: time}",
			strings.Replace(string(old), "values : 0 OK", "values : 7 FAILED", 1),
			"the program says: Out of bounds values : 7 FAILED|the program says: Out of bounds values : 7 FAILED"},
		{"csv", "t: {csv: time}", "size,time,wrong\n1,2,0\n2,3,7\n", "|7 wrong elements"},
		{"csv, of one key", "t: {csv: time}", "size,time,#wrong\n1,2,7\n1,3,0\n", "7 wrong elements"},
		{"csv, words", "t: {csv: time}", "size,time,wrong\n1,2,false\n2,3,true\n3,4,nan\n4,5,N/A\n5,6,\n",
			`|the column wrong says "true"|the column wrong says "nan"||`},
		{"csv, a metric", "t: {csv: time}; bad: {csv: wrong}", "size,time,wrong\n1,2,1\n", "1 wrong elements"},
		{"csv, a key", "t: {csv: time, keys: [wrong]}", "time,wrong\n2,7\n", ""},
	} {
		rows, err := mustParse(t, withMetrics("", strings.Split(c.metric, "; ")...)).Command.Parse(outputs(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := wrongs(rows); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	// A table over all ranks is wrong if it is wrong on any rank.
	p := mustParse(t, withMetrics("[2]", "t: {csv: time, from: max}"))
	rows, err := p.Command.Parse(outputs("size,time,wrong\n1,2,0\n", "size,time,wrong\n1,2,3\n"))
	if err != nil || wrongs(rows) != "rank 1: 3 wrong elements" {
		t.Errorf("%v %q", err, wrongs(rows))
	}
}

// Rows that do not meet the checks of the sweep fail.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ check, output, want string }{
		{"err < 1e-3", "t=1 err=1e-4", ""},
		{"err < 1e-3", "t=1 err=0.5", "check err < 1e-3 does not hold: err=0.5"},
		{"err < 1e-3", "t=1 err=0\nt=1 err=7\nt=1 err=0", "check err < 1e-3 does not hold: err=7"},
		{"err == 0 && t > 0", "t=0 err=0", "check err == 0 && t > 0 does not hold: err=0, t=0"},
		{"{match: '^PASSED$'}", "t=1 err=0\nPASSED", ""},
		{"{match: '^PASSED$'}", "t=1 err=0\nNOT PASSED", "check match ^PASSED$: no rank printed it"},
		{"{no_match: '(?i)nan'}", "t=1 err=0", ""},
		{"{no_match: '(?i)nan'}", "t=1 err=0 loss=NaN", `check no_match (?i)nan: rank 0 printed "NaN"`},
		{"[t > 0, {no_match: oops, stream: stderr}]", "t=1 err=0 oops", ""},
		{"[t > 0, {no_match: oops}]", "t=1 err=0 oops", `check no_match oops: rank 0 printed "oops"`},
	} {
		p := mustParse(t, withMetrics("", "t: {regex: 't=([0-9.]+)'}", "err: {regex: 'err=(\\S+)'}")+"check: "+c.check+"\n")
		rows, err := p.Command.Parse(outputs(c.output))
		if err != nil {
			t.Errorf("%s: %v", c.check, err)
		} else if got := wrongs(rows); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.check, c.output, got, c.want)
		}
		if p.Command.Inputs["check"] == "" {
			t.Errorf("%s: rows that were checked otherwise have the same key", c.check)
		}
	}
}

// An invalid check is a fault of the sweep file.
func TestBadCheck(t *testing.T) {
	for check, want := range map[string]string{
		"tt > 0":                  `unknown name "tt"`,
		"t >":                     "want a value after t >",
		"{match: '('}":            "error parsing regexp",
		"{}":                      "want one of match and no_match",
		"{match: a, no_match: b}": "want one of match and no_match",
		"{matches: a}":            `unknown key "matches"`,
	} {
		_, err := Parse("sweep.yaml", []byte(withMetrics("", "t: {wall: true}")+"check: "+check+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", check, err)
		}
	}
}
