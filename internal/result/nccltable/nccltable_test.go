package nccltable

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

// show returns the kind and content of a line.
func show(t *testing.T, l Line) string {
	t.Helper()
	switch {
	case l.Header != nil:
		return fmt.Sprint(l.Number, " header, root ", l.Header.HasKey("root"), ", wrong in place ",
			l.Header.Has(InPlace, Wrong))
	case l.Row != nil:
		var b strings.Builder
		fmt.Fprintf(&b, "%d row %d %s", l.Number, l.Row.Size, l.Row.Key("type"))
		for _, p := range Places {
			for _, column := range []string{Time, AlgBW, BusBW, Wrong} {
				v, has := must.Get2(l.Row.Number(p, column))(t)
				if has {
					fmt.Fprint(&b, " ", v)
				} else {
					b.WriteString(" -")
				}
			}
		}
		return b.String()
	case l.Ends:
		return fmt.Sprint(l.Number, " end")
	case l.Comment():
		return fmt.Sprint(l.Number, " comment")
	}
	return fmt.Sprint(l.Number, " log")
}

// TestRead reads every kind of line, in two tables with different columns.
func TestRead(t *testing.T) {
	lines := must.Get(Read("7 before any table\n" +
		"#  size count type redop time algbw busbw error time algbw busbw error\n" +
		"#   (B)                 (us) (GB/s) (GB/s)      (us) (GB/s) (GB/s)\n" +
		"\n" +
		"  8 2 float sum 1.5 2 3 1e-07 N/A N/A N/A N/A\r\n" +
		"node: NCCL INFO\n" +
		"# nThread 1 nGpus 8\n" +
		"9 between tables\n" +
		"# size count type root cputime algbw #iters stamp\n" +
		"16 4 half 1 4 5 20 2026-01-31 10:20:30\n"))(t)
	var got []string
	for _, l := range lines {
		got = append(got, show(t, l))
	}
	want := []string{"1 log", "2 header, root false, wrong in place true", "3 comment",
		"5 row 8 float 1.5 2 3 1e-07 - - - -", "6 log", "7 end", "8 log",
		"9 header, root true, wrong in place false", "10 row 16 half 4 5 - - - - - -"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if key := lines[3].Row.Key("root"); key != "" {
		t.Errorf("a table without root has %q there", key)
	}
}

// TestFailure reads a failure message on its own line and after the beginning of a row.
func TestFailure(t *testing.T) {
	lines := must.Get(Read("# size count type time algbw\n" +
		"gpu-1: Test CUDA failure common.cu:7 'out of memory'\n" +
		"  64 16 floatgpu-1: Test NCCL failure all_reduce.cu:44 'system error' and more\n"))(t)
	if l := lines[1]; l.Failure != "Test CUDA failure common.cu:7 'out of memory'" || l.Begun != nil || l.Row != nil {
		t.Errorf("alone: %+v", l)
	}
	if l := lines[2]; !strings.HasPrefix(l.Failure, "Test NCCL failure") || l.Begun == nil || l.Begun.Size != 64 ||
		l.Begun.Key("type") != "floatgpu-1:" || l.Row != nil {
		t.Errorf("in the middle of a row: %+v, %+v", l, l.Begun)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# size\n1 2\n", ErrNone.Error()},
		{"# size algbw time\n", "line 1 of the nccl-tests table: the column algbw stands before any time"},
		{"# size time time time algbw\n",
			"line 1 of the nccl-tests table: the header has 3 columns called time, want 1 or 2"},
		{"# size time algbw\n# (B) (ms)\n",
			"line 2 of the nccl-tests table: the unit (ms) is not one of nccl-tests' (B, elements, us, GB/s, %)"},
		{"# size time algbw\n8 1\n", "line 2 of the nccl-tests table: the line has 2 fields, the header 3: it is cut off " +
			"or not of this table"},
		{"# size time algbw\n-8 1 2\n", "line 2 of the nccl-tests table: the size \"-8\" is not a number of bytes"},
	} {
		if _, err := Read(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	// A cell is parsed only when it is read, so only then it can be wrong.
	for _, cell := range []string{"x", "NaN", "-1", "inf", strings.Repeat("x", 99)} {
		lines, err := Read("# size time algbw\n8 " + cell + " 2\n")
		if err != nil {
			t.Fatal(err)
		}
		if v, has, err := lines[1].Row.Number(OutOfPlace, AlgBW); v != 2 || !has || err != nil {
			t.Errorf("%s: its neighbour is %v, %v, %v", cell, v, has, err)
		}
		_, _, err = lines[1].Row.Number(OutOfPlace, Time)
		var at *Fault
		if !errors.As(err, &at) || at.Line != 2 || !strings.HasPrefix(at.Err.Error(), "time is \"") ||
			len(err.Error()) > 150 {
			t.Errorf("%s: %v", cell, err)
		}
	}
}
