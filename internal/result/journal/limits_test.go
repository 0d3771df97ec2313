package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// TestLongLine puts lines above the limit between good rows: they are reported with their number and
// run, they are not stored, and the rows around them are read.
func TestLongLine(t *testing.T) {
	good := string(encodeAll(t, testRow("r", 0)))
	for _, length := range []int{2000, 2001, 1 << 16, 1<<16 + 1, 1 << 20} {
		r := newReader()
		r.maxLine = 2000
		text := good + strings.Repeat("x", length-1) + "\n" + good + strings.Repeat("y", length)
		in := &largestRead{src: strings.NewReader(text)}
		if n := must.Get(r.read(in, int64(len(text)), true))(t); n != int64(len(text)) {
			t.Errorf("%d of %d bytes are consumed", n, len(text))
		}
		rows, problems := len(r.j.Runs[0].Rows), r.j.Problems
		if rows != 2 || len(problems) != 2 || problems[0].Line != 2 || problems[1].Line != 4 || problems[0].Run != "r" {
			t.Fatalf("%d bytes: %d rows, problems %v", length, rows, problems)
		}
		limit := fmt.Sprintf("the line has %s bytes, and the limit is 2000", unit.FormatBytes(int64(length)))
		if tooLong := strings.Contains(problems[0].String(), limit); tooLong != (length > 2000) {
			t.Errorf("%d bytes: %v", length, problems[0])
		}
		if in.most > 1<<16 {
			t.Errorf("%d bytes are read at once", in.most)
		}
	}
	if err := checkLength(maxLine + 1); err == nil || !strings.Contains(err.Error(), "the limit is 64Mi") {
		t.Errorf("a record that no reader accepts is written: %v", err)
	}
	must.Do(t, checkLength(maxLine))
}

// TestLongTexts checks that a row is kept whose texts quote an output that is longer than a line may be.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("é", maxLine)
	row := Row{Run: "r", Key: "k", Status: Failed, Reason: Text(long), Output: "short",
		Conditions: []Condition{Remarkf("%s", long)}}
	e := must.Get(encode(row))(t)
	if len(e.line) > 4*maxText || !strings.Contains(string(e.line), `éé..."`) || !strings.Contains(string(e.line), `"short"`) {
		t.Errorf("the line has %d bytes: %.300s", len(e.line), e.line)
	}
	if row.Conditions[0].Sentence() != long {
		t.Error("the caller's row was changed")
	}
}

// largestRead records the size of the largest buffer that was read into.
type largestRead struct {
	src  io.Reader
	most int
}

func (r *largestRead) Read(p []byte) (int, error) {
	r.most = max(r.most, len(p))
	return r.src.Read(p)
}

// TestLongLineFollowed checks that a follower passes a long line that is still being written.
func TestLongLineFollowed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	good := string(encodeAll(t, testRow("r", 0)))
	must.Do(t, os.WriteFile(path, []byte(good+strings.Repeat("x", 3000)), 0o644))
	f := must.Get(Follow(dir))(t)
	f.r, f.file = newReader(), must.Get(os.Stat(path))(t)
	f.r.maxLine = 2000
	must.Get2(f.Next())(t)
	must.Do(t, os.WriteFile(path, []byte(good+strings.Repeat("x", 5000)+"\n"+good), 0o644))
	f.file = must.Get(os.Stat(path))(t)
	j, _ := must.Get2(f.Next())(t)
	if len(j.Runs[0].Rows) != 2 || len(j.Problems) == 0 || j.Problems[0].Line != 2 {
		t.Errorf("%d rows, problems %v", len(j.Runs[0].Rows), j.Problems)
	}
}

// TestHalfLineIsNoGrowth checks that a line that is still being written is not reported as something new.
func TestHalfLineIsNoGrowth(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	line := encodeAll(t, testRow("r", 0))
	must.Do(t, os.WriteFile(path, line, 0o644))
	f := must.Get(Follow(dir))(t)
	for _, c := range []struct {
		more []byte
		want bool
	}{{nil, true}, {nil, false}, {line[:40], false}, {line[40:], true}} {
		file := must.Get(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
		must.Get(file.Write(c.more))(t)
		must.Do(t, file.Close())
		if _, grown := must.Get2(f.Next())(t); grown != c.want {
			t.Errorf("%d bytes more: grown %v", len(c.more), grown)
		}
	}
	if n := f.BytesRead(); n != int64(2*len(line)) {
		t.Errorf("%d bytes are read, want %d", n, 2*len(line))
	}
}

// TestReadErrors checks that an error of the disk is not taken for the end of the journal.
func TestReadErrors(t *testing.T) {
	text := encodeAll(t, testRow("r", 0), testRow("r", 1))
	broken := errors.New("broken disk")
	for _, cut := range []int{0, 10, len(text) - 1, len(text)} {
		src := io.MultiReader(bytes.NewReader(text[:cut]), iotest.ErrReader(broken))
		if j, err := parse(src, int64(len(text))); !errors.Is(err, broken) || j != nil {
			t.Errorf("after %d bytes: %v, %v", cut, j, err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "journal.jsonl")
	must.Do(t, os.Symlink("/dev/zero", pipe))
	if _, err := Read(pipe); err == nil || !strings.Contains(err.Error(), "is a device") {
		t.Errorf("a device as a journal: %v", err)
	}
}

// TestStatPart checks that Stat.Part returns each value under its name, and none for unknown names.
func TestStatPart(t *testing.T) {
	low := 7.0
	s := Stat{Min: 1, P50: 2, P90: 3, P99: 4, Max: 5, Mean: 6, CILow: &low}
	for i, name := range StatNames {
		if v, has := s.Part(name); has != (name != "ci_high") || has && v != float64(i+1) {
			t.Errorf("%s: %v, %v", name, v, has)
		}
	}
	if v, has := s.Part("p95"); has || v != 0 {
		t.Errorf("p95: %v, %v", v, has)
	}
}

// TestOnlyInterval checks that a spread with nothing but an interval has no other values in the journal and in views.
func TestOnlyInterval(t *testing.T) {
	low, high, zero := 1.0, 2.0, 0.0
	for want, s := range map[string]Stat{
		`{"ci_low":1,"ci_high":2}`:           {CILow: &low, CIHigh: &high},
		`{"p50":1.5,"ci_low":1,"ci_high":2}`: {P50: 1.5, CILow: &low, CIHigh: &high},
	} {
		_, has := s.Part("min")
		mid, hasMid := s.Part("p50")
		end, _ := s.Part("ci_high")
		if text := must.Get(json.Marshal(s))(t); string(text) != want || has || hasMid != (s.P50 > 0) || mid != s.P50 ||
			end != 2 {
			t.Errorf("%s, want %s; min known %v, p50 %v %v, ci_high %v", text, want, has, mid, hasMid, end)
		}
	}
	for i, s := range []Stat{{CILow: &low, CIHigh: &zero}, {CIHigh: &high}, {CILow: &low},
		{CILow: &low, CIHigh: &high, Min: 1}, {CILow: &low, CIHigh: &high, P90: 1}, {CILow: &low, CIHigh: &high, P99: 1},
		{CILow: &low, CIHigh: &high, Max: 1}, {CILow: &low, CIHigh: &high, Mean: 1}} {
		if _, has := s.Part("p50"); !has || !strings.Contains(string(must.Get(json.Marshal(s))(t)), `"p50":0`) {
			t.Errorf("spread %d lacks its median", i)
		}
	}
}

// TestExcerpt checks that only longer lines are shortened.
func TestExcerpt(t *testing.T) {
	for n, want := range map[int]int{excerptLen: excerptLen, excerptLen + 1: excerptLen + len("...")} {
		if got := excerpt(bytes.Repeat([]byte("x"), n)); len(got) != want {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
}

// TestUnsortedObject reads an object that another program wrote, whose members are not in order or occur twice.
func TestUnsortedObject(t *testing.T) {
	for _, members := range []string{`"b":1,"a":3`, `"a":2,"a":3,"b":1`} {
		j := parseText(t, `{"type":"row","run":"r","key":"k","measurements":[{"metrics":{`+members+`},"samples":1}]}`)
		if m := j.Runs[0].Rows[0].Measurements[0].Metrics; !slices.Equal(m, Numbers{{"a", 3}, {"b", 1}}) {
			t.Errorf("%s: %v", members, m)
		}
	}
}

func TestNewStat(t *testing.T) {
	s := NewStat(stats.Summary{Min: 1, P50: 2, CILow: 1.5, CIHigh: 2.5, Effective: 12.345})
	if *s.CILow != 1.5 || *s.CIHigh != 2.5 || *s.Effective != 12.3 || s.Min != 1 || s.P50 != 2 {
		t.Errorf("%+v", s)
	}
	s = NewStat(stats.Summary{CILow: math.NaN(), CIHigh: math.NaN(), Effective: 7})
	if s.CILow != nil || s.CIHigh != nil || *s.Effective != 7 {
		t.Errorf("without an interval: %+v", s)
	}
	if _, err := json.Marshal(Stats{{"time_us", Stat{Mean: math.Inf(1)}}}); err == nil {
		t.Error("an infinite number was written")
	}
}

func TestWhy(t *testing.T) {
	rank := 1
	for want, r := range map[string]Row{
		"": {}, "no memory": {Reason: "no memory"}, "rank 1": {Rank: &rank}, "in set-up": {Phase: "set-up"},
		"rank 1 in set-up: no memory": {Rank: &rank, Phase: "set-up", Reason: "no memory"},
	} {
		if got := r.Why(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSharing checks from which number on ranks count as sharing a GPU.
func TestSharing(t *testing.T) {
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 0, 2: 2, 8: 8} {
		row := Row{Details: map[string]string{SharingDetail: strconv.Itoa(n)}}
		if got := row.Sharing(); got != want {
			t.Errorf("%d ranks on a GPU count as %d, want %d", n, got, want)
		}
	}
	if got := (&Row{Details: map[string]string{SharingDetail: "two"}}).Sharing(); got != 0 {
		t.Errorf("a text counts as %d", got)
	}
}

// TestGrown checks for how many more records a full list gets room: as many as the rest of the file probably has. A
// short list grows by at most three times its length.
func TestGrown(t *testing.T) {
	for _, c := range []struct {
		n, room        int
		consumed, size int64
		least, most    int
	}{
		{100, 0, 1000, 101_000, 316, 360}, // not 10,000
		{2000, 0, 1_000_000, 3_000_000, 4249, 5300},
		{2000, 0, 1_000_000, 1_000_001, 16, 800},
		{100, 0, 0, 1000, 0, 0}, // the first record
		{100, 0, 1000, 1000, 0, 0},
		{100, 1, 1000, 101_000, 1, 1}, // not full
	} {
		r := newReader()
		r.consumed, r.size = c.consumed, c.size
		list := grown(r, make([]int64, c.n, c.n+c.room))
		if more := cap(list) - c.n; len(list) != c.n || more < c.least || more > c.most {
			t.Errorf("%+v: room for %d more", c, more)
		}
	}
}
