package imports_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/imports"
)

// TestRegisteredFormat registers a format and reads it like a built-in one.
func TestRegisteredFormat(t *testing.T) {
	given := imports.Given{Op: "all-reduce", Ranks: 4, DType: "float", Algorithm: "ring"}
	f := must.Get(imports.Read("pairs", "times.txt", "4096 12.5\n8192 20\n4096 13\n", given))(t)
	rows := imports.Rows(f.Records,
		imports.Source{Name: "times.txt", Bench: "collectives", Run: "r", Time: time.Unix(0, 0)}, 0, map[string]int{})
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	if got, want := rows[0].Point.String(), "op=allreduce algorithm=ring dtype=f32 size=4Ki inplace=false"; got != want {
		t.Errorf("point is %s, want %s", got, want)
	}
	// 2*(n-1)/n of 4096 bytes in 12.5 µs.
	if got, want := rows[0].Metrics["busbw"], 1.5*4096/12.5e3; math.Abs(got-want) > 1e-12 {
		t.Errorf("bus bandwidth is %g", got)
	}
	if rows[2].Trial != 1 || rows[2].Key != rows[0].Key {
		t.Errorf("the second result of a point is trial %d of %s", rows[2].Trial, rows[2].Key)
	}

	if _, err := imports.Read("pairs", "times.txt", "4096 12.5\n4096\n", given); err == nil ||
		!strings.HasPrefix(err.Error(), "times.txt:2: want a size and a time") {
		t.Errorf("a line without a time: %v", err)
	}
	if _, err := imports.Read("pears", "times.txt", "", given); err == nil || !strings.Contains(err.Error(), "pairs") {
		t.Errorf("an unknown format: %v, want the known ones", err)
	}
	if names := strings.Join(imports.Formats.Names(), " "); names != "csv nccl-tests osu pairs" {
		t.Errorf("formats are %s", names)
	}
}
