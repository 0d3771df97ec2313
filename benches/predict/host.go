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
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/predict"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// hostName is the cluster that is the machine of a probe: host, or host-2 for two ranks on it.
const hostName = "host"

// The options, metrics and details of a host.
const (
	probeOption, measuredOption = "probe", "measured"

	measuredMetric, measuredLow, measuredHigh = "measured_us", "measured_low_us", "measured_high_us"

	useDetail, fitDetail, overallDetail, skippedDetail = "measured", "fit", "overall", "without"
)

func isHost(cluster string) bool {
	return cluster == hostName || strings.HasPrefix(cluster, hostName+"-")
}

// parseRanks reads host and host-N.
func parseRanks(cluster string, cores int) (int, error) {
	n, err := cores, error(nil)
	if number, named := strings.CutPrefix(cluster, hostName+"-"); named {
		n, err = strconv.Atoi(number)
	}
	if err != nil || n < 2 || n > cores {
		return 0, fmt.Errorf("cluster %q: want %s or %s-N, with 2 to %d ranks, a core for each: the probe has no others",
			cluster, hostName, hostName, cores)
	}
	return n, nil
}

// hostAlgorithms are what may be predicted for a host.
func hostAlgorithms() []string {
	return append([]string{predict.Best}, schedule.Names(schedule.AllReduce)...)
}

// checkHost refuses what there is no model of on a host.
func checkHost(cluster, algorithm, probeFile, run string) error {
	choice, err := tuning.ParseChoice(algorithm)
	if err != nil {
		return err
	}
	choice.ChunkBytes = 0 // any size of pieces will do
	if name, known := choice.String(), hostAlgorithms(); !slices.Contains(known, name) && name != nvls {
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

// samplesOf are the measured all-reduces of a run, which is read once.
func samplesOf(run string) ([]model.Sample, error) {
	if list, ok := samplesByRun.Load(run); ok {
		return list.([]model.Sample), nil
	}
	_, r, err := journal.LoadRun(run)
	if err != nil {
		return nil, err
	}
	samples := slices.DeleteFunc(model.SamplesOf(r.Latest()), func(s model.Sample) bool {
		return !dist.Describe(s.Backend).HostMemory
	})
	if len(samples) == 0 {
		return nil, fmt.Errorf("run %s of bench %s has no measured all-reduces in this host's memory: make some with "+
			"`kernbench run --bench collectives --backend %s`",
			r.ID(), r.Header.Bench, hints.HostBackend)
	}
	samplesByRun.Store(run, samples)
	return samples, nil
}

var samplesByRun sync.Map // []model.Sample, by run

// newHost is the machine of a probe.
func newHost(p probe.Result) (*predict.Host, error) {
	if len(p.Exchange) == 0 || p.HopUS() == 0 {
		return nil, errors.New("the probe has a single core: there is nobody to talk to")
	}
	return &predict.Host{Name: p.Host, HopUS: p.HopUS(), Exchange: p.ExchangeGBps,
		Load: func(ranks int, bytes float64) float64 { return p.ReadGBps(ranks, bytes) / float64(ranks) },
		Copy: func(ranks int, bytes float64) float64 { return p.CopyGBps(ranks, bytes) / 2 / float64(ranks) }}, nil
}

// hostModel is a host with what was fitted to measured times of so many ranks.
type hostModel struct {
	host    *predict.Host
	ranks   int
	source  string
	samples []model.Sample
	fits    []predict.Fit
	without []string
}

// hostModels are made once for all points of a launch.
var hostModels sync.Map // *fitted, by cluster and files

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
	if len(p.Copy) == 0 {
		return nil, err
	}
	f := &hostModel{source: fmt.Sprintf("%s probe of host %s, %s", p.Profile, p.Host, p.Time.Format("2006-01-02 15:04:05Z"))}
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
		f.fits, f.without = f.host.Fits(f.ranks, f.samples)
	}
	hostModels.Store(key, f)
	return f, nil
}

// fit is that of an algorithm; without measured times it is the model as the probe has it.
func (f *hostModel) fit(algorithm string) predict.Fit {
	if fit, ok := lists.First(f.fits, func(fit predict.Fit) bool { return fit.Algorithm == algorithm }); ok {
		return fit
	}
	why := "no measured times of it were given (--" + measuredOption + ")"
	if len(f.samples) > 0 {
		why = fmt.Sprintf("no times of %s by %d ranks were measured", algorithm, f.ranks)
	}
	series := model.Series{Algorithm: algorithm, DType: "f32", Ranks: f.ranks, Backend: hints.HostBackend}
	return predict.Fit{Series: series,
		Library: f.host.DefaultLibrary(), Reason: why}
}

// predictHost is body for ranks on a host.
func predictHost(ctx context.Context, s *bench.State) error {
	f, err := loadHostModel(ctx, s.Str(clusterAxis), s.Str(probeOption), s.Str(measuredOption))
	if err != nil {
		return err
	}
	bytes := int64(s.Int(sizeAxis))
	choose := []string{s.Str(algorithmAxis)}
	if choose[0] == predict.Best {
		choose = f.candidates()
	}
	us, fit, err := f.fastest(choose, bytes)
	if err != nil {
		return bench.Skip("%v", err)
	}
	s.Report("ranks", float64(f.ranks), "", "")
	s.Detail(choiceDetail, fit.Algorithm)
	s.Detail("sources", f.source)
	s.Detail(fitDetail, fit.String())
	if len(f.without) > 0 {
		s.Detail(skippedDetail, strings.Join(f.without, "; "))
	}
	if e, ok := predict.Overall(f.fits); ok {
		s.Detail(overallDetail, e.String())
	}
	f.recordMeasured(s, choose, bytes)
	e, why := fit.Validation(bytes)
	record(s, us, bytes, f.ranks, e, why)
	return nil
}

// candidates are the algorithms that were measured, or else all.
func (f *hostModel) candidates() (names []string) {
	for _, fit := range f.fits {
		if fit.Usable() {
			names = append(names, fit.Algorithm)
		}
	}
	if len(names) == 0 {
		return schedule.Names(schedule.AllReduce)
	}
	return names
}

// fastest is the least predicted time of some algorithms.
func (f *hostModel) fastest(algorithms []string, bytes int64) (least float64, best predict.Fit, err error) {
	least = math.Inf(1)
	for _, name := range algorithms {
		fit := f.fit(name)
		us, bad := f.host.US(fit.Series, fit.Library, bytes)
		if bad != nil {
			err = bad
		} else if us < least {
			least, best = us, fit
		}
	}
	if best.Algorithm != "" {
		err = nil
	}
	return least, best, err
}

// recordMeasured adds the measured time of the size, the least of some algorithms of those that are
// resolved, and what it was used for.
func (f *hostModel) recordMeasured(s *bench.State, algorithms []string, bytes int64) {
	var least predict.Time
	for _, name := range algorithms {
		t, ok := f.fit(name).At(bytes)
		lost := strings.HasPrefix(t.Use, predict.NotResolved)
		if ok && (least.TimeUS == 0 || !lost && (strings.HasPrefix(least.Use, predict.NotResolved) || t.TimeUS < least.TimeUS)) {
			least = t
		}
	}
	if least.TimeUS == 0 {
		return
	}
	if least.Host != f.host.Name {
		s.Warn("the times were measured on host %s, and the probe is of %s", least.Host, f.host.Name)
	}
	s.Record(measuredMetric, least.TimeUS)
	if least.LowUS > 0 {
		s.Report(measuredLow, least.LowUS, "us", "")
		s.Report(measuredHigh, least.HighUS, "us", "")
	}
	use := least.Use
	if len(algorithms) > 1 {
		use = "fastest measured: " + least.Algorithm + ", " + use
	}
	s.Detail(useDetail, use)
}

func notResolved(r *journal.Row) bool {
	return strings.Contains(r.Details[useDetail], predict.NotResolved)
}

// hostPanel has the predicted times as lines and the measured ones as marks of the same colour,
// hollow where they are not resolved.
func hostPanel(rows rowset.Set) figure.Panel {
	p := figure.Panel{Title: fmt.Sprintf("%s, %.0f ranks", rowset.Text(rows[0], clusterAxis), rows[0].Metrics["ranks"]),
		X: figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes},
		Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
	if names := rows.Distinct(algorithmAxis); len(names) > 1 { // the best lies on others
		rows = rows.Where(func(r *journal.Row) bool { return rowset.Text(r, algorithmAxis) != predict.Best })
	}
	name := func(r *journal.Row) string { return rowset.Text(r, algorithmAxis) }
	lines := rowset.Series(rows, name, func(r *journal.Row) (figure.Point, bool) {
		return figure.Point{X: size(r), Y: r.Metrics["time_us"]}, true
	})
	marks := rowset.Series(rows, name, func(r *journal.Row) (figure.Point, bool) {
		m := r.Metrics
		return figure.Point{X: size(r), Y: m[measuredMetric], Low: m[measuredLow], High: m[measuredHigh],
			Hollow: notResolved(r)}, m[measuredMetric] > 0
	})
	for i, line := range lines {
		line.Color, line.NoMarker = i+1, true
		at := slices.IndexFunc(marks, func(m figure.Series) bool { return m.Name == line.Name })
		of := rows.At(algorithmAxis, line.Name)
		line.Name += ", predicted"
		if !slices.ContainsFunc(of, func(r *journal.Row) bool { return r.Metrics["high_us"] > 0 }) {
			line.Name, line.Dashed = line.Name+", not validated", true
		}
		p.Series = append(p.Series, line)
		if at >= 0 {
			m := marks[at]
			m.Name, m.Color, m.Kind = m.Name+", measured", i+1, figure.Scatter
			p.Series = append(p.Series, m)
		}
	}
	if len(marks) == 0 {
		p.Title += ", not validated"
	}
	return p
}

// hostSection says in words how far predictions are from what was measured.
func hostSection(rows rowset.Set) bench.Section {
	s := bench.Section{Headline: true, Title: "Predicted and measured on " + rowset.Text(rows[0], clusterAxis)}
	s.Text = "Nothing was measured to hold the predictions against: they are not validated."
	if overall := rows[0].Details[overallDetail]; overall != "" {
		s.Text = "All algorithms together: " + overall + "."
	}
	s.Table = [][]string{{"algorithm", "size", "predicted", "measured", "error", "measured time was"}}
	var said []string
	lost := 0
	for _, r := range rows {
		if rowset.Text(r, algorithmAxis) == predict.Best {
			continue
		}
		if fit := r.Details[fitDetail]; !slices.Contains(said, fit) {
			said = append(said, fit)
		}
		us, m := r.Metrics["time_us"], r.Metrics[measuredMetric]
		if m == 0 {
			continue
		}
		off := fmt.Sprintf("%+.0f %%", 100*(us/m-1))
		if notResolved(r) {
			off, lost = "not resolved", lost+1
		}
		s.Table = append(s.Table, []string{rowset.Text(r, algorithmAxis), unit.FormatBytes(int64(size(r))),
			micros(us), micros(m), off, r.Details[useDetail]})
	}
	if lost > 0 {
		s.Text += fmt.Sprintf(" %s in the table not resolved: disturbed while measured, or not known well enough.",
			unit.Plural(lost, "time"))
	}
	if without := rows[0].Details[skippedDetail]; without != "" {
		s.Text += " Not compared at all: " + without + "."
	}
	if len(said) > 0 {
		s.Text += "\n\n- " + strings.Join(said, "\n- ")
	}
	if len(s.Table) == 1 {
		s.Table = nil
	}
	return s
}
