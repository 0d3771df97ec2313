package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

func TestLocate(t *testing.T) {
	tests := []struct{ spec, dir, sel, err string }{
		{"out/x", "out/x", "", ""},
		{"out/x@-1", "out/x", "-1", ""},
		{"out/x@2026", "out/x", "2026", ""},
		{"a@b/x", "a@b/x", "", ""},
		{"a@b/", "a@b/", "", ""},
		{"a@b@-2", "a@b", "-2", ""},
		{"x/journal.jsonl@-1", "x/journal.jsonl", "-1", ""},
		{"", "", "", "is empty"},
		{"@-1", "", "", "names no folder: want RUN@-1"},
		{"out/x@", "", "", "want out/x@-1 or out/x@ID"},
	}
	for _, tt := range tests {
		dir, sel, err := Locate(tt.spec)
		if dir != tt.dir || sel != tt.sel || (err == nil) != (tt.err == "") ||
			err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("Locate(%q) = %q, %q, %v; want %q, %q, %q", tt.spec, dir, sel, err, tt.dir, tt.sel, tt.err)
		}
	}
}

// writeJournal writes lines to a journal in DIR/name.
func writeJournal(t *testing.T, path string, lines ...string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(sealAll(lines...)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func headerLine(id, bench string) string {
	return fmt.Sprintf(`{"type":"run","schema":1,"run":%q,"bench":%q,"time":"2026-11-15T01:42:33Z"}`, id, bench)
}

func TestLoadRun(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	ids := []string{"20261113-000000-aaaa", "20261114-000000-bbbb", "20261114-000000-bbbbcc", "20261115-000000-dddd"}
	var lines []string
	for i, id := range ids {
		lines = append(lines, headerLine(id, fmt.Sprintf("bench%d", i)))
	}
	writeJournal(t, in("run/journal.jsonl"), lines...)
	writeJournal(t, in("run/other.jsonl"), headerLine("other", "b"))
	writeJournal(t, in("run/data.txt"), headerLine("other", "b"))
	writeJournal(t, in("odd@-1/journal.jsonl"), headerLine("odd", "b"))
	writeJournal(t, in("one/journal.jsonl"), headerLine("single", "b"))
	writeJournal(t, in("empty/journal.jsonl"))
	writeJournal(t, in("bad/journal.jsonl"), "rubbish")
	must.Do(t, os.Mkdir(in("bare"), 0o755))
	tests := []struct {
		spec  string
		want  string // the run's id, or
		err   []string
		cause error
	}{
		{spec: "run", want: ids[3]},
		{spec: "run/", want: ids[3]},
		{spec: "run@-0", want: ids[3]},
		{spec: "run@-1", want: ids[2]},
		{spec: "run@-3", want: ids[0]},
		{spec: "run@20261113", want: ids[0]},
		{spec: "run@20261114-000000-bbbb", want: ids[1]}, // the exact id, though another starts with it
		{spec: "run@20261114-000000-bbbbc", want: ids[2]},
		{spec: "run/journal.jsonl", want: ids[3]},
		{spec: "run/journal.jsonl@-1", want: ids[2]},
		{spec: "run/other.jsonl", want: "other"},
		{spec: "odd@-1", want: "odd"}, // an existing folder with an @ in its name

		{spec: "run@-4", err: []string{"too far", "4 runs", ids[0], "2026-11-15 01:42:33", "bench0"}},
		{spec: "one@-1", err: []string{"too far", "there is 1 run:", "single"}},
		{spec: "run@-x", err: []string{"whole number", "@-1"}},
		{spec: "run@-99999999999999999999", err: []string{"whole number"}},
		{spec: "run@2026", err: []string{"ambiguous", ids[0], ids[1], ids[2], ids[3], "bench3"}},
		{spec: "run@20261114", err: []string{"ambiguous; there are 2 runs", ids[1], ids[2]}},
		{spec: "run@2031", err: []string{"no run id starts with it", ids[0], "bench3"}},
		{spec: "nowhere", err: []string{"no folder", "nowhere"}, cause: fs.ErrNotExist},
		{spec: "nowhere.jsonl", err: []string{"no file", "nowhere.jsonl"}, cause: fs.ErrNotExist},
		{spec: "bare", err: []string{"has no journal.jsonl", "bare"}, cause: fs.ErrNotExist},
		{spec: "run/data.txt", err: []string{"neither a folder nor a .jsonl file"}},
		{spec: "empty", err: []string{"empty/journal.jsonl: no run in it"}, cause: ErrNoRun},
		{spec: "bad", err: []string{"no run in it (1 lines", "line 1", "rubbish"}, cause: ErrNoRun},
		{spec: "run@", err: []string{"want"}},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			j, run, err := LoadRun(root + "/" + tt.spec)
			if tt.want != "" {
				if err != nil || run.ID() != tt.want {
					t.Fatalf("%v, %v; want %s", run, err, tt.want)
				}
				if _, err := os.Stat(j.Path); err != nil || j.Dir() != filepath.Dir(j.Path) {
					t.Errorf("path %s: %v", j.Path, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("no error, but run %s", run.ID())
			}
			for _, want := range tt.err {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if tt.cause != nil && !errors.Is(err, tt.cause) {
				t.Errorf("%v is not %v", err, tt.cause)
			}
		})
	}
	if _, _, err := LoadRun(""); err == nil {
		t.Error("an empty name is no error")
	}
}

func TestLongListIsCut(t *testing.T) {
	var runs []*Run
	for i := range 50 {
		runs = append(runs, &Run{Header: Header{Run: fmt.Sprintf("run%02d", i)}})
	}
	text := list(runs)
	if strings.Count(text, "\n") != maxListed || !strings.Contains(text, "run49") ||
		!strings.HasSuffix(text, "and 30 earlier ones") {
		t.Error(text)
	}
}
