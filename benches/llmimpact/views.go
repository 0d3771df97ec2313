package llmimpact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// declaredViews declares a heat map of the share of communication in each step, the parts of one step at the largest
// group, the gains from the alternatives, and a table.
func declaredViews() []bench.Clause {
	gain := func(metric, panel string) bench.Clause {
		return bench.Plot("x=model,by=step,kind=bars,first=curve+context,last=tp,columns=1,y="+metric,
			bench.Named("llm_gain"),
			bench.Title("How much shorter the step would be, compared with {curve} at tp {tp}"),
			bench.Label("panel", panel), bench.Label("y", "step shorter by"), bench.Caption("Below zero "+
				"the present curve is the faster one. A latency-bound message gains nothing from bandwidth."))
	}
	return []bench.Clause{
		bench.Plot("x=step,y=share_pct,by=model,panel=curve+tp+context,kind=heat,columns=3", bench.Named("llm_share"),
			bench.Title("Share of the step that is communication"), bench.Label("share_pct", "share"),
			bench.Caption("Modelled, not validated. Communication over communication and floor. The floor is the time of "+
				"reading weights and cache, or of multiplying, whichever is longer. Empty: no time, for the reason in the "+
				"row.")),
		bench.Plot("x=model,y=floor_us+exposed_us,kind=stack,panel=curve,first=step+context,last=tp", bench.Named("llm_step"),
			bench.Title("One step, {step} at tp {tp}, context {context}: floor and communication"),
			bench.Label("floor_us", "floor"), bench.Label("exposed_us", "communication"), bench.Label("y", "time"),
			bench.Caption("Modelled, not validated. The floor does not count launches. Communication "+
				"that overlaps with the floor is left out.")),
		gain("against_gain_pct", "with the curve {against}"),
		gain("target_gain_pct", "with a bus bandwidth of {target-gbps} GB/s"),
		bench.Pivot("rows=model+curve+tp+context,columns=step,value=layer_us+time_us+share_pct",
			bench.Title("Time per layer and per step"), bench.Caption("The communication of a layer and of the step, and its "+
				"share. Cells without a time: the rows say why.")),
		bench.Sections(sections),
		bench.Sentences(costsOf, shares, unknown),
	}
}

// alternative is a curve or bus bandwidth with which the rows were compared: its name, the option that chooses it, and
// the metrics' prefix.
type alternative struct{ name, option, metric string }

var alternatives = []alternative{{"with the curve %s", "against", "against"},
	{"with a bus bandwidth of %s GB/s", "target-gbps", "target"}}

// sections reports the gains from the alternatives, and the method.
func sections(rows dataset.Set) (out []bench.Section) {
	if set := points(rows); len(set) > 0 {
		out = append(gainSection(set), methodSection(set))
	}
	return out
}

// points returns a row for each point. Further trials give the same numbers.
func points(rows dataset.Set) dataset.Set {
	return lists.Map(rows.Good().Points(), func(trials dataset.Set) *journal.Row { return trials[0] })
}

// phase is what the summary says about decoding or prefilling.
type phase struct {
	name            string
	lowest, highest *journal.Row
}

// costs are the data of the summary.
type costs struct {
	phases  []phase
	missing int // points without a time
}

func costsOf(rows dataset.Set) (c costs) {
	set := points(rows)
	if c.missing = len(rows.Points()) - len(set); len(set) == 0 {
		return costs{}
	}
	byShare := func(a, b *journal.Row) int { return cmp.Compare(a.Metrics["share_pct"], b.Metrics["share_pct"]) }
	for _, name := range []string{"decode", "prefill"} {
		of := set.Where(func(r *journal.Row) bool { return strings.HasPrefix(dataset.Text(r, "step"), name) })
		if len(of) > 0 {
			c.phases = append(c.phases, phase{name, slices.MinFunc(of, byShare), slices.MaxFunc(of, byShare)})
		}
	}
	return c
}

const costTitle = "Cost of the all-reduces"

// shares states the range of shares in a phase, and unknown how many points have none.
var shares = views.Each(func(c costs) []phase { return c.phases }, bench.Rule[phase]{ID: "share", Section: costTitle,
	Rows: func(p phase) dataset.Set { return lists.Distinct(dataset.Set{p.lowest, p.highest}) },
	Text: func(p phase) string {
		share := func(r *journal.Row) string { return fmt.Sprintf("%.0f %%", r.Metrics["share_pct"]) }
		if share(p.lowest) == share(p.highest) {
			return fmt.Sprintf("- **%s**: communication takes %s of the step (%s).", p.name, share(p.highest), where(p.highest))
		}
		return fmt.Sprintf("- **%s**: communication takes from %s of the step (%s) to %s (%s), %s for each all-reduce there.",
			p.name, share(p.lowest), where(p.lowest), share(p.highest), where(p.highest),
			unit.FormatMicros(p.highest.Metrics["each_us"]))
	}})

var unknown = bench.Rule[costs]{ID: "unknown", Section: costTitle,
	When: func(c costs) bool { return c.missing > 0 },
	Text: func(c costs) string {
		return fmt.Sprintf("- %d points have no number: their messages lie outside the curve, or the model cannot be spread "+
			"over so many ranks or in this way. The rows say which; nothing is extrapolated.", c.missing)
	}}

func where(r *journal.Row) string {
	return fmt.Sprintf("%s, %s, tp %s, context %s, %s", dataset.Text(r, "model"), dataset.Text(r, "step"),
		dataset.Text(r, "tp"), dataset.Text(r, "context"), dataset.Text(r, "curve"))
}

// maxGains limits the list of gains.
const maxGains = 12

// gainSection lists the largest gains from the alternatives.
func gainSection(rows dataset.Set) []bench.Section {
	type gain struct {
		alternative
		row     *journal.Row
		percent float64
	}
	var gains []gain
	compared := false
	for _, a := range alternatives {
		for _, r := range rows {
			percent, has := r.Metrics[a.metric+"_gain_pct"]
			if compared = compared || has; percent > 0.5 {
				gains = append(gains, gain{a, r, percent})
			}
		}
	}
	if !compared {
		return nil
	}
	s := bench.Section{Title: "Largest gains",
		Text: "Sorted by how much shorter the step would be; gains below half a per cent are left out."}
	if len(gains) == 0 {
		s.Text, s.Sentences = "", []views.Sentence{{ID: "gain", Rows: rows,
			Text: "No alternative that was compared would shorten a step by half a per cent."}}
		return []bench.Section{s}
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return cmp.Compare(b.percent, a.percent) })
	s.Table = [][]string{{"model", "step", "tp", "what", "all-reduces now", "then", "step shorter by"}}
	for _, g := range gains[:min(len(gains), maxGains)] {
		s.AddLine("gain", dataset.Set{g.row}, dataset.Text(g.row, "model"), dataset.Text(g.row, "step"),
			dataset.Text(g.row, "tp"), fmt.Sprintf(g.name, dataset.Text(g.row, g.option)),
			unit.FormatMicros(g.row.Metrics["time_us"]), unit.FormatMicros(g.row.Metrics[g.metric+"_us"]),
			fmt.Sprintf("%.1f %%", g.percent))
	}
	return []bench.Section{s}
}

// methodSection explains the computation and cites the curves' sources.
func methodSection(rows dataset.Set) bench.Section {
	var b strings.Builder
	b.WriteString("A message has tokens x hidden x 2 bytes. Its time is interpolated between two points of the curve, " +
		"linearly in logarithms; a message outside the curve has no time. " +
		"A decode step has one token per sequence, so its messages are small; hundreds of megabytes are the prefill of a " +
		"long prompt.\n\n")
	for _, c := range rows.Distinct("curve") {
		fmt.Fprintf(&b, "- `%s`: %s\n", c, rows.First("curve", c).Details["curve"])
	}
	if r, has := lists.First(rows, func(r *journal.Row) bool { return r.Details["besides"] != "" }); has {
		fmt.Fprintf(&b, "- Not counted: %s.\n", r.Details["besides"])
	}
	return bench.Section{Title: "How it is computed", Text: b.String()}
}
