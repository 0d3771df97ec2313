package sweep

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// TestDocumentedErrors compares the errors that the reference shows with the errors for its faulty files.
func TestDocumentedErrors(t *testing.T) {
	_, err := Parse("sweep.yaml", []byte(`name: x
command: [prog, "{sise}"]
axes:
  size: [1, 2]
metrics:
  time_us: {regexp: 'x=(.*)'}
`))
	golden.Shown(t, "sweep-errors", fmt.Sprint(err))
	_, err = mustParse(t, documented(t, "name:")).Command.Parse(outputs("loading model\nout of memory\n", ""))
	golden.Shown(t, "sweep-without-a-match", fmt.Sprint(err))
}

// TestDocumentedSweeps reads the sweeps of all pages, and the pieces of sweeps that no other test reads.
func TestDocumentedSweeps(t *testing.T) {
	whole, pieces := 0, 0
	for _, blocks := range golden.Pages(t) {
		for _, b := range blocks {
			if b.Kind != "yaml" {
				continue
			}
			var texts []string
			switch first, rest, _ := strings.Cut(b.Text, "\n"); {
			case strings.Contains(b.Text, "\ncommand:"):
				whole++
				texts = []string{b.Text}
			case strings.HasPrefix(first, "env:"), strings.HasPrefix(first, "files:"):
				pieces++
				texts = []string{withMetrics("", "time_us: {wall: true}") + b.Text}
			case first == "metrics:": // several tables, which one sweep cannot have
				pieces++
				for _, line := range strings.Split(strings.TrimSpace(rest), "\n") {
					texts = append(texts, withMetrics("2", strings.TrimSpace(line)))
				}
			}
			for _, text := range texts {
				if _, err := Parse("sweep.yaml", []byte(text)); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			}
		}
	}
	if whole < 4 || pieces < 3 {
		t.Errorf("only %d sweeps and %d pieces were found: has the form of the documents changed?", whole, pieces)
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
	for _, b := range golden.Pages(t)["docs/sweep-format.md"] {
		if b.Kind == "yaml" && strings.HasPrefix(b.Text, key) {
			return b.Text
		}
	}
	t.Fatalf("the reference shows no block %s", key)
	return ""
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
			if !names(page, key) {
				t.Errorf("the reference does not have the key %s", key)
			}
		}
	}
	for _, planted := range []string{"order", "sample", "program"} { // words of the page that are no keys
		if names(page, planted) {
			t.Errorf("the reference has the key %s", planted)
		}
	}
}

// names reports whether a page has a key in code: `key`, `key: VALUE` or {key: VALUE}.
func names(page, key string) bool {
	return regexp.MustCompile("(`|`\\{|, )" + key + "(`|: )").MatchString(page)
}
