package sweep

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// show formats rows as `point: metric=samples ...`, one per line, metrics sorted.
func show(rows []decl.ParsedRow) string {
	var b strings.Builder
	for _, r := range rows {
		var names []string
		for n := range r.Samples {
			names = append(names, n)
		}
		slices.Sort(names)
		b.WriteString(r.Extra.String() + ":")
		for _, n := range names {
			fmt.Fprintf(&b, " %s=%v", n, r.Samples[n])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestSources(t *testing.T) {
	for _, c := range []struct {
		name    string
		ranks   string
		metrics []string
		outputs []string
		want    string
	}{
		{"regex, every match", "", []string{`t: {regex: 'time=([0-9.]+)us'}`}, []string{"time=1us\nx time=2.5us time=3us"},
			": t=[1 2.5 3]\n"},
		{"regex, units converted", "", []string{`t_us: {regex: 'time=([0-9.]+)', unit: auto}`},
			[]string{"time=900us\ntime=1.1ms\ntime=2 s\ntime=5µs"}, ": t_us=[900 1100 2e+06 5]\n"},
		{"regex, words after the number", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`},
			[]string{"time=5 min=3 m\ntime=6 W\ntime=7, 8\ntime=8. Done\ntime=9 usec"}, ": t_us=[5 6 7 8 9]\n"},
		{"regex, words after a number without a unit", "", []string{`n: {regex: '\bn=([0-9.]+)'}`},
			[]string{"n=5 min=3\nn=6 min 3\nn=7 W\nn=8 ops\nn=9:1\nn=10x4\nn=11 M\nn=12 pm"}, ": n=[5 6 7 8 9 10 11 12]\n"},
		{"regex, units as labels", "", []string{`t_us: {regex: 'us: ([0-9.]+)'}`, `n: {regex: 'n=([0-9.]+)'}`},
			[]string{"us: 5 ms: 0.005 n=7 ms: 3\nus: 6 us: x"}, ": n=[7] t_us=[5 6]\n"},
		{"regex, label in another unit", "", []string{`t_us: {regex: 't_ms=([0-9.]+)', unit: us}`}, []string{"t_ms=5"},
			": t_us=[5]\n"},
		{"regex, per call", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=5us/iter t=6 us(max)"},
			": t_us=[5 6]\n"},
		{"regex, with the unit", "", []string{`bw: {regex: 'bw=([0-9.]+) ?MB/s'}`, `k: {regex: 'k=([0-9.]+)k'}`},
			[]string{"bw=5 MB/s bw=6MB/s k=7k"}, ": bw=[5 6] k=[7]\n"},
		{"regex, prefix allowed", "", []string{`t_us: {regex: '\w*time=([0-9.]+)'}`}, []string{"total_time=9us"},
			": t_us=[9]\n"},
		{"regex, named group", "", []string{`t: {regex: '(a|b)=(?P<value>\d+)'}`}, []string{"a=1\nb=2"}, ": t=[1 2]\n"},
		{"regex, line by line", "", []string{`t: {regex: '^([0-9]+)$'}`}, []string{"1\nx2\n3\n"}, ": t=[1 3]\n"},
		{"regex, exponent and sign", "", []string{`t: {regex: 't=(\S+)'}`}, []string{"t=-1.5e-3"}, ": t=[-0.0015]\n"},
		{"regex, alternative without the group", "", []string{`t: {regex: 'skip|t=(\d+)'}`}, []string{"skip t=1"},
			": t=[1]\n"},
		{"rank 0 by default", "[2]", []string{`t: {regex: 't=(\d+)'}`}, []string{"t=1", "t=9 t=9"}, ": t=[1]\n"},
		{"max", "[2]", []string{`t: {regex: 't=(\d+)', from: max}`}, []string{"t=1 t=5", "t=3 t=2"}, ": t=[3 5]\n"},
		{"min", "[2]", []string{`t: {regex: 't=(\d+)', from: min}`}, []string{"t=1 t=5", "t=3 t=2"}, ": t=[1 2]\n"},
		{"mean", "[2]", []string{`t: {regex: 't=(\d+)', from: mean}`}, []string{"t=1 t=5", "t=3 t=2"}, ": t=[2 3.5]\n"},
		{"json, lines", "", []string{`t: {json: r.t}`},
			[]string{"log\n{\"r\": {\"t\": 1}}\n{broken\n{\"r\": {\"t\": 2}}\n{\"q\": 3}\n"}, ": t=[1 2]\n"},
		{"json, whole output", "", []string{`t: {json: 'runs[1].t'}`},
			[]string{"{\n \"runs\": [\n {\"t\": 1}, {\"t\": 2} ]\n}\n"}, ": t=[2]\n"},
		{"json, a list of numbers", "", []string{`t: {json: times}`}, []string{`{"times": [1, 2, 3]}`}, ": t=[1 2 3]\n"},
		{"json, into each item", "", []string{`t: {json: runs.t}`}, []string{`{"runs": [{"t": 1}, {"u": 0}, {"t": 2}]}`},
			": t=[1 2]\n"},
		{"json, list at the top", "", []string{`t: {json: t}`}, []string{`[{"t": 1}, {"t": 2}]`}, ": t=[1 2]\n"},
		{"json, index at the top", "", []string{`t: {json: '[1].t'}`}, []string{`[{"t": 1}, {"t": 2}]`}, ": t=[2]\n"},
		{"json, null is not measured", "", []string{`t: {json: t}`}, []string{"{\"t\": null}\n{\"t\": 4}"}, ": t=[4]\n"},
		{"csv", "", []string{`t: {csv: time}`},
			[]string{"starting\nsize,dtype,time\n1024,f32,1.5\nwarning: slow\n2048,f32,2.5\ndone\n"},
			"size=1024 dtype=f32: t=[1.5]\nsize=2048 dtype=f32: t=[2.5]\n"},
		{"csv, equal keys are samples", "", []string{`t: {csv: time}`}, []string{"size,time\n1,1\n2,5\n1,2\n"},
			"size=1: t=[1 2]\nsize=2: t=[5]\n"},
		{"csv, chosen keys", "", []string{`t: {csv: time, keys: [size]}`}, []string{"size,stamp,time\n1,a,1\n1,b,2\n"},
			"size=1: t=[1 2]\n"},
		{"csv, several columns", "", []string{`t: {csv: time}`, `bw: {csv: bw}`}, []string{"n,time,bw\n1,2,3\n"},
			"n=1: bw=[3] t=[2]\n"},
		{"csv, quotes, blanks, repeated header", "", []string{`t: {csv: time}`},
			[]string{"name , time\n\"a, b\", 1\nname , time\nc,2\n"},
			"name=\"a, b\": t=[1]\nname=c: t=[2]\n"},
		{"csv, no other column", "", []string{`t: {csv: time}`}, []string{"time\n1\n2\n"}, ": t=[1 2]\n"},
		{"csv, names that look like numbers", "", []string{`t: {csv: time}`},
			[]string{"n,id,time\n7,12345678901234567891,1\n007,12345678901234567892,2\n"},
			"n=7 id=12345678901234567891: t=[1]\nn=007 id=12345678901234567892: t=[2]\n"},
		{"csv, fractions as keys", "", []string{`t: {csv: time}`}, []string{"f,time\n1,1\n2.5,1\n"},
			"f=1: t=[1]\nf=2.5: t=[1]\n"},
		{"csv, malformed lines are noise", "", []string{`t: {csv: time}`}, []string{"n,time\n\na\"b,2\n1,2\n"},
			"n=1: t=[2]\n"},
		{"json, beyond a list or a number", "",
			[]string{`t: {json: 'a[3].b'}`, `u: {json: u}`, `v: {json: v.w, stream: both}`},
			[]string{`{"a": [1], "u": 1, "v": {"w": 1}}` + "\n" + `{"a": [0, 0, 0, {"b": 2}], "v": 7}` + "\n" +
				`{"a": {"b": 1}}`},
			": t=[2] u=[1] v=[1]\n"},
		{"csv, another table below", "", []string{`t: {csv: t}`}, []string{"n,t\n1,2\nleft: 3\nk,max,min\n7,8,9\n"},
			"n=1: t=[2]\n"},
		{"csv over ranks", "[2]", []string{`t: {csv: time, from: max}`, `u: {csv: u}`},
			[]string{"n,time,u\n1,5,1\n2,6,2\n", "n,time,u\n2,9,9\n1,2,9\n"},
			"n=1: t=[5] u=[1]\nn=2: t=[9] u=[2]\n"},
		{"scalars repeat on each row", "", []string{`t: {csv: time}`, `total: {regex: 'total=(\d+)'}`},
			[]string{"n,time\n1,5\n2,6\ntotal=7"},
			"n=1: t=[5] total=[7]\nn=2: t=[6] total=[7]\n"},
	} {
		rows, err := mustParse(t, withMetrics(c.ranks, c.metrics...)).Command.Parse(outputs(c.outputs...))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, show(rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestSourceFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		ranks   string
		metrics []string
		outputs []string
		want    string
	}{
		{"no match", "", []string{`t: {regex: 't=(\d+)'}`}, []string{"1\n2\n3\n4\n5\n6\nlast words\n"},
			"metric t: rank 0 printed nothing that matches the expression t=(\\d+); the end of its stdout:\n    3\n    4\n   " +
				" 5\n    6\n    last words"},
		{"no output", "", []string{`t: {json: a}`}, []string{""},
			"metric t: rank 0 printed nothing that matches the JSON field a; it printed nothing"},
		{"the rank is named", "[2]", []string{`t: {regex: 't=(\d+)', from: max}`}, []string{"t=1", "oops"},
			"metric t: rank 1 printed nothing that matches the expression t=(\\d+); the end of its stdout:\n    oops"},
		{"unequal counts", "[2]", []string{`t: {regex: 't=(\d+)', from: max}`}, []string{"t=1 t=2", "t=1"},
			"metric t: rank 0 has 2 samples but rank 1 has 1 sample: max over ranks needs equally many"},
		{"not a number", "", []string{`t: {regex: 't=(\S+)'}`}, []string{"t=fast"},
			`metric t: rank 0: "fast" is not a finite number in "t=fast"`},
		{"not finite", "", []string{`t: {regex: 't=(\S+)'}`}, []string{"t=nan"},
			`metric t: rank 0: "nan" is not a finite number in "t=nan"`},
		{"thousands", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`}, []string{"x\n time=1,234us\n"},
			`metric t_us: rank 0: the number goes on after "1", with ",2": the group must match all of it, in the line ` +
				`"time=1,234us"`},
		{"exponent", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`}, []string{"time=1.5e3us"},
			`metric t_us: rank 0: the number goes on after "1.5", with "e3": the group must match all of it, in the line ` +
				`"time=1.5e3us"`},
		{"end of a number", "", []string{`t_us: {regex: '([0-9.]+) us'}`}, []string{"took 1,234 us"},
			`metric t_us: rank 0: the number begins before "234": the group must match all of it, in the line "took 1,234 us"`},
		{"end of an exponent", "", []string{`t_us: {regex: '([0-9.]+) us'}`}, []string{"took 1.2e+03 us"},
			`metric t_us: rank 0: the number begins before "03": the group must match all of it, in the line "took 1.2e+03 us"`},
		{"exponent without a sign", "", []string{`t_us: {regex: '([0-9.]+) us'}`}, []string{"1E05 us"},
			`metric t_us: rank 0: the number begins before "05": the group must match all of it, in the line "1E05 us"`},
		{"sign left out", "", []string{`t_us: {regex: '([0-9.]+) us'}`}, []string{"took=-5 us"},
			`metric t_us: rank 0: the number begins before "5": the group must match all of it, in the line "took=-5 us"`},
		{"thousands of Python", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=1_000 us"},
			`metric t_us: rank 0: the number goes on after "1", with "_0": the group must match all of it, in the line "t=1_000 us"`},
		{"thousands of France", "", []string{`t_us: {regex: '([0-9.]+) us'}`}, []string{"t=1\u202f234 us"},
			"metric t_us: rank 0: the number begins before \"234\": the group must match all of it, in the line " +
				"\"t=1\\u202f234 us\""},
		{"minus sign of Unicode", "", []string{`t: {regex: '=.*?([0-9.]+)$'}`}, []string{"t=\u22125"},
			`metric t: rank 0: the number begins before "5": the group must match all of it, in the line "t=−5"`},
		{"hexadecimal", "", []string{`t: {regex: 't=([0-9]+)'}`}, []string{"t=0x1F"},
			`metric t: rank 0: the number goes on after "0", with "x1": the group must match all of it, in the line "t=0x1F"`},
		{"minutes and seconds", "", []string{`t_s: {regex: 'real\s+([0-9.]+)'}`}, []string{"real\t1m30.5s"},
			`metric t_s: rank 0: the number goes on after "1", with "m30.5s": the group must match all of it, in the line ` +
				`"real\t1m30.5s"`},
		{"clock", "", []string{`t_s: {regex: '([0-9.]+)\S*elapsed'}`}, []string{"1:30.50elapsed"},
			`metric t_s: rank 0: the number goes on after "1", with ":30": the group must match all of it, in the line ` +
				`"1:30.50elapsed"`},
		{"clock, its minutes", "", []string{`t_s: {regex: 'elapsed ([0-9.]+)'}`}, []string{"elapsed 1:30"},
			`metric t_s: rank 0: the number goes on after "1", with ":30": the group must match all of it, in the line ` +
				`"elapsed 1:30"`},
		{"thousands as a letter", "", []string{`iops: {regex: 'IOPS=([0-9.]+)'}`}, []string{"IOPS=900, BW\nIOPS=12.5k, BW"},
			`metric iops: rank 0: "12.5" is followed by k, which would be lost: print the whole number, or put k into the ` +
				`expression, in the line "IOPS=12.5k, BW"`},
		{"undeclared unit", "", []string{`bw: {regex: 'bw=([0-9.]+)'}`}, []string{"bw=900 MB/s\nbw=1.2 GB/s"},
			`metric bw: rank 0: "900" is in MB/s, but the metric has no unit: declare unit: MB/s, or put MB/s into the ` +
				`expression, in the line "bw=900 MB/s"`},
		{"undeclared unit of time", "", []string{`lat: {regex: 'lat=([0-9.]+)'}`}, []string{"lat=1.2ms"},
			`metric lat: rank 0: "1.2" is in ms, but the metric has no unit: declare unit: ms, or put ms into the ` +
				`expression, in the line "lat=1.2ms"`},
		{"a rate instead of a time", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=900 MB/s"},
			`metric t_us: rank 0: "900" is in MB/s, which cannot be converted to the declared unit us, in the line "t=900 MB/s"`},
		{"millibits", "", []string{`x_gbps: {regex: '([0-9.]+)', unit: auto}`}, []string{"100 mbps"},
			`metric x_gbps: rank 0: "100" is in mbps, which cannot be converted to the declared unit GB/s, in the line ` +
				`"100 mbps"`},
		{"unit before a colon", "", []string{`t_us: {regex: 'avg ([0-9.]+)'}`}, []string{"avg 5 ms: ok"},
			`metric t_us: rank 0: "5" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"avg 5 ms: ok"`},
		{"unit in full", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=5 milliseconds"},
			`metric t_us: rank 0: "5" is in milliseconds, but the declared unit is us: declare unit: auto to convert it, in ` +
				`the line "t=5 milliseconds"`},
		{"csv, digits in groups", "", []string{`t: {csv: t}`}, []string{"op,t\na,5.0\nb,1,234.5\n"},
			`metric t: rank 0: line 3 has 3 fields, but the header has 2: "b,1,234.5"; the end of its stdout:
    op,t
    a,5.0
    b,1,234.5`},
		{"csv, cell left out", "", []string{`t: {csv: t}`}, []string{"size,k,t\n1,1,5.0\n2,6.0\n"},
			`metric t: rank 0: line 3 has 2 fields, but the header has 3: "2,6.0"; the end of its stdout:
    size,k,t
    1,1,5.0
    2,6.0`},
		{"unit in capitals", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=5MSEC"},
			`metric t_us: rank 0: "5" is in MSEC, but the declared unit is us: declare unit: auto to convert it, in the ` +
				`line "t=5MSEC"`},
		{"unit per call", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=5 ms/iter"},
			`metric t_us: rank 0: "5" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"t=5 ms/iter"`},
		{"unit and a bracket", "", []string{`t_us: {regex: 't=([0-9.]+)'}`}, []string{"t=5ms(mean)"},
			`metric t_us: rank 0: "5" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"t=5ms(mean)"`},
		{"unit before", "", []string{`t_us: {regex: 'time_ms=([0-9.]+)'}`}, []string{"time_ms=5"},
			`metric t_us: rank 0: the label before "5" says ms, but the metric is in us: name the metric after its unit, or ` +
				`declare unit: us, in the line "time_ms=5"`},
		{"unit before, in brackets", "", []string{`t_us: {regex: 'call.*: ([0-9.]+)'}`}, []string{"x\nTime per call [ms]: 5"},
			`metric t_us: rank 0: the label before "5" says ms, but the metric is in us: name the metric after its unit, or ` +
				`declare unit: us, in the line "Time per call [ms]: 5"`},
		{"point left out", "", []string{`t_us: {regex: '([0-9]+) us'}`}, []string{"took .5 us"},
			`metric t_us: rank 0: the number begins before "5": the group must match all of it, in the line "took .5 us"`},
		{"malformed JSON", "", []string{`t: {json: t}`}, []string{"{log}\n{\"t\": 1}\n{\"t\": NaN}\n"},
			`metric t: rank 0: the line "{\"t\": NaN}" is not JSON: invalid character 'N' looking for beginning of value`},
		{"another unit, aligned", "", []string{`t_us: {regex: 'time ([0-9.]+)'}`}, []string{"time 12.5   ms"},
			`metric t_us: rank 0: "12.5" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"time 12.5   ms"`},
		{"another unit, in brackets", "", []string{`t_us: {regex: 'time ([0-9.]+)'}`}, []string{"time 12.5 [ms]"},
			`metric t_us: rank 0: "12.5" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"time 12.5 [ms]"`},
		{"another unit", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`}, []string{"time=900us\ntime=1.1ms\n"},
			`metric t_us: rank 0: "1.1" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"time=1.1ms"`},
		{"another unit, apart", "", []string{`t: {regex: 'time=([0-9.]+)', unit: us}`}, []string{"time=12.5 ms"},
			`metric t: rank 0: "12.5" is in ms, but the declared unit is us: declare unit: auto to convert it, in the line ` +
				`"time=12.5 ms"`},
		{"another dimension", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`}, []string{"time=12.5GB/s"},
			`metric t_us: rank 0: "12.5" is in GB/s, which cannot be converted to the declared unit us, in the line ` +
				`"time=12.5GB/s"`},
		{"longer word", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`}, []string{"total_time=9999us"},
			`metric t_us: rank 0: the expression time=([0-9.]+) matches inside the longer word "total_time": begin it with \b ` +
				`for whole words, or with \w* to allow this, in the line "total_time=9999us"`},
		{"very long word", "", []string{`t_us: {regex: 'time=([0-9.]+)'}`}, []string{strings.Repeat("x", 300) + "time=9us"},
			`metric t_us: rank 0: the expression time=([0-9.]+) matches inside the longer word "` + strings.Repeat("x", 200) +
				`...": begin it with \b for whole words, or with \w* to allow this, in the line "` + strings.Repeat("x", 200) +
				`..."`},
		{"no unit to read", "", []string{`t_us: {regex: 'time=([0-9.]+)', unit: auto}`}, []string{"time=12.5"},
			`metric t_us: rank 0: no known unit follows "12.5", as unit: auto requires, in the line "time=12.5"`},
		{"json text", "", []string{`t: {json: t}`}, []string{`{"t": "1"}`}, `metric t: rank 0: t is "1", not a number`},
		{"long text", "", []string{`t: {regex: 't=(\S+)'}`}, []string{"t=" + strings.Repeat("x", 300)},
			`metric t: rank 0: "` + strings.Repeat("x", 200) + `..." is not a finite number in "t=` + strings.Repeat("x", 198) +
				`..."`},
		{"json object", "", []string{`t: {json: t}`}, []string{`{"t": {"a": 1}}`},
			`metric t: rank 0: t is {"a":1}, not a number`},
		{"no header", "", []string{`t: {csv: time}`, `u: {csv: u}`}, []string{"time\n1\n"},
			"metrics t, u: rank 0: no line is a CSV header with the columns \"time\", \"u\"; the end of its stdout:\n    " +
				"time\n    1"},
		{"header only", "", []string{`t: {csv: time}`}, []string{"time\n"},
			"metric t: rank 0: the table has a header and no lines; the end of its stdout:\n    time"},
		{"csv text", "", []string{`t: {csv: time}`}, []string{"n,time\n1,x\n"},
			"metric t: rank 0: column \"time\", line 2: \"x\" is not a finite number; the end of its stdout:\n    " +
				"n,time\n    1,x"},
		{"column twice", "", []string{`t: {csv: time}`}, []string{"time,time\n1,2\n"},
			"metric t: rank 0: the CSV header has a duplicate column \"time\"; the end of its stdout:\n    time,time\n    1,2"},
		{"key named as a metric", "", []string{`t: {csv: time}`}, []string{"t,time\n1,2\n"},
			"metric t: rank 0: the key column \"t\" has the name of a metric: rename the metric, or list the wanted columns " +
				"with keys; the end of its stdout:\n    t,time\n    1,2"},
		{"reserved key", "", []string{`t: {csv: time}`}, []string{"backend,time\n1,2\n"},
			"metric t: rank 0: the key column \"backend\" has a name that kernbench uses itself: list the wanted columns " +
				"with keys; the end of its stdout:\n    backend,time\n    1,2"},
		{"other lines", "[2]", []string{`t: {csv: time, from: max}`}, []string{"n,time\n1,2\n", "n,time\n2,2\n"},
			"metric t: rank 1: its table and rank 0's have different lines (n=1); the end of its stdout:\n    n,time\n    2,2"},
		{"more lines", "[2]", []string{`t: {csv: time, from: max}`}, []string{"n,time\n1,2\n", "n,time\n1,2\n2,2\n"},
			"metric t: rank 1: its table and rank 0's have different lines (n=1); the end of its stdout:\n    n,time\n    " +
				"1,2\n    2,2"},
		{"no nccl table", "", []string{`t: {nccl_tests: time}`}, []string{"# size\n1 2 3\n"},
			"metric t: rank 0: no table of nccl-tests: no line starts with \"#  size  count\" and has algbw; the end of its " +
				"stdout:\n    # size\n    1 2 3"},
		{"short nccl line", "", []string{`t: {nccl_tests: time}`},
			[]string{"#  size count type time algbw busbw\n 8 2 float 1.0 2.0\n"},
			"metric t: rank 0: line 2 of the nccl-tests table: the line has 5 fields, the header 6: it is cut off or not of " +
				"this table; the end of its stdout:\n    #  size count type time algbw busbw\n     8 2 float 1.0 2.0"},
		{"negative size", "", []string{`t: {nccl_tests: time}`}, []string{"#  size time algbw\n -8 1 2\n"},
			"metric t: rank 0: line 2 of the nccl-tests table: the size \"-8\" is not a number of bytes; the end of its " +
				"stdout:\n    #  size time algbw\n     -8 1 2"},
		{"nccl text", "", []string{`t: {nccl_tests: time}`}, []string{"#  size time algbw\n 8 x 2\n"},
			"metric t: rank 0: line 2 of the nccl-tests table: time is \"x\", want a number or N/A; the end of its stdout:\n " +
				"   #  size time algbw\n     8 x 2"},
		{"no such place", "", []string{`t: {nccl_tests: time, place: in}`},
			[]string{"#  size count type time algbw busbw\n 8 2 float 1.0 2.0 3.0\n"},
			"metric t: rank 0: the nccl-tests table has no column time in place; the end of its stdout:\n    #  size count " +
				"type time algbw busbw\n     8 2 float 1.0 2.0 3.0"},
	} {
		rows, err := mustParse(t, withMetrics(c.ranks, c.metrics...)).Command.Parse(outputs(c.outputs...))
		if err == nil {
			t.Errorf("%s: no error but\n%s", c.name, show(rows))
		} else if diff := cmp.Diff(c.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if _, err := mustParse(t, withMetrics("", "t: {wall: true}")).Command.Parse(nil); err == nil {
		t.Error("no rank at all: no error")
	}
}

func TestNCCLTests(t *testing.T) {
	all := []string{"t: {nccl_tests: time}", "t_in: {nccl_tests: time, place: in}", "busbw: {nccl_tests: busbw}",
		"bad: {nccl_tests: wrong, place: in}"}
	for _, c := range []struct {
		file    string
		metrics []string
		want    string
	}{
		{"nccl-classic.txt", all, `size=8 type=float redop=sum: bad=[0] busbw=[0] t=[135.8] t_in=[123.5]
size=1Mi type=float redop=sum: bad=[2] busbw=[9.68] t=[203.2] t_in=[207.2]
size=128Mi type=float redop=sum: bad=[0] busbw=[152.32] t=[1652.2] t_in=[1636.7]
`},
		{"nccl-2.0.txt", append(all, "err: {nccl_tests: wrong}"),
			`size=8 type=float redop=sum: bad=[0] busbw=[0] err=[1e-07] t=[10.95] t_in=[10.53]
size=16 type=float redop=sum: bad=[0] busbw=[0] err=[0] t=[10.75] t_in=[10.48]
`},
		{"nccl-iters.txt", all[:3], `size=4Ki type=half redop=none root=0: busbw=[0.33] t=[12.31] t_in=[11.05]
size=4Ki type=half redop=none root=1: busbw=[0.33] t=[12.52] t_in=[11.21]
`},
		{"nccl-per-iteration.txt", all, `size=1Mi type=bfloat16 redop=sum: bad=[0] busbw=[58.72] t=[31.25] t_in=[30.75]
`},
	} {
		text := must.Get(os.ReadFile("testdata/" + c.file))(t)
		rows, err := mustParse(t, withMetrics("", c.metrics...)).Command.Parse(outputs(string(text)))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if diff := cmp.Diff(c.want, show(rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
	}
	// Checking was off: a metric that is N/A on every line is an error.
	text, _ := os.ReadFile("testdata/nccl-iters.txt")
	_, err := mustParse(t, withMetrics("", all...)).Command.Parse(outputs(string(text)))
	if err == nil || !strings.HasPrefix(err.Error(), "metric bad: rank 0 printed N/A for wrong on every line") {
		t.Errorf("N/A: %v", err)
	}
}

// A key column that is also an axis is dropped. A table with several values of it is an error.
func TestKeyColumnThatIsAnAxis(t *testing.T) {
	p := mustParse(t, "name: x\ncommand: [prog, \"{size}\"]\nranks: [2]\naxes: {size: [8]}\nmetrics: {t: {csv: time}}\n")
	rows, err := p.Command.Parse(outputs("size,n,num_ranks,time\n8,1,2,3\n8,2,2,4\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := show(rows); got != "n=1: t=[3]\nn=2: t=[4]\n" || rows[1].Printed.String() != "size=8 num_ranks=2" {
		t.Errorf("%s, printed %v", got, rows[1].Printed)
	}
	_, err = p.Command.Parse(outputs("size,time\n8,3\n16,4\n"))
	if err == nil || !strings.Contains(err.Error(),
		`the column "size" holds 8 and, in line 3, 16, but "size" is an axis`) {
		t.Errorf("%v", err)
	}
}

// Key columns are numbers if all their cells are, so that they sort and filter as numbers.
func TestKeyKinds(t *testing.T) {
	rows := must.Get(mustParse(t, withMetrics("",
		"t: {csv: time}")).Command.Parse(outputs("i,f,s,time\n1,1,1,5\n-2,2.5,x,5\n")))(t)
	for i, want := range []point.Kind{point.Int, point.Float, point.String} {
		for _, r := range rows {
			if got := r.Extra[i].Value.Kind(); got != want {
				t.Errorf("column %s: %v, want %v", r.Extra[i].Name, got, want)
			}
		}
	}
}

// TestClaims holds printed times against the time that the program ran.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		metric, output string
		wall           time.Duration // with 10 s of processor time
		want           string
	}{
		{`t_us: {regex: 't=(.+)'}`, "t=600000000", time.Millisecond,
			"claim: the program printed t_us=600000000, which is 600 s, but it ran for 1 ms (declare simulated: true for times " +
				"of another machine)"},
		{`t_us: {regex: 't=(.+)', simulated: true}`, "t=600000000", time.Millisecond, ""},
		{`t_us: {regex: 't=(.+)'}`, "t=5\nt=0", time.Second,
			"claim: the program printed t_us=0, but every call takes some time"},
		{`t_us: {regex: 't=(.+)'}`, "t=900000", time.Second, ""},
		{`t_us: {regex: 't=(.+)', calls: 1000}`, "t=900000", time.Second,
			"claim: the program printed t_us=900000 for each of 1000 calls, which is 900 s, but it ran for 1 s (declare " +
				"simulated: true for times of another machine)"},
		{`loss: {regex: 't=(.+)'}`, "t=0", time.Second, ""},
		{"loss: {regex: 'loss=(\\d+)'}\n  t_us: {regex: ' t=(.+)'}", "loss=3 t=0", time.Second,
			"claim: the program printed t_us=0, but every call takes some time"},
		// A sleeping program takes longer than its processor time, and threads take more of that than of wall time.
		{`t_us: {regex: 't=(.+)'}`, "t=15000000", time.Minute, ""},
		{`cpu_us: {regex: 't=(.+)'}`, "t=9000000", 2 * time.Second, ""},
		{`user_CPU_s: {regex: 't=(.+)'}`, "t=11", time.Minute, "claim: the program printed user_CPU_s=11, which is 11 s, but " +
			"it used 10 s of processor time (declare simulated: true for times of another machine)"},
	} {
		p := mustParse(t, withMetrics("", c.metric))
		rows := must.Get(p.Command.Parse([]decl.RankOutput{{Stdout: []byte(c.output), Wall: c.wall,
			CPU: 10 * time.Second}}))(t)
		if got := strings.Join(rows[0].Doubt.Sentences(), "; "); got != c.want {
			t.Errorf("%s: %s: %q, want %q", c.metric, c.output, got, c.want)
		}
	}
}

// TestNegativeTimes checks that a row whose time is below zero fails, whatever the metric is called. Other metrics may
// be differences.
func TestNegativeTimes(t *testing.T) {
	const bad = "no time is below zero"
	for metrics, want := range map[string]string{
		`t_us: {regex: 't=(.+)'}`:                                      "t_us is -3: " + bad,
		`t_ms: {regex: 't=(.+)', simulated: true}`:                     "t_ms is -3: " + bad,
		"loss: {regex: 'x=(.+)'}\ntime_us: {regex: 't=(.+)'}":          "time_us is -3: " + bad,
		"first_us: {regex: 'x=(.+)'}\nskew_us: {regex: 't=(.+)'}":      "",
		"skew_gbps: {regex: 't=(.+)'}\nfirst_us: {regex: 'x=(.+)'}":    "",
		"first_gbps: {regex: 'x=(.+)'}\nof_time_us: {regex: 't=(.+)'}": "of_time_us is -3: " + bad, // the only time
		`t: {regex: 't=(.+)'}`:                                         "",
		`t_us: {regex: 't=(.+)', unit: percent}`:                       "",
	} {
		p := mustParse(t, withMetrics("", strings.Split(metrics, "\n")...))
		rows := must.Get(p.Command.Parse([]decl.RankOutput{{Stdout: []byte("t=5\nt=-3\nx=1\nx=1"), Wall: time.Second}}))(t)
		if rows[0].Wrong != want {
			t.Errorf("%s: %q, want %q", metrics, rows[0].Wrong, want)
		}
	}
}

// TestLongLine checks that the time to read a line grows in proportion to its length. It once took minutes for 20,000
// numbers, because the label of each number was looked for in all of the line.
func TestLongLine(t *testing.T) {
	const n = 20_000
	p := mustParse(t, withMetrics("", `t_us: {regex: '\b([0-9.]+)'}`))
	began := time.Now()
	rows := must.Get(p.Command.Parse(outputs("times" + strings.Repeat(" 1.5", n))))(t)
	if got := len(rows[0].Samples["t_us"]); got != n || time.Since(began) > time.Minute {
		t.Errorf("%d samples after %v, want %d", got, time.Since(began), n)
	}
}

func TestStreamsAndWall(t *testing.T) {
	out := []decl.RankOutput{
		{Rank: 1, Stdout: []byte("t=10"), Stderr: []byte("t=20"), Wall: 3 * time.Second},
		{Rank: 0, Stdout: []byte("t=1"), Stderr: []byte("t=2"), Wall: 1500 * time.Millisecond},
	}
	p := mustParse(t, withMetrics("[2]", `a: {regex: 't=(\d+)'}`, `b: {regex: 't=(\d+)', stream: stderr}`,
		`c: {regex: 't=(\d+)', stream: both}`,
		"w: {wall: true}", "w_s: {wall: true, from: max}", "w_ms: {wall: true, from: mean}"))
	rows := must.Get(p.Command.Parse(out))(t)
	if got, want := show(rows), ": a=[1] b=[2] c=[1 2] w=[1.5e+06] w_ms=[2250] w_s=[3]\n"; got != want {
		t.Errorf("have %swant %s", got, want)
	}
	if out[0].Rank != 1 {
		t.Error("the caller's outputs were reordered")
	}
}

// The combination over ranks agrees with its definition.
func TestCombineProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, n := rapid.IntRange(1, 5).Draw(t, "ranks"), rapid.IntRange(1, 6).Draw(t, "samples")
		from := rapid.SampledFrom([]string{"max", "min", "mean"}).Draw(t, "from")
		texts, values := make([]string, ranks), make([][]float64, ranks)
		for r := range ranks {
			for range n {
				v := float64(rapid.IntRange(0, 1000).Draw(t, "v"))
				values[r] = append(values[r], v)
				texts[r] += fmt.Sprintf("t=%v\n", v)
			}
		}
		bench := must.Get(Parse("s.yaml", []byte(withMetrics(fmt.Sprint(ranks), "t: {regex: 't=(.+)', from: "+from+"}"))))(t)
		rows := must.Get(bench.Parts[0].Command.Parse(outputs(texts...)))(t)
		for i, got := range rows[0].Samples["t"] {
			column := make([]float64, ranks)
			sum := 0.0
			for r := range ranks {
				column[r] = values[r][i]
				sum += column[r]
			}
			want := map[string]float64{"max": slices.Max(column), "min": slices.Min(column), "mean": sum / float64(ranks)}[from]
			if math.Abs(got-want) > 1e-9*want || len(rows[0].Samples["t"]) != n {
				t.Fatalf("%s of %v: have %v, want %v", from, column, got, want)
			}
		}
	})
}
