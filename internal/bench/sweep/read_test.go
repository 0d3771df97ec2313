package sweep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestWholeSweep(t *testing.T) {
	bench := must.Get(Parse("some/where/sweep.yaml", []byte(`
name: rccl-cta-sweep
description: |
  one line for the list
  and more for the help
command: ["python3", "bench.py", "--m", "{M}", -n, 8]
dir: ../bin
ranks: [2, 4]
axes: {M: [1, 32]}
env:
  NCCL_MIN_CTAS: &ctas ["32", "64", null]
  NCCL_MAX_CTAS: *ctas
zip: [[NCCL_MIN_CTAS, NCCL_MAX_CTAS]]
metrics:
  time_us: {regex: 'time=([0-9.]+)us'}
  peak: {json: a.b, unit: GB, better: higher, from: max}
timeout: 1m30s
trials: 3
`)))(t)
	p := bench.Parts[0]
	if bench.Name != "rccl-cta-sweep" || bench.Help != "one line for the list" ||
		!strings.Contains(bench.Doc, "and more") {
		t.Errorf("name %q, help %q, doc %q", bench.Name, bench.Help, bench.Doc)
	}
	if p.Timeout != 90*time.Second || p.Trials != 3 || p.Command.OwnRanks || p.Command.Dir != "some/bin" {
		t.Errorf("timeout %v, trials %d, own ranks %v, dir %q", p.Timeout, p.Trials, p.Command.OwnRanks, p.Command.Dir)
	}
	want := []string{"python3", "bench.py", "--m", "{M}", "-n", "8"}
	if diff := cmp.Diff(want, p.Command.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	axes := "num_ranks int 2,4; M int 1,32; env NCCL_MIN_CTAS 32 64 (unset); env NCCL_MAX_CTAS 32 64 (unset)"
	if got := describeAxes(p); got != axes {
		t.Errorf("axes: %s, want %s", got, axes)
	}
	if diff := cmp.Diff([][]string{{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}}, p.Zips); diff != "" {
		t.Errorf("zips (-want +got):\n%s", diff)
	}
	infos := []journal.MetricInfo{{Name: "time_us", Unit: "us", Better: "lower"},
		{Name: "peak", Unit: "GB", Better: "higher"}}
	if diff := cmp.Diff(infos, p.Metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func describeAxes(p *decl.Part) string {
	var parts []string
	for _, a := range p.Axes {
		parts = append(parts, fmt.Sprintf("%s %v %s", a.Name, a.Kind, point.FormatSpec(a.Values)))
	}
	for _, e := range p.Envs {
		words := []string{"env", e.Name}
		for _, v := range e.Values {
			words = append(words, v.Text())
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, "; ")
}

func TestAxisValues(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"[1, 32, 128]", "int 1,32,128"},
		{"[1K, 4K]", "int 1000,4000"},
		{"[1, 2.5]", "float 1,2.5"},
		{"[-1, 0, 1]", "int -1,0,1"},
		{"[1e3, 2]", "float 1000,2"},
		{"[true, false]", "bool true,false"},
		{"[yes, no]", "string yes,no"},
		{"[on, off]", "string on,off"},
		{"[ring, tree]", "string ring,tree"},
		{`["1", "2"]`, "string 1,2"},
		{`["007", '1_000']`, "string 007,1_000"},
		{"[1, a]", "string 1,a"},
		{`[a, ""]`, `string a,""`},
		{"[1, 2x]", "string 1,2x"},
		{"128", "int 128"},
		{`"1,2,8"`, "int 1,2,8"},
		{"1,2,8", "int 1,2,8"},
		{`"1K:64K:x4"`, "int 1000,4000,16000,64000"},
		{"1:64:x8", "int 1,8,64"},
		{"0:1:+0.5", "float 0,0.5,1"},
		{"pow2:3:5", "int 8,16,32"},
		{"ring,tree", "string ring,tree"},
		{"true,false", "bool true,false"},
		{"tcp:a,ib:b", "string tcp:a,ib:b"},
		{"{type: bytes, values: '1K:64M:x64'}", "bytes 1Ki,64Ki,4Mi"},
		{"{type: bytes, values: [1K, 2Mi, 3]}", "bytes 1Ki,2Mi,3"},
		{"{type: dtype, values: [f32, bfloat16]}", "dtype f32,bf16"},
		{"{type: tuple, values: [qkv=4096x6144x4096, 2x3]}", "tuple qkv=4096x6144x4096,2x3"},
		{"{type: bool, values: [on, 0]}", "bool true,false"},
		{"{type: string, values: [007, 1_000, 1e3]}", "string 007,1_000,1e3"},
		{"{type: string, values: '1:8:*2'}", "string 1:8:*2"},
		{"{type: int, values: ['8']}", "int 8"},
		{"\n    - 1\n    - 2", "int 1,2"},
	} {
		p := mustParse(t, "name: x\ncommand: [prog, \"{M}\"]\naxes:\n  M: "+c.yaml+"\nmetrics: {t: {wall: true}}\n")
		if got := strings.TrimPrefix(describeAxes(p), "M "); got != c.want {
			t.Errorf("%s: have %s, want %s", c.yaml, got, c.want)
		}
	}
}

// A variable is set to exactly the text in the file.
func TestEnvKeepsText(t *testing.T) {
	const unset = "\x00"
	for _, c := range []struct{ yaml, want string }{
		{"0o17", "0o17"}, {"017", "017"}, {"0x1F", "0x1F"}, {"0b11", "0b11"}, {"1_000", "1_000"}, {"007", "007"},
		{"1e3", "1e3"}, {"1.50", "1.50"}, {"+1", "+1"}, {"-1", "-1"}, {".5", ".5"}, {"1.", "1."}, {".inf", ".inf"},
		{".NaN", ".NaN"},
		{"no", "no"}, {"on", "on"}, {"Off", "Off"}, {"y", "y"}, {"true", "true"}, {"True", "True"}, {"FALSE", "FALSE"},
		{"2001-01-01", "2001-01-01"}, {"12:30:45", "12:30:45"}, {"1:2", "1:2"}, {"^mlx5_0,mlx5_1", "^mlx5_0,mlx5_1"},
		{"INIT,ENV", "INIT,ENV"}, {`"INIT,ENV"`, "INIT,ENV"}, {"a b  c", "a b  c"}, {"a#b", "a#b"}, {"a # comment", "a"},
		{"/dev/shm", "/dev/shm"}, {"a=b", "a=b"}, {"-x", "-x"}, {"12 ", "12"},
		{`" x "`, " x "}, {`''`, ""}, {`""`, ""}, {`"a\tb"`, "a\tb"}, {`'it''s'`, "it's"}, {`'\n'`, `\n`}, {`"a\\b"`, `a\b`},
		{`"null"`, "null"}, {`'~'`, "~"}, {`"(unset)"`, "(unset)"},
		{"null", unset}, {"~", unset}, {"Null", unset}, {"NULL", unset}, {"", unset},
		{"é日", "é日"}, {"{M}", unset + "map"},
	} {
		for _, form := range []string{"  V:\n  - %s\n", "  V: %s\n"} {
			text := "name: x\ncommand: [prog]\nenv:\n" + fmt.Sprintf(form, c.yaml) + "metrics: {t: {wall: true}}\n"
			bench, err := Parse("sweep.yaml", []byte(text))
			if c.want == unset+"map" {
				if err == nil {
					t.Errorf("%q: a mapping is no value", text)
				}
				continue
			}
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			got := bench.Parts[0].Envs[0].Values[0]
			if want := (point.EnvVar{Name: "V", Value: strings.TrimPrefix(c.want, unset), Set: c.want != unset}); got != want {
				t.Errorf("%q: have %+v, want %+v", text, got, want)
			}
		}
	}
	// A comma in [ ] separates two values, as in any YAML.
	p := mustParse(t, "name: x\ncommand: [prog]\nenv: {V: [INIT,ENV, 0o17]}\nmetrics: {t: {wall: true}}\n")
	if got := describeAxes(p); got != "env V INIT ENV 0o17" {
		t.Errorf("flow list: %s", got)
	}
}

// A quoted text is preserved byte for byte.
func TestEnvTextProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~éß日]{0,20}`).Draw(t, "value")
		quoted := "'" + strings.ReplaceAll(value, "'", "''") + "'"
		bench, err := Parse("s.yaml", []byte("name: x\ncommand: [prog]\nenv:\n  V: ["+quoted+
			"]\nmetrics: {t: {wall: true}}\n"))
		if err != nil {
			t.Fatalf("%s: %v", quoted, err)
		}
		if got := bench.Parts[0].Envs[0].Values[0]; got.Value != value || !got.Set {
			t.Fatalf("%s: have %+v", quoted, got)
		}
	})
}

func TestDefaultUnits(t *testing.T) {
	for _, c := range []struct{ metric, unit, better string }{
		{"time_us: {json: a}", "us", "lower"}, {"setup_s: {json: a}", "s", "lower"}, {"busbw: {json: a}", "GB/s", "higher"},
		{"copy_gbps: {json: a}", "GB/s", "higher"}, {"tflops: {json: a}", "TFLOP/s", "higher"}, {"loss: {json: a}", "", ""},
		{"status: {json: a}", "", ""}, {"time_us: {json: a, unit: ticks, better: higher}", "ticks", "higher"},
		{"t: {wall: true}", "us", "lower"}, {"t_ms: {wall: true}", "ms", "lower"}, {"t: {wall: true, unit: s}", "s", "lower"},
		{"t: {nccl_tests: time}", "us", "lower"}, {"x_us: {nccl_tests: busbw}", "GB/s", "higher"},
		{"w: {nccl_tests: wrong}", "", "lower"}, {"tokens_per_s: {json: a}", "tokens/s", "higher"},
		{"mean_MB_per_ms: {json: a}", "MB/ms", "higher"}, {"per_s: {json: a}", "1/s", "higher"},
		{"ns_per_op: {json: a}", "", ""}, {"tokens_s: {json: a, unit: tokens/s}", "tokens/s", ""},
		{"t_ms: {json: a, unit: msec}", "msec", "lower"},
	} {
		got := mustParse(t, withMetrics("", c.metric)).Metrics[0]
		if got.Unit != c.unit || got.Better != c.better {
			t.Errorf("%s: unit %q better %q, want %q %q", c.metric, got.Unit, got.Better, c.unit, c.better)
		}
	}
}

// TestNCCLUnits checks that nobody can declare another unit for a column whose unit is known.
func TestNCCLUnits(t *testing.T) {
	for metric, want := range map[string]string{
		"t_us: {nccl_tests: time, unit: ms}": "metric t_us: nccl-tests prints this column in us: leave the unit out",
		"t_ms: {nccl_tests: time}":           "metric t_ms: the name says ms and the unit us: name the metric after its unit",
	} {
		if _, err := Parse("s.yaml", []byte(withMetrics("", metric))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v, want %s", metric, err, want)
		}
	}
}

// TestLabelsInAnotherUnit checks that no metric takes its unit from its name if its column or field states another one.
func TestLabelsInAnotherUnit(t *testing.T) {
	for metric, want := range map[string]string{
		"t_us: {csv: Time (ms)}": "metric t_us: the column Time (ms) says ms, but the metric is in us: name the metric " +
			"after its unit, or declare unit: us",
		"t_us: {json: result.time_ms}": "metric t_us: the field result.time_ms says ms, but the metric is in us: name the " +
			"metric after its unit, or declare unit: us",
		"t_us: {csv: time_ms, unit: us}": "", "t_us: {csv: time_usec}": "", "t_ms: {csv: time_ms}": "",
		"t_us: {csv: tokens_per_s}": "", "v: {csv: time_ms}": "", "t_us: {csv: time}": "",
	} {
		_, err := Parse("s.yaml", []byte(withMetrics("", metric)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: have %v, want %s", metric, err, want)
		}
	}
}

func TestWindowsLineEnds(t *testing.T) {
	p := mustParse(t, "name: x\r\ncommand:\r\n- prog\r\n- \"{M}\"\r\naxes:\r\n  M: [a, b]\r\nenv:\r\n  V: "+
		"abc\r\nmetrics: {t: {wall: true}}\r\n")
	if got := describeAxes(p); got != "M string a,b; env V abc" {
		t.Errorf("%q", got)
	}
	if p.Command.Argv[0] != "prog" {
		t.Errorf("%q", p.Command.Argv)
	}
}

func TestNotText(t *testing.T) {
	_, err := Parse("s.yaml", []byte("name: \xff\n"))
	if want := "s.yaml:1:1: the file is not UTF-8 text\n  1 | name: ?\n    | ^"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestManyFaultsAreCut(t *testing.T) {
	_, err := Parse("s.yaml", []byte("name: x\ncommand: [prog]\nmetrics: {t: {wall: true}}\n"+
		strings.Repeat("name: x\n", 50)))
	if err == nil || !strings.HasSuffix(err.Error(), "\ns.yaml: and 30 more") {
		t.Errorf("%v", err)
	}
}
