// Package predict is the bench `predict`: how long an all-reduce takes on a cluster of GPUs,
// by NCCL's algorithms and protocols, or between the cores of a host, by the library's own.
// It measures nothing: package internal/result/predict has the models, fitted to published
// or measured times, and what their errors are.
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

// The axes and details.
const (
	clusterAxis, opAxis, sizeAxis, algorithmAxis, protocolAxis = "cluster", "op", "size", "algorithm", "protocol"
	choiceDetail, validationDetail, curveDetail, clusterDetail = "choice", "validation", "published", "cluster"
)

// allReduce is the operation that there is a model of.
const allReduce = "allreduce"

// nvls is the algorithm of a switch that adds.
const nvls = "nvls"

// Bench declares it.
func Bench() *bench.Bench {
	return bench.New("predict", body,
		bench.Help("how long an all-reduce takes on a cluster of GPUs, by algorithm and protocol: a model fitted to "+
			"published times"),
		bench.Doc(`Predicts the time of an all-reduce by the model by which NCCL chooses: ring, tree
or a switch that adds (nvls), with the protocols LL, LL128 and Simple; best is the fastest.

cluster is a kind of node (`+strings.Join(predict.NodeKinds(), ", ")+`), its GPUs and the number of nodes, as in
h100-8x4, or a file.yaml that says how many GPUs, NICs and GB/s there are, and from which source.

Latencies and bandwidths within a node are fitted to every second size of the published times of NCCL on
that GPU, and the error is stated on the sizes left out. low_us and high_us are that error's 90th
percentile to either side. Whatever there are no published times of, other GPUs, several nodes, single
algorithms and protocols, is labelled "not validated" and has no interval.

Cluster host, or host-2 for two ranks, is the machine that kernbench probe measured (probe FILE; by default
this host's own). There the algorithms are the library's, and the model is a flat network (LogGP): latency and
rates are the probe's, ranks read and write each other's memory by themselves, and what no probe can know, the time that the
library takes for a message or flag and the share of the rates that it reaches, is fitted to every second size of measured times (measured RUN, of bench collectives on cpu). The figure
has both curves, the report says the error on the sizes left out. Times that were disturbed are not
resolved and count for neither; a fit beyond what the probe found is not validated. Ranks that share a core are not modelled, nor is a network between hosts.

  kernbench run --bench predict --cluster h100-8x1
  kernbench run --bench predict --cluster h100-8x4,h200-8x4 --size 1K:1G:x4 --algorithm best
  kernbench run --bench predict --cluster h100-8x1 --algorithm ring,tree --protocol LL,LL128,Simple
  kernbench run --bench llm-impact --curve predict:h100-8x1 --tp 8
  kernbench run --bench predict --cluster host-2 --probe limits.json --measured out/cpu --algorithm ring,two-stage`),
		bench.FileOption(probeOption, "", "probe result that cluster host is made of; empty is this host's own"),
		bench.Option(measuredOption, bench.KindString, "",
			"RUN with all-reduces measured on cluster host, to fit its model to and hold it against"),
		bench.Version("2"),
		bench.Ranks("1"),
		bench.Strings(clusterAxis, "h100-8x1", "h100-8x4"),
		bench.Strings(opAxis, allReduce),
		bench.Strings(algorithmAxis, append([]string{predict.Best}, predict.Algorithms...)...),
		bench.Strings(protocolAxis, append([]string{predict.Best}, predict.Protocols...)...),
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

// contentHashes is that of a cluster's file and of the times that a host's model is fitted to.
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

// checkCombination drops what does not go together.
func checkCombination(p point.Point) error {
	algorithm, protocol := p.At(algorithmAxis).String(), p.At(protocolAxis).String()
	switch own := protocol != predict.Best; {
	case isHost(p.At(clusterAxis).String()) && (own || algorithm == nvls):
		return errors.New("protocols and a switch that adds are for GPUs: ranks on a host have neither")
	case algorithm == nvls && own && protocol != "Simple":
		return fmt.Errorf("%s has the protocol Simple alone", nvls)
	}
	return nil
}

// checkPoint refuses what there is no model of, before anything runs.
func checkPoint(p, options point.Point) error {
	if op := p.At(opAxis).String(); op != allReduce {
		return bench.Unknown("op", op, []string{allReduce})
	}
	if cluster := p.At(clusterAxis).String(); isHost(cluster) {
		return checkHost(cluster, p.At(algorithmAxis).String(), options.At(probeOption).String(),
			options.At(measuredOption).String())
	}
	if a, known := p.At(algorithmAxis).String(),
		append([]string{predict.Best}, predict.Algorithms...); !slices.Contains(known, a) {
		return bench.Unknown("algorithm", a, known)
	}
	if a, known := p.At(protocolAxis).String(),
		append([]string{predict.Best}, predict.Protocols...); !slices.Contains(known, a) {
		return bench.Unknown("protocol", a, known)
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
	choice := s.Str(algorithmAxis) == predict.Best && s.Str(protocolAxis) == predict.Best
	e, why := c.Validation(bytes, choice)
	record(s, p.US, bytes, c.Ranks(), e, why)
	return nil
}

// record notes a predicted time and what it is worth, by the error on sizes left out of the fit, or why that is
// not known.
func record(s *bench.State, us float64, bytes int64, ranks int, e predict.ErrorStats, why string) {
	s.Record("time_us", us)
	busbw, _ := bandwidth.Bus(allReduce, ranks, bytes, us)
	s.Record("busbw", busbw)
	if why != "" {
		s.Detail(validationDetail, "not validated: "+why)
		return
	}
	s.Detail(validationDetail, e.String())
	s.Record("low_us", us/(1+e.P90))
	s.Record("high_us", us*(1+e.P90))
}

func micros(us float64) string { return unit.FormatSig(us, 4) + " us" }

func size(r *journal.Row) float64 { return rowset.Number(r, sizeAxis) }

// figures draws the time against the size, a panel for each cluster; hosts have a figure of their own.
func figures(rows []journal.Row) []figure.Figure {
	hosts := figure.Figure{Name: "predict_host", Title: "Predicted and measured time of an all-reduce",
		Caption: "Lines: a flat network made of the probe, fitted to every second measured size. Marks: measured, with 95 " +
			"% intervals; hollow: not resolved."}
	f := figure.Figure{Name: "predict_time", Title: "Predicted time of an all-reduce",
		Caption: "A model fitted to every second size of the published times (line). What there are none of is marked as " +
			"not validated; bars are the 90th percentile of the error on sizes left out of the fit."}
	for _, g := range rowset.GroupBy(rowset.Good(rows), func(r *journal.Row) string {
		return rowset.Text(r, clusterAxis)
	}) {
		if isHost(g.Key) {
			hosts.Panels = append(hosts.Panels, hostPanel(g.Rows))
			if overall := g.Rows[0].Details[overallDetail]; overall != "" {
				hosts.AddCaption("On " + g.Key + ": " + overall + ".")
			}
			continue
		}
		p := figure.Panel{Title: g.Key, X: figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes},
			Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
		if !slices.ContainsFunc(g.Rows, func(r *journal.Row) bool { return r.Metrics["high_us"] > 0 }) {
			p.Title += ", not validated"
		}
		p.Series = rowset.Series(g.Rows.Where(drawnRows(g.Rows)), func(r *journal.Row) string {
			name := rowset.Text(r, algorithmAxis)
			if protocol := rowset.Text(r, protocolAxis); protocol != predict.Best {
				name += ", " + protocol
			}
			return name
		}, func(r *journal.Row) (figure.Point, bool) {
			return figure.Point{X: size(r), Y: r.Metrics["time_us"], Low: r.Metrics["low_us"], High: r.Metrics["high_us"]}, true
		})
		// The best lies on others at every size, and so on top.
		slices.SortStableFunc(p.Series, func(a, b figure.Series) int {
			return strings.Count(a.Name, predict.Best) - strings.Count(b.Name, predict.Best)
		})
		p.Lines = published(g.Rows[0])
		f.Panels = append(f.Panels, p)
	}
	return slices.DeleteFunc([]figure.Figure{f, hosts}, func(f figure.Figure) bool { return len(f.Panels) == 0 })
}

// drawnRows tells which rows to draw: the best of all and, where they were asked for, pairs of an algorithm
// and a protocol, in which case the best of some only lies on one of them.
func drawnRows(rows rowset.Set) func(*journal.Row) bool {
	free := func(r *journal.Row) int {
		return strings.Count(rowset.Text(r, algorithmAxis)+rowset.Text(r, protocolAxis), predict.Best)
	}
	pairs := slices.ContainsFunc(rows, func(r *journal.Row) bool { return free(r) == 0 })
	return func(r *journal.Row) bool { return !pairs || free(r) != 1 }
}

// timeTable is the times of a cluster by algorithm and protocol.
func timeTable(rows rowset.Set) [][]string {
	pairs := rows.Where(func(r *journal.Row) bool {
		return rowset.Text(r, algorithmAxis) != predict.Best && rowset.Text(r, protocolAxis) != predict.Best
	})
	name := func(r *journal.Row) string { return rowset.Text(r, algorithmAxis) + " " + rowset.Text(r, protocolAxis) }
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

// published is the curve that a row's prediction is fitted to.
func published(r *journal.Row) []figure.Line {
	curve, err := model.NamedCurve(r.Details[curveDetail])
	if err != nil { // there is none
		return nil
	}
	points := curve.Ranks[int(r.Metrics["gpus"])]
	if len(points) == 0 {
		return nil
	}
	at := func(p model.TablePoint) figure.Point { return figure.Point{X: float64(p.Bytes), Y: p.US} }
	return []figure.Line{{Label: "published", Points: lists.Map(points, at)}}
}

// sections say what to choose at which size, and what the prediction is worth.
func sections(rows []journal.Row) (out []bench.Section) {
	var tables []bench.Section
	for _, g := range rowset.GroupBy(rowset.Good(rows), func(r *journal.Row) string { return rowset.Text(r, clusterAxis) }) {
		if isHost(g.Key) {
			out = append(out, hostSection(g.Rows))
		} else if table := timeTable(g.Rows); len(table) > 1 {
			tables = append(tables, bench.Section{Headline: true, Detail: true,
				Title: "Time by algorithm and protocol on " + g.Key, Text: g.Rows[0].Details[clusterDetail] + ".", Table: table})
		}
	}
	best := rowset.Good(rows).Where(func(r *journal.Row) bool {
		return rowset.Text(r, algorithmAxis) == predict.Best && rowset.Text(r, protocolAxis) == predict.Best
	})
	for _, g := range rowset.GroupBy(best, func(r *journal.Row) string { return rowset.Text(r, clusterAxis) }) {
		out = append(out, choiceSection(g.Key, g.Rows))
	}
	return append(out, tables...)
}

// choiceSection is the best at each size, and what that is worth: in a column, or in the text where it is the same at all.
func choiceSection(cluster string, rows rowset.Set) bench.Section {
	s := bench.Section{Headline: true, Title: "Best choice on " + cluster,
		Table: [][]string{{"size", "fastest", "time", "90 % of errors within"}}}
	worth := rowset.GroupBy(rows, func(r *journal.Row) string { return r.Details[validationDetail] })
	if len(worth) == 1 {
		s.Text = worth[0].Key + "."
	} else {
		s.Table[0] = append(s.Table[0], "validation")
	}
	for _, r := range rows {
		within := ""
		if high := r.Metrics["high_us"]; high > 0 {
			within = unit.FormatSig(r.Metrics["low_us"], 4) + " to " + micros(high)
		}
		line := []string{unit.FormatBytes(int64(size(r))), r.Details[choiceDetail], micros(r.Metrics["time_us"]), within}
		if len(worth) > 1 {
			line = append(line, r.Details[validationDetail])
		}
		s.Table = append(s.Table, line)
	}
	return s
}
