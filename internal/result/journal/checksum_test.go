package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	if len(intact.Problems) > 0 || intact.Unchecked > 0 || len(intact.Runs[0].Rows) != 50 {
		t.Fatalf("%d rows, %d unchecked, problems %v", len(intact.Runs[0].Rows), intact.Unchecked, intact.Problems)
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

// TestWithoutChecksum checks that lines of earlier versions are read and counted, also before
// lines with checksums in the same file.
func TestWithoutChecksum(t *testing.T) {
	old := must.Get(Read(filepath.Join("testdata", "schema1.jsonl")))(t)
	if old.Unchecked == 0 {
		t.Error("lines without a checksum are not counted")
	}
	text := encodeAll(t, testRow("r", 0))
	plain, _, err := verifyChecksum(bytes.TrimSpace(bytes.Clone(text)))
	must.Do(t, err)
	j := must.Get(parse(bytes.NewReader(append(append(bytes.Clone(plain), '\n'), text...)), 0))(t)
	if len(j.Problems) > 0 || len(j.Runs[0].Rows) != 2 || j.Unchecked != 1 || !strings.HasPrefix(j.Runs[0].Unverified(),
		"1 line of the journal without a checksum") {
		t.Errorf("%d rows, %d unchecked, %q, problems %v", len(j.Runs[0].Rows), j.Unchecked, j.Runs[0].Unverified(),
			j.Problems)
	}
	other := encodeAll(t, testRow("s", 0)) // another run of the same file
	j = must.Get(parse(bytes.NewReader(append(append(bytes.Clone(plain), '\n'), other...)), 0))(t)
	if j.Runs[0].Unverified() == "" || j.Runs[1].Unverified() != "" {
		t.Errorf("run r: %q, run s: %q", j.Runs[0].Unverified(), j.Runs[1].Unverified())
	}
}

// TestContradictions edits single numbers of rows, with a proper checksum or none: a row that its
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
		line, _, err := verifyChecksum(bytes.TrimSpace(encodeAll(t, tt.row)))
		must.Do(t, err)
		edited := strings.Replace(string(line), tt.old, tt.new, 1) + "\n"
		for _, text := range []string{edited, string(appendChecksum([]byte(edited)))} {
			j := must.Get(parse(strings.NewReader(text), 0))(t)
			if tt.want == "" && len(j.Problems) == 0 && len(j.Runs) == 1 {
				continue
			}
			if tt.want == "" || len(j.Problems) != 1 || !strings.Contains(j.Problems[0].String(), tt.want) || len(j.Runs) > 0 {
				t.Errorf("%s: %d runs, problems %v, want %q", tt.new, len(j.Runs), j.Problems, tt.want)
			}
		}
	}
}
