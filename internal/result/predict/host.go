package predict

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Host is a machine whose ranks talk through its memory, as a flat network (package loggp) on
// which the library's own algorithms run: a message or flag has the latency of a cache line between cores, a rank
// reads and writes others' memory by itself, and rates depend on how much memory a rank touches. All of it is what a
// probe measured.
type Host struct {
	Name  string
	HopUS float64
	// GB/s of each of so many ranks, each of which touches so many bytes: that cross between
	// ranks, copied to where others reach them and copied from there; that are read; that are copied.
	Exchange, Load, Copy func(ranks int, bytes float64) float64
}

// network is the host, for ranks that touch so many bytes each, with a library on it. An exchange
// is a copy to where the other finds it, fetching, and a store. What a copy takes beyond its load is the
// store; adding is two loads and a store.
func (h *Host) network(l Library, ranks int, touched float64) loggp.Network {
	load, copied := 1/h.Load(ranks, touched), 1/h.Copy(ranks, touched)
	store := max(0, copied-load)
	fetch := max(load, 1/h.Exchange(ranks, touched)-copied-store)
	rate := func(time float64) loggp.Rate {
		if time == 0 {
			return 0 // it takes no time of its own
		}
		return loggp.Rate(max(1, 1e6*l.Share/time))
	}
	us := func(us float64) event.Time { return event.Time(us * float64(event.Microsecond)) }
	return loggp.Network{Latency: us(h.HopUS), Overhead: us(l.OverheadUS), Bandwidth: rate(1 / h.Exchange(ranks, touched)),
		Reduce: rate(copied + load), Copy: rate(copied), Load: rate(load), Fetch: rate(fetch), Store: rate(store)}
}

// Library is what no probe knows: how long the library is busy with a message at either end,
// and which share of the probed rates it reaches.
type Library struct{ OverheadUS, Share float64 }

// DefaultLibrary is where the fit begins: the library takes as long as a cache line at either end of a message, and
// reaches all that was probed.
func (h *Host) DefaultLibrary() Library { return Library{max(h.HopUS, 0.01), 1} }

// US is the time of an all-reduce.
func (h *Host) US(s model.Series, l Library, bytes int64) (float64, error) {
	choice, err := tuning.ParseChoice(s.Algorithm)
	if err != nil {
		return 0, err
	}
	piece := choice.ChunkBytes
	choice.ChunkBytes = 0
	d, err := dtype.Parse(s.DType)
	if err != nil {
		return 0, err
	}
	elem, touched := int64(d.Size()), float64(2*bytes)
	if s.InPlace {
		touched = float64(bytes)
	}
	steps, err := schedule.New(schedule.AllReduce, choice.String(),
		schedule.Params{Ranks: s.Ranks, Count: int(max(bytes/elem, 1)),
			ChunkElems: piece / int(elem), InPlace: s.InPlace})
	if err != nil {
		return 0, err
	}
	r, err := loggp.Run(asExecuted(steps, s, int(elem)), int(elem), h.network(l, s.Ranks, touched))
	return r.Time.Nanoseconds() / 1e3, err
}

// Fit is the model fitted to every second size of a series of measured times, and held
// against the others.
type Fit struct {
	model.Series
	Library
	Error   ErrorStats // on the sizes left out
	Trained int        // sizes that it was fitted to
	Times   []Time
	Reason  string // why there is no fit; ""

	implausible string // why the fit is worth nothing; ""
	errors      []float64
}

// Time is a measured time and what it was used for.
type Time struct {
	model.Sample
	Use string
}

// The uses of a measured time; one that is not resolved goes on with the reason.
const (
	InFit       = "in the fit"
	LeftOut     = "left out of the fit"
	NotResolved = "not resolved: "
	minFitSizes = 4 // sizes: two to fit two parameters to, and two to hold them against
)

// whyUnusable is why a time cannot be used.
func whyUnusable(s model.Sample) string {
	switch {
	case s.Disturbance != "":
		return s.Disturbance
	case !s.Settled():
		return "no 95 % interval, or one wider than 10 % to either side"
	}
	return ""
}

// Fit fits the model to a series of measured times, in order of size.
func (h *Host) Fit(series []model.Sample) Fit {
	f := Fit{Series: series[0].Series, Library: h.DefaultLibrary()}
	var usable []int
	for i, s := range series {
		f.Times = append(f.Times, Time{s, ""})
		if why := whyUnusable(s); why != "" {
			f.Times[i].Use = NotResolved + why
		} else {
			usable = append(usable, i)
		}
	}
	if len(usable) < minFitSizes {
		f.Reason = fmt.Sprintf("%d of %s have settled, want %d at least", len(usable), unit.Plural(len(series), "size"),
			minFitSizes)
		return f
	}
	if _, err := h.US(f.Series, f.Library, series[0].Bytes); err != nil {
		f.Reason = err.Error()
		return f
	}
	off := func(i int) float64 {
		us, _ := h.US(f.Series, f.Library, series[i].Bytes) // which went well once
		return us / series[i].TimeUS
	}
	var learned, left []int
	for k, i := range usable {
		if k%2 == 0 {
			learned, f.Times[i].Use = append(learned, i), InFit
		} else {
			left, f.Times[i].Use = append(left, i), LeftOut
		}
	}
	search([]*float64{&f.OverheadUS, &f.Share}, 1.005, func() (sum float64) {
		for _, i := range learned {
			sum += loss(off(i))
		}
		return sum
	})
	f.errors = lists.Map(left, func(i int) float64 { return math.Abs(off(i) - 1) })
	f.Trained, f.Error = len(learned), newErrorStats("the measured times", f.errors)
	if f.Share > 1/(1-model.MemoryMargin) {
		f.implausible = fmt.Sprintf("it takes %.0f %% of the probed rates, which are within %.0f %% of what there is: the "+
			"probe was disturbed, or the model is not what the library does",
			100*f.Share, 100*model.MemoryMargin)
	}
	return f
}

// String says what was fitted and what it is worth.
func (f Fit) String() string {
	if f.Reason != "" {
		return fmt.Sprintf("%v: not resolved: %s", f.Series, f.Reason)
	}
	text := fmt.Sprintf("%v: %.2g us at either end of a message or flag and %.0f %% of the probed rates, fitted to %s; %v", f.Series, f.OverheadUS,
		100*f.Share, unit.Plural(f.Trained, "size"), f.Error)
	if f.implausible != "" {
		text += "; not validated: " + f.implausible
	}
	var lost []string
	for _, t := range f.Times {
		if strings.HasPrefix(t.Use, NotResolved) {
			lost = append(lost, unit.FormatBytes(t.Bytes))
		}
	}
	if len(lost) > 0 {
		text += "; not resolved: " + strings.Join(lost, ", ")
	}
	return text
}

// At is the measured time of a size.
func (f Fit) At(bytes int64) (Time, bool) {
	return lists.First(f.Times, func(t Time) bool { return t.Bytes == bytes })
}

// Usable tells whether the fit is worth something.
func (f Fit) Usable() bool { return f.Reason == "" && f.implausible == "" }

// Validation is the error at a size; a reason where no measured times say what it is.
func (f Fit) Validation(bytes int64) (ErrorStats, string) {
	if why := cmp.Or(f.Reason, f.implausible); why != "" {
		return ErrorStats{}, why
	}
	if bytes < f.Times[0].Bytes || bytes > f.Times[len(f.Times)-1].Bytes {
		return ErrorStats{}, "outside the measured sizes"
	}
	return f.Error, ""
}

// Fits fits every algorithm of so many ranks that was measured on a host, and says which rows
// it did without. Of several series of an algorithm the first counts.
func (h *Host) Fits(ranks int, samples []model.Sample) (fits []Fit, without []string) {
	named := map[string]bool{}
	for _, s := range samples {
		named[s.Algorithm] = true
	}
	var measured []model.Sample
	for _, s := range samples {
		if s.Kind != string(journal.Measured) || s.Ranks != ranks || !dist.Describe(s.Backend).HostMemory {
			continue
		}
		if s.Algorithm == model.Auto && s.Executed != "" && !named[s.Executed] {
			s.Algorithm = s.Executed // each size by the algorithm that was taken
		}
		measured = append(measured, s)
	}
	taken := map[string]bool{model.Auto: true} // what it took is measured by name
	for _, g := range lists.GroupBy(measured, func(s model.Sample) model.Series { return s.Series }) {
		if taken[g.Key.Algorithm] {
			without = append(without, g.Key.String())
			continue
		}
		taken[g.Key.Algorithm] = true
		fits = append(fits, h.Fit(g.Items))
	}
	return fits, without
}

// Overall is the error of several fits together, of those that are worth something; false where none was held
// against anything.
func Overall(fits []Fit) (ErrorStats, bool) {
	var all []float64
	for _, f := range fits {
		if f.Usable() {
			all = append(all, f.errors...)
		}
	}
	if len(all) == 0 {
		return ErrorStats{}, false
	}
	return newErrorStats("the measured times", all), true
}
