package run

import (
	"testing"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestMissing: only required rows that were not executed count.
func TestMissing(t *testing.T) {
	rows := []journal.Row{{Status: journal.OK}, {Status: journal.Skipped}, {Status: journal.Failed},
		{Status: journal.NotExecuted, Optional: true}, {Status: journal.NotExecuted}}
	if n := Missing(rows); n != 1 {
		t.Errorf("%d rows are missing, want 1", n)
	}
}
