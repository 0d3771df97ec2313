package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Choice is the best algorithm at one size of one setting.
type Choice struct {
	Setting Series // without the algorithm
	Bytes   int64
	Best    string
	TimeUS  float64
	Second  string  // the next best, "" if there is no other
	Margin  float64 // how much longer the second takes: 0.5 is half as long again
	Tied    bool    // the second is not slower beyond doubt
	Sample  Sample  // of the best
}

// Settled tells whether the choice rests on times that can stand for their points.
func (c Choice) Settled() bool { return c.Sample.Settled() }

// Best finds, for each setting and size, the fastest of the algorithms that were
// measured, of those that have settled where any has. What auto took is no algorithm of
// its own and is left out.
func Best(samples []Sample) []Choice {
	type sized struct {
		setting Series
		bytes   int64
	}
	named := lists.Filter(samples, func(s Sample) bool { return s.Algorithm != Auto && s.Algorithm != "" })
	var out []Choice
	for _, g := range lists.GroupBy(named, func(s Sample) sized { return sized{settingOf(s), s.Bytes} }) {
		rivals := g.Items
		if settled := lists.Filter(rivals, Sample.Settled); len(settled) > 0 {
			rivals = settled
		}
		slices.SortStableFunc(rivals, func(a, b Sample) int {
			return cmp.Or(cmp.Compare(a.TimeUS, b.TimeUS), cmp.Compare(a.Algorithm, b.Algorithm))
		})
		best := rivals[0]
		c := Choice{Setting: g.Key.setting, Bytes: best.Bytes, Best: best.Algorithm, TimeUS: best.TimeUS, Sample: best}
		if s, found := lists.First(rivals, func(s Sample) bool { return s.Algorithm != c.Best }); found {
			c.Second, c.Margin, c.Tied = s.Algorithm, s.TimeUS/c.TimeUS-1, !s.Slower(best)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Choice) int {
		return cmp.Or(a.Setting.Compare(b.Setting), cmp.Compare(a.Bytes, b.Bytes))
	})
	return out
}

// settingOf is the series of a sample without its algorithm: what the algorithms compete in.
func settingOf(s Sample) Series {
	s.Algorithm = ""
	return s.Series
}

// Crossover is where one algorithm takes over from another.
type Crossover struct {
	Setting Series
	From    string // best up to Bytes
	To      string // best beyond
	Bytes   int64  // between two measured sizes, where their times would be equal
}

// Crossovers finds them for each setting. A lead within the noise of the two
// samples, or within evenLead, changes nothing.
func Crossovers(samples []Sample) (out []Crossover) {
	for _, set := range groupBy(samples, settingOf) {
		times := bySize(set.Items)
		taken, last := "", int64(0)
		for _, c := range Best(set.Items) {
			best := times[c.Bytes][c.Best]
			old, has := times[c.Bytes][taken]
			even := old.TimeUS <= best.TimeUS*(1+max(minLead, old.noise(), best.noise()))
			if taken != "" && has && even {
				last = c.Bytes
				continue // not worth a switch
			}
			if taken != "" {
				at := crossing(times, taken, c.Best, last, c.Bytes)
				out = append(out, Crossover{Setting: set.Key, From: taken, To: c.Best, Bytes: at})
			}
			taken, last = c.Best, c.Bytes
		}
	}
	return out
}

// minLead is how much faster another algorithm must be to be worth a switch.
const minLead = 0.02

// bySize are the samples of a setting by size and algorithm.
func bySize(samples []Sample) map[int64]map[string]Sample {
	times := map[int64]map[string]Sample{}
	for _, s := range samples {
		if times[s.Bytes] == nil {
			times[s.Bytes] = map[string]Sample{}
		}
		times[s.Bytes][s.Algorithm] = s
	}
	return times
}

// crossing is where, going from size a to size b, the times of two algorithms
// meet, by straight lines in logarithms; a itself where one was not measured.
func crossing(times map[int64]map[string]Sample, from, to string, a, b int64) int64 {
	fa, ok1 := times[a][from]
	ta, ok2 := times[a][to]
	fb, ok3 := times[b][from]
	tb, ok4 := times[b][to]
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return a
	}
	lead, lag := math.Log(ta.TimeUS/fa.TimeUS), math.Log(fb.TimeUS/tb.TimeUS)
	if lead <= 0 || lag <= 0 {
		return a
	}
	x := math.Log(float64(a)) + lead/(lead+lag)*math.Log(float64(b)/float64(a))
	return min(max(int64(math.Exp(x)), a), b-1)
}
