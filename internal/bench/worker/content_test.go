package worker

import (
	"context"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A row fails without being measured if its content has changed since the plan.
func TestContentThatChanged(t *testing.T) {
	b := bench.New("b", body)
	b.Content = func(_, _ bench.Point) map[string]string { return map[string]string{"run m": "0a"} }
	for planned, want := range map[string]journal.Status{"0a": journal.OK, "0b": journal.Failed, "": journal.Failed} {
		w := &worker{job: Job{Inputs: map[string]string{"run m": planned}}}
		ran := false
		body := bench.New("b", func(_ context.Context, s *bench.State) error {
			ran = true
			s.Report("done", 1, "", "")
			return nil
		}).Parts[0].Body
		o, _ := w.checkContent(b, body)(t.Context(), decl.Setting{Backend: "cpu"})
		if o.Status != want || ran != (want == journal.OK) ||
			!ran && !strings.Contains(o.Reason, "run m has changed since the run was planned") {
			t.Errorf("planned %q: %s (%s), ran %v", planned, o.Status, o.Reason, ran)
		}
	}
}
