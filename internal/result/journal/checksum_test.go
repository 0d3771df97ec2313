package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// printed returns every number and text that a view may show: all records of all runs.
func printed(j *Journal) string {
	var b strings.Builder
	for _, r := range j.Runs {
		fmt.Fprintf(&b, "%+v\n%+v\n%+v\n%+v\n", r.Header, r.Begun, r.Notes, r.End)
		for _, row := range r.Rows {
			text := row.Point.String()
			row.Point = nil
			fmt.Fprintf(&b, "%s %+v\n", text, row)
		}
	}
	return b.String()
}

// TestBitFlips flips single bits of a journal of 50 rows. Every flip must be reported with its
// line and run, or change nothing.
func TestBitFlips(t *testing.T) {
	seed := uint64(20261118)
	if text := os.Getenv("RAPID_SEED"); text != "" {
		seed = must.Get(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("RAPID_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	records := []any{Header{Run: "20261118-010203-aaaa", Bench: "b", Time: testTime, Points: 50, Trials: 1}}
	for i := range 50 {
		row := testRow("20261118-010203-aaaa", i)
		records = append(records, Begin{Run: row.Run, Key: row.Key, Time: testTime}, row)
	}
	records = append(records, Note{Run: "20261118-010203-aaaa", Text: "a remark", Time: testTime},
		End{Run: "20261118-010203-aaaa", Outcome: "complete", Counts: map[Status]int{OK: 50}, Time: testTime})
	text := encodeAll(t, records...)
	intact := must.Get(parse(bytes.NewReader(text), 0))(t)
	if len(intact.Problems) > 0 || len(intact.Runs[0].Rows) != 50 {
		t.Fatalf("%d rows, problems %v", len(intact.Runs[0].Rows), intact.Problems)
	}
	want := printed(intact)
	positions := make([]int, 1000)
	for i := range positions {
		positions[i] = rng.IntN(8 * len(text))
	}
	// The end of a line is its least protected part: try every bit of it.
	end := bytes.IndexByte(text, '\n')
	for bit := 8 * (end - crcLen); bit < 8*(end+1); bit++ {
		positions = append(positions, bit)
	}
	for _, at := range positions {
		damaged := bytes.Clone(text)
		damaged[at/8] ^= 1 << (at % 8)
		j := must.Get(parse(bytes.NewReader(damaged), 0))(t)
		line := 1 + bytes.Count(text[:at/8], []byte("\n"))
		switch {
		case len(j.Problems) == 0 && printed(j) != want:
			t.Fatalf("bit %d of byte %d (line %d): the content changes silently", at%8, at/8, line)
		case len(j.Problems) > 0 && j.Problems[0].Line != line && j.Problems[0].Line != line+1:
			t.Fatalf("bit %d of byte %d: line %d is damaged, reported is %v", at%8, at/8, line, j.Problems[0])
		case len(j.Problems) > 0 && line > 1 && j.Problems[0].Run != "20261118-010203-aaaa":
			t.Fatalf("bit %d of byte %d: the report names no run: %v", at%8, at/8, j.Problems[0])
		}
	}
}

// TestChain removes, repeats and moves whole lines of a run, whose checksums stay valid: every change of its rows is
// reported, once for each place.
func TestChain(t *testing.T) {
	records := []any{Header{Run: "r", Bench: "b", Time: testTime, Points: 6, Trials: 1}}
	for i := range 6 {
		records = append(records, testRow("r", i), testRow("s", i)) // two runs, interleaved
	}
	records = append(records, End{Run: "r", Outcome: "complete", Counts: map[Status]int{OK: 6}, Time: testTime})
	lines := strings.SplitAfter(string(encodeAll(t, records...)), "\n")
	last := 13 // the end of r; its rows are lines 1, 3, ... 11
	for name, c := range map[string]struct {
		lines  []string
		breaks int
	}{
		"intact":         {lines, 0},
		"first missing":  {slices.Concat(lines[:1], lines[2:]), 1},
		"one missing":    {slices.Concat(lines[:5], lines[6:]), 1},
		"last missing":   {slices.Concat(lines[:11], lines[12:]), 1},
		"several":        {slices.Concat(lines[:3], lines[4:9], lines[10:]), 2},
		"all missing":    {[]string{lines[0], lines[last]}, 1},
		"repeated":       {slices.Concat(lines[:8], lines[3:4], lines[8:]), 2},
		"exchanged":      {slices.Concat(lines[:5], lines[7:8], lines[6:7], lines[5:6], lines[8:]), 3},
		"begins missing": {slices.Concat(lines[:1], lines[1:]), 0},
	} {
		j := parseBytes(t, []byte(strings.Join(c.lines, "")))
		r := j.Runs[slices.IndexFunc(j.Runs, func(r *Run) bool { return r.ID() == "r" })]
		if len(j.Problems) != c.breaks || r.Breaks != c.breaks {
			t.Errorf("%s: %d breaks, want %d: %v", name, r.Breaks, c.breaks, j.Problems)
		}
		for _, p := range j.Problems {
			if !errors.Is(p.Err, ErrChain) || p.Run != "r" {
				t.Errorf("%s: %v", name, p)
			}
		}
	}
	// A damaged row is reported as such, and not its neighbours.
	damaged := slices.Clone(lines)
	damaged[5] = strings.Replace(damaged[5], `"samples":`, `"samples":1`, 1)
	j := parseBytes(t, []byte(strings.Join(damaged, "")))
	if len(j.Problems) != 1 || !errors.Is(j.Problems[0].Err, ErrDamaged) || j.Runs[0].Breaks > 0 {
		t.Errorf("a damaged row: %v", j.Problems)
	}
}

// TestChainOfWriters lets several writers append rows of two runs in turn, as a resumed run does: the chain goes on.
func TestChainOfWriters(t *testing.T) {
	dir := t.TempDir()
	writers := []*Writer{mustOpen(t, dir), mustOpen(t, dir), mustOpen(t, dir)}
	for i := range 30 {
		mustAppend(t, writers[i*i%7%3], testRow([]string{"r", "s"}[i%2], i))
		if i == 20 { // a writer died while it wrote
			f := must.Get(os.OpenFile(filepath.Join(dir, FileName), os.O_APPEND|os.O_WRONLY, 0))(t)
			must.Get(f.WriteString(`{"type":"row","schema":1,"run":"r","ke`))(t)
			must.Do(t, f.Close())
		}
	}
	mustAppend(t, mustOpen(t, dir), testRow("r", 30), End{Run: "r"}, End{Run: "s"})
	j := mustRead(t, dir)
	if len(j.Problems) != 1 || !errors.Is(j.Problems[0].Err, ErrDamaged) || len(j.Runs[0].Rows) != 16 {
		t.Errorf("%d rows, problems %v", len(j.Runs[0].Rows), j.Problems)
	}
}

// TestContradictions edits single numbers of rows, with a proper checksum: a row that its
// own numbers contradict is reported and left out.
func TestContradictions(t *testing.T) {
	timed := testRow("r", 0)
	timed.Metrics = map[string]float64{"time_us": 200}
	timed.Stats = Stats{{"time_us", Stat{Min: 190, P50: 200, P90: 210, P99: 215, Max: 220, Mean: 201}}}
	simulated := testRow("r", 0)
	simulated.Kind, simulated.Stats = Simulated, nil
	simulated.Metrics = map[string]float64{"time_us": 2.487914, "crit_ns": 2487.914, "compute_ns": 11, "memory_ns": 16.252,
		"overhead_ns": 1553, "queueing_ns": 0, "slot_ns": 0.896, "wire_ns": 906.766}
	interval := testRow("r", 0)
	low, high := 11.0, 14.0
	interval.Stats = Stats{{"time_us", Stat{CILow: &low, CIHigh: &high}}}
	tests := []struct {
		row            Row
		old, new, want string
	}{
		{interval, `"trial":0`, `"trial":0`, ""},
		{timed, `"time_us":200}`, `"time_us":2000}`, "time_us is 2000, but the median of its samples is 200"},
		{timed, `"time_us":200}`, `"time_us":190}`, ""}, // the fastest sample
		{timed, `"p90":210`, `"p90":21`, "not in order"}, {timed, `"p90":210`, `"p90":200`, ""},
		{timed, `"min":190`, `"min":201`, "not in order"}, {timed, `"min":190`, `"min":200`, ""},
		{timed, `"p99":215`, `"p99":209`, "not in order"}, {timed, `"p99":215`, `"p99":210`, ""},
		{timed, `"max":220`, `"max":214`, "not in order"}, {timed, `"max":220`, `"max":215`, ""},
		{simulated, `"crit_ns":2487.914`, `"crit_ns":2487.915`, "time_us is 2.487914, but crit_ns is 2487.915"},
		{simulated, `"time_us":2.487914`, `"time_us":-2.487914`, "time_us is -2.487914: no time is below zero"},
		{simulated, `"time_us":2.487914`, `"time_us":0`, ""},
		{simulated, `"wire_ns":906.766`, `"wire_ns":806.766`, "add up to 2387.914"},
		{timed, `"trial":0`, `"trial":0`, ""},
		{simulated, `"trial":0`, `"trial":0`, ""},
	}
	for _, tt := range tests {
		line, _, _, err := unseal(bytes.TrimSpace(encodeAll(t, tt.row)))
		must.Do(t, err)
		edited := strings.Replace(string(line), tt.old, tt.new, 1) + "\n"
		j := parseText(t, edited)
		if tt.want == "" && len(j.Problems) == 0 && len(j.Runs) == 1 {
			continue
		}
		if tt.want == "" || len(j.Problems) != 1 || !strings.Contains(j.Problems[0].String(), tt.want) || len(j.Runs) > 0 {
			t.Errorf("%s: %d runs, problems %v, want %q", tt.new, len(j.Runs), j.Problems, tt.want)
		}
	}
}
