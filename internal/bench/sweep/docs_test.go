package sweep

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// The reference's first error block is the real output for its first faulty file, and its first
// YAML block is a valid sweep.
func TestDocumentedErrors(t *testing.T) {
	data, err := os.ReadFile("../../../docs/sweep-format.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	yaml := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(doc)
	if yaml == nil {
		t.Fatal("the reference shows no sweep")
	}
	mustParse(t, yaml[1])

	_, err = Parse("sweep.yaml", []byte(`name: x
command: [prog, "{sise}"]
axes:
  size: [1, 2]
metrics:
  time_us: {regexp: 'x=(.*)'}
`))
	if err == nil || !strings.Contains(doc, "```\n"+err.Error()+"\n```") {
		t.Errorf("the reference does not show this error:\n%v", err)
	}

	_, err = mustParse(t, yaml[1]).Command.Parse(outputs("loading model\nout of memory\n", ""))
	if err == nil || !strings.Contains(doc, "```\n"+err.Error()+"\n```") {
		t.Errorf("the reference does not show this error:\n%v", err)
	}
}

// The axes in the reference have the types that its comments claim.
func TestDocumentedAxes(t *testing.T) {
	p := mustParse(t, "name: x\ncommand: [p, '{M}{chunk}{alpha}{algo}{fused}{size}{dtype}{shape}']\n"+
		documented(t, "axes:")+"metrics: {t: {wall: true}}\n")
	want := "M int 1,32,128; chunk int 1,8,64; alpha float 0.5,1,2; algo string ring,tree; fused bool true,false; " +
		"size bytes 1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,4Mi,16Mi,64Mi; dtype dtype f32,bf16; " +
		"shape tuple qkv=4096x6144x4096,512x512x512"
	if got := describeAxes(p); got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

// The checks in the reference are valid.
func TestDocumentedChecks(t *testing.T) {
	p := mustParse(t, withMetrics("", "time_us: {wall: true}", "max_error: {regex: 'e=(.*)'}")+documented(t, "check:"))
	for output, good := range map[string]bool{"e=0\nPASSED": true, "e=1\nPASSED": false, "e=0": false,
		"e=0 \nNaN\nPASSED": false} {
		rows, err := p.Command.Parse([]decl.RankOutput{{Stdout: []byte(output), Wall: 1000}})
		if err != nil || (rows[0].Wrong == "") != good {
			t.Errorf("%q: %v %v", output, err, rows)
		}
	}
}

// documented returns the YAML block of the reference that starts with a key.
func documented(t *testing.T, key string) string {
	t.Helper()
	data := must.Get(os.ReadFile("../../../docs/sweep-format.md"))(t)
	block := regexp.MustCompile("(?s)```yaml\n(" + key + ".*?)```").FindStringSubmatch(string(data))
	if block == nil {
		t.Fatalf("the reference shows no block %s", key)
	}
	return block[1]
}

// The reference names every key. The error for an unknown key lists the known ones.
func TestDocumentedKeys(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../../docs/sweep-format.md"))(t))
	_, err := Parse("sweep.yaml", []byte("name: x\ncommand: [p]\nwrong: 1\nmetrics: {t: {wrong: 1}}\n"+
		"until: {wrong: 1}\ncheck: {wrong: 1}\naxes: {a: {wrong: 1}}\n"))
	if err == nil {
		t.Fatal("unknown keys were accepted")
	}
	lists := regexp.MustCompile(`\(known: (.*?)\)`).FindAllStringSubmatch(err.Error(), -1)
	if len(lists) != 5 {
		t.Errorf("%d lists of known keys, want 5:\n%v", len(lists), err)
	}
	for _, list := range lists {
		for _, key := range strings.Split(list[1], ", ") {
			if !regexp.MustCompile("[`{ ]" + key + "[`:, ]").MatchString(page) {
				t.Errorf("the reference does not have the key %s", key)
			}
		}
	}
}
