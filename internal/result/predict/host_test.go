package predict

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"

	_ "github.com/kernbench/kernbench/dist/cpu"
)

// sampleHost returns a host with caches of 1 MiB; beyond them all rates drop to a third.
func sampleHost() *Host {
	rate := func(gbs float64) func(int, float64) float64 {
		return func(_ int, bytes float64) float64 {
			if bytes > 1<<20 {
				return gbs / 3
			}
			return gbs
		}
	}
	return &Host{Name: "sample", HopUS: 0.1, Exchange: rate(6), Load: rate(60), Copy: rate(30)}
}

// timesOf returns the times that a library would take on the host. change may modify them.
func timesOf(t *testing.T, h *Host, algorithm string, l Library,
	change func(i int, s *model.Sample)) (list []model.Sample) {
	t.Helper()
	for i := range 10 {
		s := model.Sample{Series: model.Series{Algorithm: algorithm, DType: "f32", Backend: "cpu", Ranks: 4,
			Buffers: "symmetric"},
			Bytes: 1 << (8 + 2*i), Kind: string(journal.Measured), Host: h.Name}
		var err error
		if s.TimeUS, err = h.US(s.Series, l, s.Bytes); err != nil {
			t.Fatal(err)
		}
		s.TimeUS *= 1 + 0.02*float64(i%3-1) // measurement noise
		s.LowUS, s.HighUS = 0.99*s.TimeUS, 1.01*s.TimeUS
		if change != nil {
			change(i, &s)
		}
		list = append(list, s)
	}
	return list
}

// The fit recovers the library's parameters for every algorithm, and its error is the noise.
func TestHostFit(t *testing.T) {
	h, truth := sampleHost(), Library{0.6, 0.7}
	for _, algorithm := range []string{"ring", "one-stage", "two-stage", "recursive-doubling", "ring@64K"} {
		f := h.Fit(timesOf(t, h, algorithm, truth, nil))
		if f.Reason != "" || math.Abs(f.OverheadUS/truth.OverheadUS-1) > 0.05 || math.Abs(f.Share/truth.Share-1) > 0.05 ||
			f.Trained != 5 || f.Error.Points != 5 || f.Error.P90 > 0.05 {
			t.Errorf("%s: %v", algorithm, f)
		}
		for i, time := range f.Times {
			if want := []string{InFit, LeftOut}[i%2]; time.Use != want {
				t.Errorf("%s: size %d was %s, want %s", algorithm, time.Bytes, time.Use, want)
			}
		}
	}
}

// The error on the sizes left out is large if the model does not describe the host: here each of them
// takes three times as long, which the fitted sizes do not show.
func TestHostErrorShows(t *testing.T) {
	h := sampleHost()
	f := h.Fit(timesOf(t, h, "ring", Library{0.6, 0.7}, func(i int, s *model.Sample) {
		if i%2 == 1 {
			s.TimeUS, s.LowUS, s.HighUS = 3*s.TimeUS, 3*s.LowUS, 3*s.HighUS
		}
	}))
	if e := f.Error; e.Points != 5 || e.Median < 0.6 || !strings.Contains(f.String(), "median error 6") {
		t.Errorf("%v", f)
	}
}

// Disturbed and unsettled times affect neither the fit nor the error, and are named. If too few others
// remain, there is no fit.
func TestHostNotResolved(t *testing.T) {
	h, truth := sampleHost(), Library{0.6, 0.7}
	stolen := journal.NewCondition(journal.CodeSteal, journal.Named{"share": 0.23})
	spoil := func(until int) func(i int, s *model.Sample) {
		return func(i int, s *model.Sample) {
			switch {
			case i >= until:
			case i%2 == 0:
				s.TimeUS, s.LowUS, s.HighUS, s.Disturbance = 50*s.TimeUS, 50*s.LowUS, 50*s.HighUS, &stolen
			default:
				s.LowUS = s.TimeUS / 2
			}
		}
	}
	f := h.Fit(timesOf(t, h, "ring", truth, spoil(3)))
	if f.Reason != "" || f.Trained != 4 || f.Error.Points != 3 || f.Error.P90 > 0.05 ||
		!strings.HasSuffix(f.String(), "; not resolved: 256, 1Ki, 4Ki") {
		t.Errorf("%v", f)
	}
	if time, _ := f.At(256); time.Use != "not resolved: "+stolen.Sentence() {
		t.Errorf("%q", time.Use)
	}
	if time, _ := f.At(1024); !strings.Contains(time.Use, "not resolved: no 95 % interval, or one wider") {
		t.Errorf("%q", time.Use)
	}
	if why := f.Validation(1 << 30).Reason; !strings.Contains(why, "outside the measured sizes") {
		t.Errorf("a size that was not measured: %q", why)
	}
	f = h.Fit(timesOf(t, h, "ring", truth, spoil(7)))
	if why := f.Validation(1 << 20).Reason; !strings.Contains(why, "3 of 10 sizes have settled, want 4") ||
		!strings.Contains(f.String(), "not resolved: 3 of 10") || f.Library != h.DefaultLibrary() {
		t.Errorf("%v; %q", f, why)
	}
	if _, ok := Overall([]Fit{f}); ok {
		t.Error("nothing was held against anything")
	}
}

// Only times measured in the host's memory with so many ranks are fitted. Times of auto count for the
// algorithm it took. One series of each algorithm is fitted, and the others are named.
func TestHostFits(t *testing.T) {
	h, truth := sampleHost(), Library{0.6, 0.7}
	all := timesOf(t, h, "ring", truth, nil)
	all = append(all, timesOf(t, h, "ring", truth, func(_ int, s *model.Sample) { s.Buffers = "private" })...)
	all = append(all, timesOf(t, h, "two-stage", truth, func(_ int, s *model.Sample) {
		s.Algorithm, s.Executed = "auto", "two-stage"
	})...)
	all = append(all, timesOf(t, h, "ring", truth, func(_ int, s *model.Sample) {
		s.Algorithm, s.Executed = "auto", "ring"
	})...)
	all = append(all, timesOf(t, h, "tree", truth, func(_ int, s *model.Sample) { s.Ranks = 2 })...)
	all = append(all, timesOf(t, h, "tree", truth, func(_ int, s *model.Sample) { s.Kind = string(journal.Simulated) })...)
	all = append(all, timesOf(t, h, "tree", truth, func(_ int, s *model.Sample) { s.Algorithm = "quickreduce" })...)
	fits, skipped := h.Fits(4, all)
	var names []string
	for _, f := range fits {
		names = append(names, f.Algorithm)
	}
	if got := strings.Join(names, " "); got != "ring two-stage quickreduce" || len(skipped) != 2 ||
		!strings.Contains(skipped[0], "private") {
		t.Errorf("fitted %s, skipped %q", got, skipped)
	}
	if len(fits) == 3 && !strings.Contains(fits[2].Reason, "quickreduce") {
		t.Errorf("an algorithm that moves encoded elements: %v", fits[2])
	}
	if e, ok := Overall(fits); !ok || e.Points != 10 {
		t.Errorf("%+v", e)
	}
}
