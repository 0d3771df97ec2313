package findings

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/result/model"
)

// timedAt is a measured sample with an interval of two per cent to either side.
func timedAt(algorithm, executed string, bytes int64, us float64) model.Sample {
	s := model.Sample{Bytes: bytes, TimeUS: us, LowUS: us * 0.98, HighUS: us * 1.02, Samples: 40, Kind: "measured", Executed: executed}
	s.Series = model.Series{Algorithm: algorithm, DType: "f32", Backend: "cpu", Ranks: 4, Buffers: "symmetric"}
	return s
}

// A table is advised only where auto took another algorithm than the best, and was
// slower beyond doubt.
func TestAdviceOfATable(t *testing.T) {
	const kib, size = "64Ki", 64 << 10
	ring, auto := timedAt("ring", "ring", size, 10), timedAt("auto", "two-stage", size, 20)
	same := timedAt("auto", "ring", size, 20) // the very same work, disturbed
	near := timedAt("auto", "two-stage", size, 10.3)
	unsure := auto
	unsure.LowUS, unsure.HighUS = 0, 0
	unknown := timedAt("auto", "", size, 20)
	for what, c := range map[string]struct {
		auto model.Sample
		want bool
	}{
		"slower by another algorithm": {auto, true}, "the same algorithm": {same, false}, "intervals that meet": {near, false},
		"no interval": {unsure, false}, "nobody knows what ran": {unknown, false},
	} {
		got := autoAdvice(c.auto.Series, []model.Sample{ring, c.auto})
		if len(got) > 0 != c.want {
			t.Errorf("%s: %v", what, got)
		}
		if c.want && (!strings.Contains(got[0].text, kib) || !strings.Contains(got[0].text, "auto took two-stage (20 us, 95 % from") ||
			!strings.Contains(got[0].text, "40 samples")) {
			t.Errorf("%s: %q lacks size, what auto took, interval or samples", what, got[0].text)
		}
	}
}
