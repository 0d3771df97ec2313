// Package predict is the bench `predict`. It predicts the time of a collective on a cluster
// of GPUs, by NCCL's algorithms and protocols, or between the cores of a host, by the
// library's own algorithms. It measures nothing: package internal/result/predict has the
// models, which are fitted to published or measured times, and their errors.
package predict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/predict"
)

// Axes and details of a row.
const (
	clusterAxis, opAxis, sizeAxis, algorithmAxis, protocolAxis = "cluster", "op", "size", "algorithm", "protocol"
	choiceDetail, validationDetail, clusterDetail              = "choice", "validation", "cluster"
	errorMedian, errorP90                                      = "error_pct_median", "error_pct_p90"
)

const nvls = "nvls" // the algorithm of a switch that adds

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	return bench.New("predict", body,
		bench.Help("predicted time of a collective on a cluster of GPUs, by algorithm and protocol, from a model fitted to "+
			"published times"),
		bench.Doc(manual()),
		bench.FileOption(probeOption, "", "probe result that describes cluster host (default: of this host)"),
		bench.Option(measuredOption, bench.KindString, "",
			"RUN with all-reduces measured on cluster host, to fit and test its model"),
		bench.Version("3"),
		bench.Ranks("1"),
		bench.Strings(clusterAxis, "h100-8x1", "h100-8x4"),
		bench.Strings(opAxis, predict.AllReduce),
		bench.Strings(algorithmAxis, withBest(reducers)...),
		bench.Strings(protocolAxis, withBest(predict.Protocols)...),
		bench.Bytes(sizeAxis, "1K:1G:x4"),
		bench.Metric("time_us", "us", "lower", "predicted time"),
		bench.Metric("busbw", "GB/s", "higher", "bus bandwidth at the predicted time"),
		bench.Metric("low_us", "us", "", "lower end of the interval, from the 90th percentile of the error"),
		bench.Metric("high_us", "us", "", "upper end of the interval"),
		bench.Metric(errorMedian, "%", "", "median error on systems that were left out of the fit"),
		bench.Metric(errorP90, "%", "", "90th percentile of that error"),
		bench.Reports("gpus", "", "GPUs of the cluster"),
		bench.Reports("ranks", "", "ranks of cluster host"),
		bench.Reports("measured_low_us", "us", "lower end of the interval of measured_us"),
		bench.Reports(measuredResolved, "", "1 if measured_us was not disturbed and is known well enough"),
		bench.Reports("measured_high_us", "us", "upper end of the interval of measured_us"),
		bench.Metric(measuredMetric, "us", "", "shortest measured time of this size (option measured)"),
		bench.Headline("time_us", "busbw", "low_us", "high_us", measuredMetric, journal.ValidatedByDetail+"=validated by"),
		bench.Refuse(checkPoint),
		bench.ContentHashes(predict.Digest, clusterAxis),
		bench.ContentHashes(measuredDigest, measuredOption),
		bench.Drop(checkCombination),
		decl.Figures(figures),
		bench.Sections(sections),
		timeTable,
	)
}

// manual returns the long help text of the bench.
func manual() string {
	return `Predicts the time of an all-reduce with the model that NCCL uses to choose among
ring, tree and a switch that adds (nvls), with the protocols LL, LL128 and
Simple. best is the fastest. op may also be allgather, reduce_scatter (rings) or
alltoall (direct).

cluster is a kind of node (` + strings.Join(predict.NodeKinds(), ", ") + `),
its GPUs and the number of nodes, such as h100-8x4, or a file.yaml that states
the numbers of GPUs and NICs, their GB/s, and the sources of these numbers.

The model is fitted to published times of NCCL within one node. Every row has the
error of such predictions on systems that were left out of the fit as a whole
(error_pct_median, error_pct_p90) and says what was left out (validated_by): a
rank count, a GPU kind, a generation of NVLink or a node count. If the system itself
was measured, the row is interpolated between its sizes and says so. low_us and
high_us are the 90th percentile to either side. Rows that no measured time validates
(single algorithms and protocols, networks and node counts unlike the measured ones)
are labelled "not validated" and have no interval.
"kernbench predict errors" computes the errors again from the data.

Cluster host, or host-2 for two ranks, is a machine that kernbench probe
measured (--probe FILE; by default this host). There the algorithms are the
library's own, and the model is a flat network (LogGP), whose two free numbers
are fitted to every second size of measured times (--measured RUN, of bench
collectives on cpu). The figure shows both curves, and the report states the
error on the sizes left out. 'kernbench docs models' explains both models.

  kernbench run --bench predict --cluster h100-8x1
  kernbench run --bench predict --cluster h100-8x4,h200-8x4 --size 1K:1G:x4 --algorithm best
  kernbench run --bench predict --cluster h100-8x1 --algorithm ring,tree --protocol LL,LL128,Simple
  kernbench run --bench predict --cluster b200-8x1 --op allreduce,allgather,alltoall --algorithm best --protocol best
  kernbench run --bench llm-impact --curve predict:h100-8x1 --tp 8
  kernbench run --bench predict --cluster host-2 --probe limits.json --measured out/cpu --algorithm ring,two-stage`
}

// reducers are the algorithms of an all-reduce.
var reducers = []string{"ring", "tree", nvls}

// withBest returns the values of an axis: best, then the names.
func withBest(names []string) []string { return append([]string{predict.Best}, names...) }

// checkCombination drops points whose cluster, algorithm and protocol cannot be combined.
func checkCombination(p point.Point) error {
	algorithm, protocol := p.At(algorithmAxis).String(), p.At(protocolAxis).String()
	op := p.At(opAxis).String()
	switch named := protocol != predict.Best; {
	case op != predict.AllReduce && algorithm != predict.Best && algorithm != ringAlgorithm(op):
		return fmt.Errorf("%s has only the algorithm %s", op, ringAlgorithm(op))
	case op == predict.AllToAll && protocol == "LL128":
		return fmt.Errorf("%s has no protocol LL128", op)
	case isHost(p.At(clusterAxis).String()) && (named || algorithm == nvls):
		return errors.New("protocols and a switch that adds are for GPUs: ranks on a host have neither")
	case algorithm == nvls && named && protocol != "Simple":
		return fmt.Errorf("%s has only the protocol Simple", nvls)
	}
	return nil
}

// ringAlgorithm returns the only algorithm of an operation that is not an all-reduce.
func ringAlgorithm(op string) string {
	if op == predict.AllToAll {
		return "direct"
	}
	return "ring"
}

// checkPoint refuses points for which there is no model, before anything runs.
func checkPoint(p, options point.Point) error {
	if op := p.At(opAxis).String(); !slices.Contains(predict.Ops, op) {
		return bench.Unknown("op", op, predict.Ops)
	} else if isHost(p.At(clusterAxis).String()) && op != predict.AllReduce {
		return fmt.Errorf("cluster %s has a model of %s only, not of %s", hostName, predict.AllReduce, op)
	}
	if cluster := p.At(clusterAxis).String(); isHost(cluster) {
		return checkHost(cluster, p.At(algorithmAxis).String(), options.At(probeOption).String(),
			options.At(measuredOption).String())
	}
	for axis, names := range map[string][]string{algorithmAxis: predict.Algorithms, protocolAxis: predict.Protocols} {
		if name, known := p.At(axis).String(), withBest(names); !slices.Contains(known, name) {
			return bench.Unknown(axis, name, known)
		}
	}
	c, err := predict.Find(p.At(clusterAxis).String())
	if err == nil && c.Ranks() < 2 {
		err = fmt.Errorf("cluster %s has one GPU: there is nothing to reduce", c.Name)
	}
	return err
}

func body(ctx context.Context, s *bench.State) error {
	s.Kind(journal.Modelled)
	if isHost(s.Str(clusterAxis)) {
		return predictHost(ctx, s)
	}
	c, err := predict.Find(s.Str(clusterAxis))
	if err != nil {
		return err
	}
	bytes := int64(s.Int(sizeAxis))
	op := s.Str(opAxis)
	p, err := c.Predict(op, s.Str(algorithmAxis), s.Str(protocolAxis), bytes)
	if err != nil {
		return bench.Skip("%v", err)
	}
	s.Detail(choiceDetail, p.Algorithm+" with "+p.Protocol)
	s.Detail(clusterDetail, c.Describe())
	s.Detail("sources", strings.Join(c.Sources, "; "))
	s.Report("gpus", float64(c.Ranks()), "", "")
	ownChoice := s.Str(algorithmAxis) == predict.Best && s.Str(protocolAxis) == predict.Best
	record(s, op, p.US, bytes, c.Ranks(), c.Validate(op, bytes, ownChoice))
	return nil
}

// record records a predicted time with its error on systems left out of the fit and the
// interval that follows, or with the reason why the error is not known.
func record(s *bench.State, op string, us float64, bytes int64, ranks int, v predict.Validation) {
	s.Record("time_us", us)
	busbw, _ := bandwidth.Bus(op, ranks, bytes, us)
	s.Record("busbw", busbw)
	s.Detail(validationDetail, v.String())
	if !v.Known() {
		s.Detail(journal.ValidatedByDetail, predict.NotValidated)
		return
	}
	s.Detail(journal.ValidatedByDetail, v.By)
	s.Record(errorMedian, 100*v.Median)
	s.Record(errorP90, 100*v.P90)
	s.Record("low_us", us/(1+v.P90))
	s.Record("high_us", us*(1+v.P90))
}

func micros(us float64) string { return unit.FormatSig(us, 4) }

func size(r *journal.Row) float64 { return dataset.Number(r, sizeAxis) }

func cluster(r *journal.Row) string { return dataset.Text(r, clusterAxis) }

// system names the cluster, with the operation unless it is an all-reduce.
func system(r *journal.Row) string {
	if op := dataset.Text(r, opAxis); op != predict.AllReduce {
		return cluster(r) + ", " + op
	}
	return cluster(r)
}

func algorithm(r *journal.Row) string { return dataset.Text(r, algorithmAxis) }

// timePanel returns an empty panel of time against size.
func timePanel(title string) figure.Panel {
	return figure.Panel{Title: title, X: figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes},
		Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
}

// figures draws time against size with a panel for each cluster. Hosts have a figure of
// their own.
func figures(rows dataset.Set) []figure.Figure {
	hosts := figure.Figure{Name: "predict_host", Title: "Predicted and measured time of an all-reduce",
		Caption: "Lines: a flat network with the probe's parameters, fitted to every second measured size. Marks: " +
			"measured, with 95 % intervals; hollow: not resolved."}
	f := figure.Figure{Name: "predict_time", Title: "Predicted time",
		Caption: "A model fitted to measured times within one node. Bars are the 90th percentile of its error on systems " +
			"left out of the fit, which each title states with the median. Other predictions are marked as not validated."}
	for _, g := range lists.GroupBy(rows.Good(), system) {
		if isHost(g.Key) {
			hosts.Panels = append(hosts.Panels, hostPanel(g.Items))
			if overall := g.Items[0].Details[overallDetail]; overall != "" {
				hosts.AddCaption("On " + g.Key + ": " + overall + ".")
			}
			continue
		}
		p := timePanel(g.Key + ": " + errorLabel(g.Items))
		p.Series = dataset.Series(drawnRows(g.Items), func(r *journal.Row) string {
			name := algorithm(r)
			if protocol := dataset.Text(r, protocolAxis); protocol != predict.Best {
				name += ", " + protocol
			}
			return name
		}, func(r *journal.Row) (figure.Point, bool) {
			return figure.Point{X: size(r), Y: r.Metrics["time_us"], Low: r.Metrics["low_us"], High: r.Metrics["high_us"]}, true
		})
		// Best coincides with another series at every size, so it is drawn last, on top.
		slices.SortStableFunc(p.Series, func(a, b figure.Series) int {
			return strings.Count(a.Name, predict.Best) - strings.Count(b.Name, predict.Best)
		})
		p.Lines = measuredLine(g.Items[0])
		f.Panels = append(f.Panels, p)
	}
	return slices.DeleteFunc([]figure.Figure{f, hosts}, func(f figure.Figure) bool { return len(f.Panels) == 0 })
}

// bests returns on how many of the two axes, algorithm and protocol, the row has the value best.
func bests(r *journal.Row) int {
	return strings.Count(algorithm(r)+" "+dataset.Text(r, protocolAxis), predict.Best)
}

// drawnRows returns the rows to draw. If there are rows with both an algorithm and a
// protocol, rows with only one of them are left out, because each coincides with one of
// those.
func drawnRows(rows dataset.Set) dataset.Set {
	if !slices.ContainsFunc(rows, func(r *journal.Row) bool { return bests(r) == 0 }) {
		return rows
	}
	return rows.Where(func(r *journal.Row) bool { return bests(r) != 1 })
}

// measuredLine returns the measured times of the row's own system, or nothing if there are none.
func measuredLine(r *journal.Row) []figure.Line {
	c, err := predict.Find(cluster(r))
	if err != nil {
		return nil
	}
	points := lists.Map(c.Measured(dataset.Text(r, opAxis)), func(p predict.Point) figure.Point {
		return figure.Point{X: float64(p.Bytes), Y: p.US}
	})
	if len(points) == 0 {
		return nil
	}
	return []figure.Line{{Label: "measured", Points: points}}
}

// errorLabel states the error of the rows' predictions in a few words. Sizes and choices that
// are not validated have no bars, which the label mentions.
func errorLabel(rows dataset.Set) string {
	known := rows.Where(func(r *journal.Row) bool { _, has := r.Metrics[errorP90]; return has })
	if len(known) == 0 {
		return predict.NotValidated
	}
	label := fmt.Sprintf("error %.0f %%, 90 %% within %.0f %% (%s)", known[0].Metrics[errorMedian],
		known[0].Metrics[errorP90], known[0].Details[journal.ValidatedByDetail])
	if len(known) < len(rows) {
		label += "; without bars " + predict.NotValidated
	}
	return label
}

// timeTable declares the times by algorithm and protocol.
var timeTable = bench.Pivot(`rows=cluster+op+size+protocol,columns=algorithm,value=time_us,show=detail,where=algorithm!="`+
	predict.Best+`" && protocol!="`+predict.Best+`"`, bench.Title("Time by algorithm and protocol"),
	bench.Caption("Single algorithms and protocols are "+predict.NotValidated+": the measured times are of the library's "+
		"own choice."))

// sections reports the predictions for a host, and the best choice at each size with the prediction's error.
func sections(rows dataset.Set) (out []bench.Section) {
	for _, g := range lists.GroupBy(rows.Good(), system) {
		if isHost(g.Key) {
			out = append(out, hostSection(g.Items))
		}
	}
	best := rows.Good().Where(func(r *journal.Row) bool { return bests(r) == 2 })
	for _, g := range lists.GroupBy(best, system) {
		out = append(out, choiceSection(g.Key, g.Items))
	}
	return out
}

// choiceSection lists the best choice at each size with its error.
func choiceSection(cluster string, rows dataset.Set) bench.Section {
	s := bench.Section{Headline: true, Title: "Best choice on " + cluster,
		Table: [][]string{{"size", "fastest", "time (µs)", "median error (%)", "90 % of errors within",
			"validated by"}}}
	if machine := rows[0].Details[clusterDetail]; machine != "" {
		s.Text = machine + ".\n\n"
	}
	for _, v := range lists.GroupBy(rows, func(r *journal.Row) string { return r.Details[validationDetail] }) {
		s.Text += "- " + v.Key + "\n"
	}
	for _, r := range rows {
		within, median := "", ""
		if high := r.Metrics["high_us"]; high > 0 {
			within = micros(r.Metrics["low_us"]) + " to " + micros(high)
			median = fmt.Sprintf("%.0f", r.Metrics[errorMedian])
		}
		s.Table = append(s.Table, []string{unit.FormatBytes(int64(size(r))), r.Details[choiceDetail],
			micros(r.Metrics["time_us"]), median, within, r.Details[journal.ValidatedByDetail]})
	}
	return s
}
