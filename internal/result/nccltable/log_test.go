package nccltable

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestWithoutLog reads a table in which NCCL's log interrupts rows.
func TestWithoutLog(t *testing.T) {
	const info = "gpu-1:221423:221500 [0] NCCL INFO Channel 00/24 : 0 1 2 3\n"
	const head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
	clean, skipped := WithoutLog(head +
		"  8 2 float sum -1" + info + // after the keys
		info +
		"   1.5 2 3 0" + info + // after the first place
		"   1.6 2 3 0\n" +
		info + // alone
		"  16 4 float sum -1 1.7 2 3 0 1.8 2 3 0\n" +
		"  32 8 float sum -1[2026-01-02 03:04:05] " + info + // the rest was cut off
		"# Avg bus bandwidth : 3" + info)
	if skipped != 6 {
		t.Errorf("%d lines skipped, want 6", skipped)
	}
	want := []string{head[:len(head)-1], "  8 2 float sum -1   1.5 2 3 0   1.6 2 3 0", "", "", "", "",
		"  16 4 float sum -1 1.7 2 3 0 1.8 2 3 0", "  32 8 float sum -1", "# Avg bus bandwidth : 3", ""}
	if diff := cmp.Diff(want, strings.Split(clean, "\n")); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	plain := head + "8 2 float sum -1 1 2 3 0 1 2 3 0\n"
	if clean, skipped := WithoutLog(plain); clean != plain || skipped != 0 {
		t.Errorf("a text without messages becomes %q, %d skipped", clean, skipped)
	}
	lines := must.Get(Read(head + "  8 2 float sum -1" + info + "  1.5 2 3 0 1.6 2 3 0\n"))(t)
	if got := show(t, lines[1]); got != "2 row 8 float 1.5 2 3 0 1.6 2 3 0" || lines[1].Row.Key("count") != "2" {
		t.Errorf("the row is %q, count %q", got, lines[1].Row.Key("count"))
	}
}
