package journal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/stats"
)

func readSchemaDoc(t *testing.T) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "journal-schema.md")))(t)
	return string(data)
}

// fenced returns the code blocks of one language.
func fenced(doc, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)\n```").FindAllStringSubmatch(doc, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// fields returns the first table of a section.
func fields(section string) string {
	_, table, _ := strings.Cut(section, "| field |")
	table, _, _ = strings.Cut(table, "\n\n")
	return table
}

// TestSchemaDocFields compares each table of fields in the document with the fields of the
// record: all are there, in the same order.
func TestSchemaDocFields(t *testing.T) {
	sections := map[string]string{}
	for _, s := range regexp.MustCompile(`(?m)^###? `).Split(readSchemaDoc(t), -1) {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	field := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| [^|]+ \\| .+ \\|$")
	for title, rec := range map[string]any{
		"run": Header{}, "begin": Begin{}, "row": Row{}, "note": Note{}, "label": Label{}, "end": End{},
		"axis": AxisInfo{}, "metric": MetricInfo{}, "spread": Stat{}, "mode": stats.Mode{}, "load": Load{}, "rank": RankEnd{},
		"sampling": Sampling{}, "measurement": Measurement{}, "condition": Condition{},
	} {
		var want, got []string
		if slices.Contains([]string{"run", "begin", "row", "note", "label", "end"}, title) {
			want = append(want, "type")
		}
		for f := range reflect.TypeOf(rec).Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue // not in the file
			}
			if options == "omitempty" || options == "omitzero" {
				name += ", opt."
			}
			want = append(want, name)
		}
		if title == "row" || title == "end" {
			want = append(want, "chain, opt.")
		}
		for _, m := range field.FindAllStringSubmatch(fields(sections[title]), -1) {
			name := m[1]
			if strings.Contains(strings.Split(m[0], "|")[2], ", opt.") {
				name += ", opt."
			}
			got = append(got, name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("section %q: %s", title, diff)
		}
	}
}

// TestSchemaDocExamples reads the example lines of the document as one journal.
func TestSchemaDocExamples(t *testing.T) {
	j := parseBytes(t, []byte(strings.Join(fenced(readSchemaDoc(t), "json"), "\n")))
	if len(j.Problems) > 0 || len(j.Runs) != 1 {
		t.Fatalf("%d runs, problems %v", len(j.Runs), j.Problems)
	}
	r := j.Runs[0]
	if len(r.Headers) != 1 || len(r.Begun) != 1 || len(r.Rows) != 1 || len(r.Notes) != 1 || r.End == nil ||
		len(r.Unfinished()) != 0 {
		t.Errorf("the examples do not make a whole run: %+v", r)
	}
}

// TestSchemaDocCommands runs the jq commands of the document on the golden journal.
func TestSchemaDocCommands(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("jq is not installed: the documented commands cannot be tried (make deps installs it)")
	}
	golden := must.Get(filepath.Abs(filepath.Join("testdata", "schema1.jsonl")))(t)
	dir := t.TempDir()
	must.Do(t, os.Symlink(golden, filepath.Join(dir, FileName)))
	want := []string{
		"65536,2,12.5\n,1,1000\n131072,2,20.5\n",
		"20261114-090000-aaaa\tall_reduce\t2026-11-14T09:00:00Z\n20261114-100000-bbbb\tgemm\t2026-11-14T10:00:00Z\n20261114-090000-aaaa\tall_reduce\t2026-11-14T11:00:00Z\n",
		`{"size":131072,"dtype":"f32","scale":2.5} rank 1: rank 1 was killed by signal 11` + "\n" +
			`{"size":262144,"dtype":"f32","scale":2} rank null: no answer for 60s` + "\n",
		`["0000000000000001",0,"ok"]` + "\n" + `["0000000000000002",0,"ok"]` + "\n" + `["0000000000000003",0,"timeout"]` +
			"\n" +
			`["0000000000000004",0,"skipped"]` + "\n" + `["0000000000000005",0,"not-executed"]` + "\n" +
			`["0000000000000009",0,"ok"]` + "\n",
		"failed 1\nnot-executed 1\nok 3\nskipped 1\ntimeout 1\n",
	}
	commands := fenced(readSchemaDoc(t), "sh")
	if len(commands) != len(want) {
		t.Fatalf("%d commands, want %d", len(commands), len(want))
	}
	for i, command := range commands {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if diff := cmp.Diff(want[i], string(out)); diff != "" || err != nil {
			t.Errorf("%s\n%v %s", command, err, diff)
		}
	}
}

// TestSchemaDocCodes compares the table of codes in the document with the program's.
func TestSchemaDocCodes(t *testing.T) {
	field := regexp.MustCompile(`\{([a-z_]+)[^}]*\}`)
	var b strings.Builder
	b.WriteString("| code | values | disturbs from | as a sentence |\n|---|---|---|---|\n")
	for _, code := range Codes() {
		m := meanings[code]
		var values []string
		for _, f := range field.FindAllStringSubmatch(m.text, -1) {
			if f[1] != "text" && !slices.Contains(values, f[1]) {
				values = append(values, f[1])
			}
		}
		from := ""
		switch {
		case m.value != "":
			from = fmt.Sprintf("`%s` %g", m.value, m.limit)
		case m.strength >= 1:
			from = "always"
		}
		text := strings.NewReplacer("[", "", "]", "").Replace(field.ReplaceAllString(m.text, "`$1`"))
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", code, strings.Join(values, ", "), from, text)
	}
	if !strings.Contains(readSchemaDoc(t), b.String()) {
		t.Errorf("the table of codes differs from\n%s", b.String())
	}
}
