// Package predict is the bench `predict`. It predicts the time of an all-reduce on a cluster
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
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/predict"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Axes and details of a row.
const (
	clusterAxis, opAxis, sizeAxis, algorithmAxis, protocolAxis = "cluster", "op", "size", "algorithm", "protocol"
	choiceDetail, validationDetail, curveDetail, clusterDetail = "choice", "validation", "published", "cluster"
)

const (
	allReduce = "allreduce" // the only operation with a model
	nvls      = "nvls"      // the algorithm of a switch that adds
)

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	return bench.New("predict", body,
		bench.Help("predicted time of an all-reduce on a cluster of GPUs, by algorithm and protocol, from a model fitted to "+
			"published times"),
		bench.Doc(`Predicts the time of an all-reduce with the model that NCCL uses to choose among
ring, tree and a switch that adds (nvls), with the protocols LL, LL128 and
Simple. best is the fastest.

cluster is a kind of node (`+strings.Join(predict.NodeKinds(), ", ")+`),
its GPUs and the number of nodes, such as h100-8x4, or a file.yaml that states
the numbers of GPUs and NICs, their GB/s, and the sources of these numbers.

Latencies and bandwidths within a node are fitted to every second size of the
published times of NCCL on that GPU. The error is measured on the sizes left
out; low_us and high_us are its 90th percentile to either side. Predictions
without published times to compare with (other GPUs, several nodes, single
algorithms and protocols) are labelled "not validated" and have no interval.

Cluster host, or host-2 for two ranks, is a machine that kernbench probe
measured (--probe FILE; by default this host). There the algorithms are the
library's own, and the model is a flat network (LogGP). Latency and rates come
from the probe, and ranks read and write each other's memory directly. A probe
cannot measure how long the library is busy with a message or flag, and which
share of the rates it reaches. These two are fitted to every second size of
measured times (--measured RUN, of bench collectives on cpu). The figure shows
both curves, and the report states the error on the sizes left out. Disturbed
times are not resolved and count for neither. A fit that needs more than the
probed rates is not validated. Ranks that share a core, and networks between
hosts, are not modelled.

  kernbench run --bench predict --cluster h100-8x1
  kernbench run --bench predict --cluster h100-8x4,h200-8x4 --size 1K:1G:x4 --algorithm best
  kernbench run --bench predict --cluster h100-8x1 --algorithm ring,tree --protocol LL,LL128,Simple
  kernbench run --bench llm-impact --curve predict:h100-8x1 --tp 8
  kernbench run --bench predict --cluster host-2 --probe limits.json --measured out/cpu --algorithm ring,two-stage`),
		bench.FileOption(probeOption, "", "probe result that describes cluster host; empty is this host's own"),
		bench.Option(measuredOption, bench.KindString, "",
			"RUN with all-reduces measured on cluster host, to fit and test its model"),
		bench.Version("2"),
		bench.Ranks("1"),
		bench.Strings(clusterAxis, "h100-8x1", "h100-8x4"),
		bench.Strings(opAxis, allReduce),
		bench.Strings(algorithmAxis, withBest(predict.Algorithms)...),
		bench.Strings(protocolAxis, withBest(predict.Protocols)...),
		bench.Bytes(sizeAxis, "1K:1G:x4"),
		bench.Metric("time_us", "us", "lower"),
		bench.Metric("busbw", "GB/s", "higher"),
		bench.Metric("low_us", "us", ""),
		bench.Metric("high_us", "us", ""),
		bench.Metric(measuredMetric, "us", ""),
		bench.Refuse(checkPoint),
		bench.ContentHashes(contentHashes),
		bench.Drop(checkCombination),
		bench.Figures(figures),
		bench.Sections(sections),
	)
}

// withBest returns the values of an axis: best, then the names.
func withBest(names []string) []string { return append([]string{predict.Best}, names...) }

// contentHashes identifies the contents of a cluster file and of the times to which a host's
// model is fitted.
func contentHashes(p, options point.Point) map[string]string {
	all := map[string]string{}
	cluster := p.At(clusterAxis)
	if sha := predict.Digest(cluster.String()); sha != "" {
		all[clusterAxis+" "+cluster.String()] = sha
	}
	if run := options.At(measuredOption); isHost(cluster.String()) && run.String() != "" {
		if samples, err := samplesOf(run.String()); err == nil {
			all[measuredOption+" "+run.String()] = model.Digest(samples)
		}
	}
	return all
}

// checkCombination drops points whose cluster, algorithm and protocol cannot be combined.
func checkCombination(p point.Point) error {
	algorithm, protocol := p.At(algorithmAxis).String(), p.At(protocolAxis).String()
	switch named := protocol != predict.Best; {
	case isHost(p.At(clusterAxis).String()) && (named || algorithm == nvls):
		return errors.New("protocols and a switch that adds are for GPUs: ranks on a host have neither")
	case algorithm == nvls && named && protocol != "Simple":
		return fmt.Errorf("%s has only the protocol Simple", nvls)
	}
	return nil
}

// checkPoint refuses points for which there is no model, before anything runs.
func checkPoint(p, options point.Point) error {
	if op := p.At(opAxis).String(); op != allReduce {
		return bench.Unknown("op", op, []string{allReduce})
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
	p, err := c.Predict(s.Str(algorithmAxis), s.Str(protocolAxis), bytes)
	if err != nil {
		return bench.Skip("%v", err)
	}
	s.Detail(choiceDetail, p.Algorithm+" with "+p.Protocol)
	s.Detail(clusterDetail, c.Describe())
	s.Detail("sources", strings.Join(c.Sources, "; "))
	s.Report("gpus", float64(c.Ranks()), "", "")
	if c.Nodes == 1 && c.Curve != "" {
		s.Detail(curveDetail, c.Curve)
	}
	ownChoice := s.Str(algorithmAxis) == predict.Best && s.Str(protocolAxis) == predict.Best
	e, reason := c.Validation(bytes, ownChoice)
	record(s, p.US, bytes, c.Ranks(), e, reason)
	return nil
}

// record records a predicted time with the interval that the error on sizes left out of the
// fit gives, or with the reason why the error is not known.
func record(s *bench.State, us float64, bytes int64, ranks int, e predict.ErrorStats, reason string) {
	s.Record("time_us", us)
	busbw, _ := bandwidth.Bus(allReduce, ranks, bytes, us)
	s.Record("busbw", busbw)
	if reason != "" {
		s.Detail(validationDetail, "not validated: "+reason)
		return
	}
	s.Detail(validationDetail, e.String())
	s.Record("low_us", us/(1+e.P90))
	s.Record("high_us", us*(1+e.P90))
}

func micros(us float64) string { return unit.FormatSig(us, 4) + " us" }

func size(r *journal.Row) float64 { return rowset.Number(r, sizeAxis) }

func cluster(r *journal.Row) string { return rowset.Text(r, clusterAxis) }

func algorithm(r *journal.Row) string { return rowset.Text(r, algorithmAxis) }

// validated reports whether any of the rows has an interval.
func validated(rows rowset.Set) bool {
	return slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Metrics["high_us"] > 0 })
}

// timePanel returns an empty panel of time against size.
func timePanel(title string) figure.Panel {
	return figure.Panel{Title: title, X: figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes},
		Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
}

// figures draws time against size with a panel for each cluster. Hosts have a figure of
// their own.
func figures(rows []journal.Row) []figure.Figure {
	hosts := figure.Figure{Name: "predict_host", Title: "Predicted and measured time of an all-reduce",
		Caption: "Lines: a flat network with the probe's parameters, fitted to every second measured size. Marks: " +
			"measured, with 95 % intervals; hollow: not resolved."}
	f := figure.Figure{Name: "predict_time", Title: "Predicted time of an all-reduce",
		Caption: "A model fitted to every second size of the published times (line). Bars are the 90th percentile of the " +
			"error on sizes left out of the fit. Clusters without published times are marked as not validated."}
	for _, g := range rowset.GroupBy(rowset.Good(rows), cluster) {
		if isHost(g.Key) {
			hosts.Panels = append(hosts.Panels, hostPanel(g.Rows))
			if overall := g.Rows[0].Details[overallDetail]; overall != "" {
				hosts.AddCaption("On " + g.Key + ": " + overall + ".")
			}
			continue
		}
		p := timePanel(g.Key)
		if !validated(g.Rows) {
			p.Title += ", not validated"
		}
		p.Series = rowset.Series(drawnRows(g.Rows), func(r *journal.Row) string {
			name := algorithm(r)
			if protocol := rowset.Text(r, protocolAxis); protocol != predict.Best {
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
		p.Lines = published(g.Rows[0])
		f.Panels = append(f.Panels, p)
	}
	return slices.DeleteFunc([]figure.Figure{f, hosts}, func(f figure.Figure) bool { return len(f.Panels) == 0 })
}

// bests returns how many of the row's algorithm and protocol are best.
func bests(r *journal.Row) int {
	return strings.Count(algorithm(r)+" "+rowset.Text(r, protocolAxis), predict.Best)
}

// drawnRows returns the rows to draw. If there are rows with both an algorithm and a
// protocol, rows with only one of them are left out, because each coincides with one of
// those.
func drawnRows(rows rowset.Set) rowset.Set {
	if !slices.ContainsFunc(rows, func(r *journal.Row) bool { return bests(r) == 0 }) {
		return rows
	}
	return rows.Where(func(r *journal.Row) bool { return bests(r) != 1 })
}

// timeTable returns the times of a cluster by algorithm and protocol, a line for each size.
func timeTable(rows rowset.Set) [][]string {
	pairs := rows.Where(func(r *journal.Row) bool { return bests(r) == 0 })
	name := func(r *journal.Row) string { return algorithm(r) + " " + rowset.Text(r, protocolAxis) }
	columns := rowset.GroupBy(pairs, name)
	table := [][]string{{"size, times in us"}}
	for _, c := range columns {
		table[0] = append(table[0], c.Key)
	}
	for _, g := range rowset.GroupBy(pairs, size) {
		line := []string{unit.FormatBytes(int64(g.Key))}
		for _, c := range columns {
			cell := ""
			if i := slices.IndexFunc(g.Rows, func(r *journal.Row) bool { return name(r) == c.Key }); i >= 0 {
				cell = unit.FormatSig(g.Rows[i].Metrics["time_us"], 4)
			}
			line = append(line, cell)
		}
		table = append(table, line)
	}
	return table
}

// published returns the line of the curve to which the row's prediction was fitted, or nothing
// if there is none.
func published(r *journal.Row) []figure.Line {
	curve, err := model.NamedCurve(r.Details[curveDetail])
	if err != nil {
		return nil
	}
	points := lists.Map(curve.Ranks[int(r.Metrics["gpus"])], func(p model.TablePoint) figure.Point {
		return figure.Point{X: float64(p.Bytes), Y: p.US}
	})
	if len(points) == 0 {
		return nil
	}
	return []figure.Line{{Label: "published", Points: points}}
}

// sections reports the best choice at each size with the prediction's error, then the times
// by algorithm and protocol.
func sections(rows []journal.Row) (out []bench.Section) {
	var tables []bench.Section
	for _, g := range rowset.GroupBy(rowset.Good(rows), cluster) {
		if isHost(g.Key) {
			out = append(out, hostSection(g.Rows))
		} else if table := timeTable(g.Rows); len(table) > 1 {
			tables = append(tables, bench.Section{Headline: true, Detail: true,
				Title: "Time by algorithm and protocol on " + g.Key, Text: g.Rows[0].Details[clusterDetail] + ".", Table: table})
		}
	}
	best := rowset.Good(rows).Where(func(r *journal.Row) bool { return bests(r) == 2 })
	for _, g := range rowset.GroupBy(best, cluster) {
		out = append(out, choiceSection(g.Key, g.Rows))
	}
	return append(out, tables...)
}

// choiceSection lists the best choice at each size. The validation is a column, or the text
// if it is the same at all sizes.
func choiceSection(cluster string, rows rowset.Set) bench.Section {
	s := bench.Section{Headline: true, Title: "Best choice on " + cluster,
		Table: [][]string{{"size", "fastest", "time", "90 % of errors within"}}}
	validations := rowset.GroupBy(rows, func(r *journal.Row) string { return r.Details[validationDetail] })
	if len(validations) == 1 {
		s.Text = validations[0].Key + "."
	} else {
		s.Table[0] = append(s.Table[0], "validation")
	}
	for _, r := range rows {
		within := ""
		if high := r.Metrics["high_us"]; high > 0 {
			within = unit.FormatSig(r.Metrics["low_us"], 4) + " to " + micros(high)
		}
		line := []string{unit.FormatBytes(int64(size(r))), r.Details[choiceDetail], micros(r.Metrics["time_us"]), within}
		if len(validations) > 1 {
			line = append(line, r.Details[validationDetail])
		}
		s.Table = append(s.Table, line)
	}
	return s
}
