package predict

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/predict"
)

// hostName is the cluster that stands for a probed machine: host, or host-2 for two ranks.
const hostName = "host"

// Options, metrics and details of rows about a host.
const (
	probeOption, measuredOption = "probe", "measured"

	measuredMetric, measuredLow, measuredHigh = "measured_us", "measured_low_us", "measured_high_us"
	measuredResolved                          = "measured_resolved"

	useDetail, fitDetail, overallDetail, skippedDetail = "measured", "fit", "overall", "without"
)

func isHost(cluster string) bool {
	return cluster == hostName || strings.HasPrefix(cluster, hostName+"-")
}

// parseRanks returns the number of ranks in host-N. For host it is the number of cores.
func parseRanks(cluster string, cores int) (int, error) {
	n, err := cores, error(nil)
	if number, named := strings.CutPrefix(cluster, hostName+"-"); named {
		n, err = strconv.Atoi(number)
	}
	if err != nil || n < 2 || n > cores {
		return 0, fmt.Errorf("cluster %q: want %s or %s-N, with 2 to %d ranks: the probe has a core for each",
			cluster, hostName, hostName, cores)
	}
	return n, nil
}

// checkHost refuses points for which there is no model of a host.
func checkHost(cluster, algorithm, probeFile, run string) error {
	choice, err := tuning.ParseChoice(algorithm)
	if err != nil {
		return err
	}
	choice.ChunkBytes = 0 // any chunk size is valid
	if name, known := choice.String(), withBest(schedule.Names(schedule.AllReduce)); !slices.Contains(known, name) &&
		name != nvls { // checkCombination drops nvls
		return bench.Unknown("algorithm", name, known)
	}
	if probeFile != "" {
		p, err := probe.Read(probeFile)
		if err != nil {
			return fmt.Errorf("--%s: %w", probeOption, err)
		}
		if _, err := parseRanks(cluster, p.Cores); err != nil {
			return err
		}
	}
	if run != "" {
		if _, err := samplesOf(run); err != nil {
			return fmt.Errorf("--%s: %w", measuredOption, err)
		}
	}
	return nil
}

// samplesOf returns the all-reduces of a run that were measured in a host's memory.
func samplesOf(run string) ([]model.Sample, error) {
	all, source, err := imports.Samples(run)
	if err != nil {
		return nil, err
	}
	samples := lists.Filter(all, func(s model.Sample) bool { return dist.Describe(s.Backend).HostMemory })
	if len(samples) == 0 {
		return nil, fmt.Errorf("%s has no measured all-reduces in this host's memory: make some with "+
			"`kernbench run --bench collectives --backend %s`", source, hints.HostBackend)
	}
	return samples, nil
}

// measuredDigest identifies the times to which the model of a host is fitted.
func measuredDigest(run string) (string, error) {
	if run == "" {
		return "", nil
	}
	return imports.SamplesDigest(run)
}

// newHost returns the model of a probed machine. The probe's copy rates count every byte
// twice, once read and once written, and are sums over the ranks.
func newHost(p probe.Result) (*predict.Host, error) {
	if len(p.Exchange) == 0 || p.HopUS() == 0 {
		return nil, errors.New("the probe has a single core, so ranks have no peers")
	}
	return &predict.Host{Name: p.Host, HopUS: p.HopUS(), Exchange: p.ExchangeGBps,
		Load: func(ranks int, bytes float64) float64 { return p.ReadGBps(ranks, bytes) / float64(ranks) },
		Copy: func(ranks int, bytes float64) float64 { return p.CopyGBps(ranks, bytes) / 2 / float64(ranks) }}, nil
}

// hostModel is a host with the fits to its measured times.
type hostModel struct {
	host    *predict.Host
	ranks   int
	source  string         // describes the probe
	samples []model.Sample // measured times; nil if none were given
	fits    []predict.Fit  // one for each measured algorithm
	skipped []string       // measured series without a fit
}

// hostModels caches the models, so that all points of a launch share one: the arguments of
// loadHostModel -> *hostModel.
var hostModels sync.Map

func loadHostModel(ctx context.Context, cluster, probeFile, run string) (*hostModel, error) {
	key := [3]string{cluster, probeFile, run}
	if f, ok := hostModels.Load(key); ok {
		return f.(*hostModel), nil
	}
	var p probe.Result
	var err error
	if probeFile != "" {
		p, err = probe.Read(probeFile)
	} else {
		p, err = probe.LoadOrMeasure(ctx)
	}
	if len(p.Copy) == 0 { // LoadOrMeasure may return a result and an error
		return nil, err
	}
	f := &hostModel{source: fmt.Sprintf("%s probe of host %s, %s", p.Profile, p.Host,
		p.Time.Format("2006-01-02 15:04:05Z"))}
	if f.ranks, err = parseRanks(cluster, p.Cores); err != nil {
		return nil, err
	}
	if f.host, err = newHost(p); err != nil {
		return nil, err
	}
	if run != "" {
		if f.samples, err = samplesOf(run); err != nil {
			return nil, err
		}
		f.fits, f.skipped = f.host.Fits(f.ranks, f.samples)
	}
	hostModels.Store(key, f)
	return f, nil
}

// fit returns the fit of an algorithm. If its times were not measured, it is the default
// library, with the reason.
func (f *hostModel) fit(algorithm string) predict.Fit {
	if fit, ok := lists.First(f.fits, func(fit predict.Fit) bool { return fit.Algorithm == algorithm }); ok {
		return fit
	}
	reason := "no measured times of it were given (--" + measuredOption + ")"
	if len(f.samples) > 0 {
		reason = fmt.Sprintf("no times of %s by %d ranks were measured", algorithm, f.ranks)
	}
	series := model.Series{Algorithm: algorithm, DType: "f32", Ranks: f.ranks, Backend: hints.HostBackend}
	return predict.Fit{Series: series, Library: f.host.DefaultLibrary(), Reason: reason}
}

// predictHost is the body of a point whose cluster is a host.
func predictHost(ctx context.Context, s *bench.State) error {
	f, err := loadHostModel(ctx, s.Str(clusterAxis), s.Str(probeOption), s.Str(measuredOption))
	if err != nil {
		return err
	}
	bytes := int64(s.Int(sizeAxis))
	algorithms := []string{s.Str(algorithmAxis)}
	if algorithms[0] == predict.Best {
		algorithms = f.candidates()
	}
	us, fit, err := f.fastest(algorithms, bytes)
	if err != nil {
		return bench.Skip("%v", err)
	}
	s.Report("ranks", float64(f.ranks), "", "")
	s.Detail(choiceDetail, fit.Algorithm)
	s.Detail("sources", f.source)
	s.Detail(fitDetail, fit.String())
	if len(f.skipped) > 0 {
		s.Detail(skippedDetail, strings.Join(f.skipped, "; "))
	}
	if e, ok := predict.Overall(f.fits); ok {
		s.Detail(overallDetail, e.String())
	}
	f.recordMeasured(s, algorithms, bytes)
	record(s, predict.AllReduce, us, bytes, f.ranks, fit.Validation(bytes))
	return nil
}

// candidates returns the algorithms among which best chooses: those with a usable fit, or
// all if there is none.
func (f *hostModel) candidates() []string {
	usable := lists.Filter(f.fits, predict.Fit.Usable)
	if len(usable) == 0 {
		return schedule.Names(schedule.AllReduce)
	}
	return lists.Map(usable, func(fit predict.Fit) string { return fit.Algorithm })
}

// fastest returns the shortest predicted time of the algorithms. It fails only if there is
// no time for any of them.
func (f *hostModel) fastest(algorithms []string, bytes int64) (minUS float64, best predict.Fit, err error) {
	minUS = math.Inf(1)
	for _, name := range algorithms {
		fit := f.fit(name)
		us, failure := f.host.US(fit.Series, fit.Library, bytes)
		if failure != nil {
			err = failure
		} else if us < minUS {
			minUS, best = us, fit
		}
	}
	if best.Algorithm != "" {
		err = nil
	}
	return minUS, best, err
}

// recordMeasured records the shortest measured time of the size among the algorithms, and
// its use in the fit. Resolved times take precedence.
func (f *hostModel) recordMeasured(s *bench.State, algorithms []string, bytes int64) {
	var shortest predict.Time
	for _, name := range algorithms {
		t, ok := f.fit(name).At(bytes)
		if ok && (shortest.TimeUS == 0 || t.Resolved() && (!shortest.Resolved() || t.TimeUS < shortest.TimeUS)) {
			shortest = t
		}
	}
	if shortest.TimeUS == 0 {
		return
	}
	if shortest.Host != f.host.Name {
		s.Warn("the times were measured on host %s, but the probe is of %s", shortest.Host, f.host.Name)
	}
	s.Record(measuredMetric, shortest.TimeUS)
	if shortest.Resolved() {
		s.Report(measuredResolved, 1, "", "")
	}
	if shortest.LowUS > 0 {
		s.Report(measuredLow, shortest.LowUS, "us", "")
		s.Report(measuredHigh, shortest.HighUS, "us", "")
	}
	use := shortest.Use
	if len(algorithms) > 1 {
		use = "fastest measured: " + shortest.Algorithm + ", " + use
	}
	s.Detail(useDetail, use)
}

func notResolved(r *journal.Row) bool { return r.Metrics[measuredResolved] == 0 }

// hostPanel draws the predicted times as lines and the measured ones as marks of the same
// colour, which are hollow if they are not resolved.
func hostPanel(rows dataset.Set) figure.Panel {
	p := timePanel(fmt.Sprintf("%s, %.0f ranks", cluster(rows[0]), rows[0].Metrics["ranks"]))
	if names := rows.Distinct(algorithmAxis); len(names) > 1 { // best coincides with one of the others
		rows = rows.Where(func(r *journal.Row) bool { return algorithm(r) != predict.Best })
	}
	lines := dataset.Series(rows, algorithm, func(r *journal.Row) (figure.Point, bool) {
		return figure.Point{X: size(r), Y: r.Metrics["time_us"]}, true
	})
	marks := dataset.Series(rows, algorithm, func(r *journal.Row) (figure.Point, bool) {
		m := r.Metrics
		return figure.Point{X: size(r), Y: m[measuredMetric], Low: m[measuredLow], High: m[measuredHigh],
			Hollow: notResolved(r)}, m[measuredMetric] > 0
	})
	for i, line := range lines {
		line.Color, line.NoMarker = i+1, true
		m, measured := lists.First(marks, func(m figure.Series) bool { return m.Name == line.Name })
		line.Dashed = len(rows.At(algorithmAxis, line.Name).Values("high_us")) == 0 // not validated
		line.Name += ", predicted"
		if line.Dashed {
			line.Name += ", not validated"
		}
		p.Series = append(p.Series, line)
		if measured {
			m.Name, m.Color, m.Kind = m.Name+", measured", i+1, figure.Scatter
			p.Series = append(p.Series, m)
		}
	}
	if len(marks) == 0 {
		p.Title += ", not validated"
	}
	return p
}

// hostSection compares the predictions with the measured times.
func hostSection(rows dataset.Set) bench.Section {
	s := bench.Section{Headline: true, Title: "Predicted and measured on " + cluster(rows[0])}
	s.Text = "No measured times were given to compare the predictions with, so they are not validated."
	if overall := rows[0].Details[overallDetail]; overall != "" {
		s.Text = "All algorithms together: " + overall + "."
	}
	s.Table = [][]string{{"algorithm", "size", "predicted (µs)", "measured (µs)", "error", "measured time was"}}
	single := rows.Where(func(r *journal.Row) bool { return algorithm(r) != predict.Best })
	fits := lists.Distinct(lists.Map(single, func(r *journal.Row) string { return r.Details[fitDetail] }))
	unresolved := 0
	for _, r := range single {
		us, m := r.Metrics["time_us"], r.Metrics[measuredMetric]
		if m == 0 {
			continue
		}
		off := fmt.Sprintf("%+.0f %%", 100*(us/m-1))
		if notResolved(r) {
			off, unresolved = "not resolved", unresolved+1
		}
		s.Table = append(s.Table, []string{algorithm(r), unit.FormatBytes(int64(size(r))),
			micros(us), micros(m), off, r.Details[useDetail]})
	}
	if unresolved > 0 {
		s.Text += fmt.Sprintf(" %s in the table not resolved: disturbed while measured, or not known well enough.",
			unit.Plural(unresolved, "time"))
	}
	if skipped := rows[0].Details[skippedDetail]; skipped != "" {
		s.Text += " Not compared: " + skipped + "."
	}
	if len(fits) > 0 {
		s.Text += "\n\n- " + strings.Join(fits, "\n- ")
	}
	if len(s.Table) == 1 {
		s.Table = nil
	}
	return s
}
