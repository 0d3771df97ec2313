package web

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Answers about a large journal come from the index without reading the journal. They are
// made again if the journal or the program changes, or the index is damaged.
func TestIndex(t *testing.T) {
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "index")
	record(t, dir, "r", 1, 1, 2)
	path := filepath.Join(dir, journal.FileName)
	edit := func(more string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(text, more...), 0o644)
		}
		if err == nil {
			err = os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(string(bytes.Repeat([]byte{' '}, leastIndexed)) + "\n")
	ask := func(build string, wantRead bool) (answers []string) {
		t.Helper()
		s := New(Options{Dir: dir, Bench: func(string) *bench.Bench { return nil }, Index: kept, Build: build})
		for _, path := range []string{"/api/runs", "/api/run?run=.%40r", "/api/rows?run=.%40r&sort=-time_us"} {
			body := must.Get(io.ReadAll(get(s, "GET", "http://127.0.0.1"+path).Body))(t)
			answers = append(answers, string(body))
		}
		if read := s.store.journals["."].journal != nil; read != wantRead {
			t.Errorf("build %s: the journal is read: %v, want %v", build, read, wantRead)
		}
		return answers
	}
	same := func(got, want []string, is bool) {
		t.Helper()
		for i := range want {
			if (got[i] == want[i]) != is {
				t.Errorf("%s\nbeside\n%s", got[i], want[i])
			}
		}
	}
	first := ask("1", true)
	same(ask("1", false), first, true)
	same(ask("2", true), first, true)
	files, err := os.ReadDir(kept)
	if err != nil || len(files) != 6 {
		t.Fatalf("%d files are kept: %v", len(files), err)
	}
	for _, f := range files {
		must.Do(t, os.WriteFile(filepath.Join(kept, f.Name()), []byte(`{"of":"anything","made":`), 0o600))
	}
	same(ask("1", true), first, true)
	edit(`{"type":"row","schema":1,"run":"r","bench":"b","point":{"n":7},"status":"failed","metrics":{"time_us":9},"units":{},"time":"2026-11-15T09:00:00Z","key":"k7"}` + "\n")
	grown := ask("1", true)
	same(grown, first, false)
	same(ask("1", false), grown, true)

	// The outcome of a run without an end is not indexed: it depends on a process.
	edit(`{"type":"run","schema":1,"run":"r","bench":"b","time":"2026-11-15T10:00:00Z","resumed":true}` + "\n")
	open := ask("1", true)
	same(ask("1", true), open, true)
}
