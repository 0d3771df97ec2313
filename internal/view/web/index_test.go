package web

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Answers about a large journal come from the index without reading the journal. They are
// made again if the journal or the program changes, or the index is damaged.
func TestIndex(t *testing.T) {
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "index")
	record(t, dir, "r", 1, 1, 2)
	path := filepath.Join(dir, journal.FileName)
	age := func() { must.Do(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour))) }
	edit := func(more any) {
		t.Helper()
		w := must.Get(journal.Open(dir))(t)
		must.Do(t, errors.Join(w.Append(more), w.Close()))
		age()
	}
	text := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, append(append(text, bytes.Repeat([]byte{' '}, leastIndexed)...), '\n'), 0o644))
	age()
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
	edit(journal.Row{Run: "r", Bench: "b", Point: point.Point{{Name: "n", Value: point.IntValue(7)}},
		Status: journal.Failed, Metrics: map[string]float64{"time_us": 9},
		Time: time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC), Key: "k7"})
	grown := ask("1", true)
	same(grown, first, false)
	same(ask("1", false), grown, true)

	// The outcome of a run without an end is not indexed: it depends on a process.
	edit(journal.Header{Run: "r", Bench: "b", Time: time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC), Resumed: true})
	open := ask("1", true)
	same(ask("1", true), open, true)
}
