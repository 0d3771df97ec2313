package model

import (
	"cmp"
	"math"
	"slices"
)

// Choice is the best algorithm at one size of one setting.
type Choice struct {
	Setting Series // without the algorithm
	Bytes   int64
	Best    string
	TimeUS  float64
	Second  string  // the next best, "" if there is no other
	Margin  float64 // how much longer the second takes: 0.5 is half as long again
	Even    bool    // the second is not slower beyond doubt
	Sample  Sample  // of the best
}

// Settled tells whether the choice rests on times that can stand for their points.
func (c Choice) Settled() bool { return c.Sample.Settled() }

// Best finds, for each setting and size, the fastest of the algorithms that were
// measured, of those that have settled where any has. What auto took is no algorithm of
// its own and is left out.
func Best(samples []Sample) []Choice {
	groups := map[sized][]Sample{}
	for _, s := range samples {
		if s.Algorithm != Auto && s.Algorithm != "" {
			at := sized{setting(s.Series), s.Bytes}
			groups[at] = append(groups[at], s)
		}
	}
	var out []Choice
	for at, group := range groups {
		if slices.ContainsFunc(group, Sample.Settled) {
			group = slices.DeleteFunc(group, func(s Sample) bool { return !s.Settled() })
		}
		slices.SortStableFunc(group, func(a, b Sample) int {
			return cmp.Or(cmp.Compare(a.TimeUS, b.TimeUS), cmp.Compare(a.Algorithm, b.Algorithm))
		})
		c := Choice{Setting: at.setting, Bytes: at.bytes, Best: group[0].Algorithm, TimeUS: group[0].TimeUS, Sample: group[0]}
		for _, s := range group[1:] {
			if s.Algorithm != c.Best {
				c.Second, c.Margin, c.Even = s.Algorithm, s.TimeUS/c.TimeUS-1, !s.Slower(group[0])
				break
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Choice) int { return cmp.Or(a.Setting.Compare(b.Setting), cmp.Compare(a.Bytes, b.Bytes)) })
	return out
}

// sized is one size of a setting.
type sized struct {
	setting Series
	bytes   int64
}

// setting is a series without its algorithm: what the algorithms compete in.
func setting(s Series) Series {
	s.Algorithm = ""
	return s
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
func Crossovers(samples []Sample) []Crossover {
	var out []Crossover
	for _, run := range runs(samples) {
		for i := 1; i < len(run.spans); i++ {
			out = append(out, Crossover{Setting: run.setting, From: run.spans[i-1].algorithm, To: run.spans[i].algorithm,
				Bytes: run.spans[i-1].upTo})
		}
	}
	return out
}

// evenLead is how much faster another algorithm must be to be worth a switch.
const evenLead = 0.02

// span is a range of sizes with one algorithm.
type span struct {
	algorithm string
	upTo      int64 // the last byte of the range; the last span's is MaxInt64
}

type spans struct {
	setting Series
	spans   []span
}

// runs gives the spans of each setting.
func runs(samples []Sample) []spans {
	times := map[Series]map[int64]map[string]Sample{}
	for _, s := range samples {
		if s.Algorithm == Auto || s.Algorithm == "" {
			continue
		}
		at := setting(s.Series)
		if times[at] == nil {
			times[at] = map[int64]map[string]Sample{}
		}
		if times[at][s.Bytes] == nil {
			times[at][s.Bytes] = map[string]Sample{}
		}
		times[at][s.Bytes][s.Algorithm] = s
	}
	var out []spans
	var here *spans
	var last int64
	for _, c := range Best(samples) {
		if here == nil || here.setting != c.Setting {
			out = append(out, spans{setting: c.Setting})
			here = &out[len(out)-1]
		}
		at := times[c.Setting][c.Bytes]
		if n := len(here.spans); n > 0 {
			prev := here.spans[n-1].algorithm
			old, has := at[prev]
			if best := at[c.Best]; has && old.TimeUS <= best.TimeUS*(1+max(evenLead, old.noise(), best.noise())) {
				last = c.Bytes
				continue // not worth a switch
			}
			here.spans[n-1].upTo = between(times[c.Setting], prev, c.Best, last, c.Bytes)
		}
		here.spans = append(here.spans, span{c.Best, math.MaxInt64})
		last = c.Bytes
	}
	return out
}

// between is where, going from size a to size b, the times of two algorithms
// meet, by straight lines in logarithms; a itself where one was not measured.
func between(times map[int64]map[string]Sample, from, to string, a, b int64) int64 {
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
