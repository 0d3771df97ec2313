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

// Host models a machine whose ranks communicate through its memory, as a flat LogGP network (package
// loggp) on which the library's own algorithms run. A message or flag has the latency of a cache line
// between cores, ranks read and write each other's memory directly, and rates depend on how much
// memory a rank touches. A probe measured all of these numbers.
type Host struct {
	Name  string
	HopUS float64
	// Rates in GB/s of each rank, if ranks many of them touch bytes each. Exchange is for data that
	// crosses between private memories: copied to where the peer can reach it, and copied from there.
	// Load is for reading, Copy for copying.
	Exchange, Load, Copy func(ranks int, bytes float64) float64
}

// network returns the LogGP parameters for a library on this host, if each rank touches the given number of bytes. They
// follow from the probe: the time of a store is the time of a copy minus the time of a load, adding takes two loads and
// a store, and an exchange is a copy to where the peer finds it, a fetch and a store.
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

// Library holds the two parameters that no probe can measure: how long the library is busy at either
// end of a message or flag, and which share of the probed rates it reaches.
type Library struct{ OverheadUS, Share float64 }

// DefaultLibrary returns the start of a fit: the overhead of one cache line at either end of a
// message, and all of the probed rates.
func (h *Host) DefaultLibrary() Library { return Library{max(h.HopUS, 0.01), 1} }

// US returns the time of an all-reduce in microseconds.
func (h *Host) US(s model.Series, l Library, bytes int64) (float64, error) {
	choice, err := tuning.ParseChoice(s.Algorithm)
	if err != nil {
		return 0, err
	}
	chunk := choice.ChunkBytes
	choice.ChunkBytes = 0 // goes into the parameters instead of the name
	d, err := dtype.Parse(s.DType)
	if err != nil {
		return 0, err
	}
	elem, touched := int64(d.Size()), float64(2*bytes)
	if s.InPlace {
		touched = float64(bytes)
	}
	steps, err := schedule.New(schedule.AllReduce, choice.String(), schedule.Params{Ranks: s.Ranks,
		Count: int(max(bytes/elem, 1)), ChunkElems: chunk / int(elem), InPlace: s.InPlace})
	if err != nil {
		return 0, err
	}
	r, err := loggp.Run(asExecuted(steps, s, int(elem)), int(elem), h.network(l, s.Ranks, touched))
	return r.Time.Nanoseconds() / 1e3, err
}

// Fit is the model fitted to every second size of a series of measured times.
type Fit struct {
	model.Series
	Library
	Error   ErrorStats // on the sizes left out
	Trained int        // number of sizes used for the fit
	Times   []Time
	Reason  string // why there is no fit; "" if there is one

	implausible string    // why the fitted parameters cannot be right; "" if they can
	errors      []float64 // relative, on the sizes left out
}

// Time is a measured time and its use in the fit.
type Time struct {
	model.Sample
	Use string
}

// Resolved reports whether the time could be used.
func (t Time) Resolved() bool { return whyUnusable(t.Sample) == "" }

// The uses of a measured time. The reason follows notResolved.
const (
	InFit       = "in the fit"
	LeftOut     = "left out of the fit"
	notResolved = "not resolved: "
	minFitSizes = 4 // two sizes to fit two parameters to, and two to test them
)

// whyUnusable returns the reason why a time cannot be used, or "" if it can.
func whyUnusable(s model.Sample) string {
	switch {
	case s.Disturbance != nil:
		return s.Disturbance.Sentence()
	case !s.Settled():
		return "no 95 % interval, or one wider than 10 % to either side"
	}
	return ""
}

// Fit fits the model to a series of measured times, which must be in order of size.
func (h *Host) Fit(series []model.Sample) Fit {
	f := Fit{Series: series[0].Series, Library: h.DefaultLibrary()}
	var usable []int
	for i, s := range series {
		f.Times = append(f.Times, Time{s, ""})
		if why := whyUnusable(s); why != "" {
			f.Times[i].Use = notResolved + why
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
	ratio := func(i int) float64 { // predicted over measured time
		us, _ := h.US(f.Series, f.Library, series[i].Bytes) // cannot fail, because it succeeded above
		return us / series[i].TimeUS
	}
	var training, heldOut []int
	for k, i := range usable {
		if k%2 == 0 {
			training, f.Times[i].Use = append(training, i), InFit
		} else {
			heldOut, f.Times[i].Use = append(heldOut, i), LeftOut
		}
	}
	search([]*float64{&f.OverheadUS, &f.Share}, 1.005, func() (sum float64) {
		for _, i := range training {
			sum += loss(ratio(i))
		}
		return sum
	})
	f.errors = lists.Map(heldOut, func(i int) float64 { return math.Abs(ratio(i) - 1) })
	f.Trained, f.Error = len(training), newErrorStats("sizes left out of the fit", f.errors)
	if f.Share > 1/(1-model.MemoryMargin) {
		f.implausible = fmt.Sprintf("the fit needs %.0f %% of the probed rates, which are accurate to %.0f %%: the probe "+
			"was disturbed, or the model does not describe the library", 100*f.Share, 100*model.MemoryMargin)
	}
	return f
}

// String describes the fitted parameters and their error.
func (f Fit) String() string {
	if f.Reason != "" {
		return fmt.Sprintf("%v: not resolved: %s", f.Series, f.Reason)
	}
	text := fmt.Sprintf("%v: %.2g µs at either end of a message or flag and %.0f %% of the probed rates, fitted to %s; %v",
		f.Series, f.OverheadUS, 100*f.Share, unit.Plural(f.Trained, "size"), f.Error)
	if f.implausible != "" {
		text += "; not validated: " + f.implausible
	}
	var unresolved []string
	for _, t := range f.Times {
		if !t.Resolved() {
			unresolved = append(unresolved, unit.FormatBytes(t.Bytes))
		}
	}
	if len(unresolved) > 0 {
		text += "; not resolved: " + strings.Join(unresolved, ", ")
	}
	return text
}

// At returns the measured time of a size.
func (f Fit) At(bytes int64) (Time, bool) {
	return lists.First(f.Times, func(t Time) bool { return t.Bytes == bytes })
}

// Usable reports whether there is a fit and its parameters are plausible.
func (f Fit) Usable() bool { return f.Reason == "" && f.implausible == "" }

// Validation returns the error of predictions at a size, or the reason why it is not known.
func (f Fit) Validation(bytes int64) Validation {
	why := cmp.Or(f.Reason, f.implausible)
	if why == "" && (bytes < f.Times[0].Bytes || bytes > f.Times[len(f.Times)-1].Bytes) {
		why = "outside the measured sizes"
	}
	return Validation{f.Error, why}
}

// Fits fits every algorithm that was measured on a host with the given number of ranks. If an algorithm has several
// series, it fits the first; skipped names the others.
func (h *Host) Fits(ranks int, samples []model.Sample) (fits []Fit, skipped []string) {
	named := map[string]bool{} // algorithms that were measured by name
	for _, s := range samples {
		named[s.Algorithm] = true
	}
	var measured []model.Sample
	for _, s := range samples {
		if s.Kind != string(journal.Measured) || s.Ranks != ranks || !dist.Describe(s.Backend).HostMemory {
			continue
		}
		if s.Algorithm == model.Auto && s.Executed != "" && !named[s.Executed] {
			s.Algorithm = s.Executed // each size counts for the algorithm that auto took
		}
		measured = append(measured, s)
	}
	fitted := map[string]bool{model.Auto: true} // auto's algorithms were also measured by name
	for _, g := range lists.GroupBy(measured, func(s model.Sample) model.Series { return s.Series }) {
		if fitted[g.Key.Algorithm] {
			skipped = append(skipped, g.Key.String())
			continue
		}
		fitted[g.Key.Algorithm] = true
		fits = append(fits, h.Fit(g.Items))
	}
	return fits, skipped
}

// Overall returns the error of all usable fits together, or false if there is none.
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
	return newErrorStats("sizes left out of the fit", all), true
}
