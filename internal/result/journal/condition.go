package journal

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Condition is one fact about the measurement of a row, such as CPU time that the hypervisor stole. Programs
// compare its code and its values. A sentence is made of them when the row is shown, and is never read back.
type Condition struct {
	Code   Code    `json:"code"`
	Values Numbers `json:"values,omitempty"`
	Text   Text    `json:"text,omitempty"` // a name, or a free remark of a bench or program
}

// Code names one kind of condition.
type Code string

// Text is text for people: a reason, a name, or a remark of a bench. Programs write it and never read it, so nothing
// is decided by it: only the packages that write output may turn it into a string, and none compares it. A test of
// all sources holds this.
type Text string

// Textf formats a text.
func Textf(format string, args ...any) Text { return Text(fmt.Sprintf(format, args...)) }

// The codes. The table below says what each of them means.
const (
	CodeRemark      Code = "remark"
	CodeDisturbed   Code = "disturbed"
	CodeSteal       Code = "steal"
	CodeForeign     Code = "foreign-load"
	CodeWaiting     Code = "waiting"
	CodeCrowd       Code = "crowd"
	CodeGPUUser     Code = "gpu-user"
	CodeGPUSlowed   Code = "gpu-slowed"
	CodeGPUPowerCap Code = "gpu-power-cap"
	CodeDrift       Code = "drift"
	CodeNoise       Code = "noise"
	CodeModes       Code = "two-modes"
	CodeDependence  Code = "dependence"
	CodeNoInterval  Code = "no-interval"
	CodeFewSamples  Code = "few-samples"
	CodeColdCache   Code = "cold-cache"
	CodeBatched     Code = "batched"
	CodeClaim       Code = "claim"
	CodeClaimZero   Code = "claim-zero"
	CodeStopped     Code = "stopped"
	CodeSuspended   Code = "suspended"
	CodeStarved     Code = "starved"
	CodeCrowded     Code = "oversubscribed"
	CodeRetry       Code = "retry"
	CodeOutlived    Code = "outlived"
	CodeOtherPoint  Code = "other-point"
	CodeNotFinite   Code = "not-finite"
	CodeUnit        Code = "unit"
	CodeFast        Code = "faster-than-limit"
	CodeEarlyStop   Code = "early-stop"
	CodeSharedGPU   Code = "shared-gpu"
	CodeNoBaseline  Code = "no-baseline"
)

// meaning describes a code. text is the sentence of a condition. In it, {name verb} stands for a value, written
// by one of the verbs below, and {text} for the condition's text. A part in brackets is left out if the condition
// lacks one of its values.
type meaning struct {
	// value names the number that tells how strong a disturbance is. It disturbs a measurement from limit on.
	value string
	limit float64
	// strength is used instead if the condition has no such number: 1 or more disturbs.
	strength float64
	recurs   bool // another measurement would have it again
	text     string
}

// Thresholds from which a condition counts as a disturbance. The threshold for CPU steal is low because
// ranks wait for each other: if one of them loses its core, all of them stand still.
const (
	muchSteal   = 0.05
	muchForeign = 0.10
	muchWaiting = 0.50
	muchDrift   = 0.05
	// SettledNoise is the largest half-width of the median's interval, relative to the
	// median, at which a value counts as settled.
	SettledNoise = 0.10
	// doubtful is the strength of conditions that put the numbers in doubt. No load is as strong.
	doubtful = 1e6
)

// meanings has an entry for every code. A code that is not in it, from a newer program, is shown as it is stored.
var meanings = map[Code]meaning{
	CodeRemark:    {text: "{text}"},
	CodeDisturbed: {strength: 1, text: "disturbed"},

	CodeSteal: {value: "share", limit: muchSteal,
		text: "steal: the hypervisor took {share %1} of this host's cores away"},
	CodeForeign: {value: "share", limit: muchForeign,
		text: "load: other programs used {share %1} of this host's cores"},
	CodeWaiting: {value: "share", limit: muchWaiting,
		text: "load: processes waited for a core in {share %0} of the time"},
	CodeCrowd:       {strength: 1, text: "another kernbench[ (process {process})] is measuring on this host"},
	CodeGPUUser:     {strength: 1, text: "gpu: process {process}[ ({text})] used {share %0} of the GPU"},
	CodeGPUSlowed:   {strength: 1, text: "gpu: the GPU lowered its clock because of {text}"},
	CodeGPUPowerCap: {text: "power: the GPU reached its power limit, which lowers its clock"},
	CodeCrowded:     {text: "{ranks} ranks share {cores} cores[ of host {text}]"},

	CodeDrift: {value: "change", limit: muchDrift,
		text: "drift: from the first to the second half of the samples, the median changed by {change +%1}"},
	CodeNoise: {value: "noise", limit: SettledNoise,
		text: "noise: the median[ of {launches} launches] is known to {noise above}[, not {target %1}][ (stopped: {text})]"},
	CodeModes: {text: "two modes: {first metric} ({first_share %0} of the samples) and {second metric} " +
		"({second_share %0})"},
	CodeDependence: {text: "dependence: successive samples are correlated, so {samples} of them count as {effective 0} " +
		"independent ones[: too few for an interval of the median, which takes {needed}]"},
	CodeNoInterval: {text: "{samples} samples: too few for an interval of the median, which takes {needed}"},
	CodeFewSamples: {text: "only {samples} samples of at least {wanted} in {seconds s}"},
	CodeColdCache: {text: "cold cache: a buffer of {buffer_bytes MiB} cannot evict all of the {cache_bytes MiB} " +
		"last-level cache"},
	CodeBatched: {text: "isolated: a call is too short for the clock, so each barrier is followed by {calls} calls"},

	CodeClaim: {strength: doubtful, recurs: true, text: "claim: the program printed {text}={printed}[ for each of " +
		"{calls} calls], which is {claimed_us us}, but [it ran for {ran_us us}][it used {cpu_us us} of processor time] (declare " +
		"simulated: true for times of another machine)"},
	CodeClaimZero: {strength: doubtful, recurs: true,
		text: "claim: the program printed {text}=0, but every call takes some time"},
	CodeStopped: {strength: doubtful, text: "stopped: [a child process ({text}) of ]rank {rank} was stopped " +
		"by a signal for about {seconds 1} s during the measurement"},
	CodeSuspended: {strength: doubtful, text: "stopped: the host was suspended for {seconds 1} s during the measurement"},
	CodeStarved: {strength: doubtful, text: "starved: rank {rank} sent nothing for {silent_s s}, while its threads " +
		"waited {waited_s 1} s for a processor"},

	CodeRetry:    {text: "needed a retry: {text}"},
	CodeOutlived: {text: "{processes} processes outlived {text} and were killed"},
	CodeOtherPoint: {text: "the program printed {text}={printed}, but this point has {text}={given}: it may have run " +
		"another point"},
	CodeNotFinite: {text: "{text} and was left out"},
	CodeUnit:      {text: "unit: {text}: left out"},
	CodeFast: {text: "[{text}: ]faster than its limit allows ({share %0} of it): the limit is wrong, or not all of the " +
		"work was done or timed"},

	CodeEarlyStop: {text: "stopped after {iterations} iterations, as requested, with a relative residual of " +
		"{residual 3}: the time is for these iterations, not for a solution"},
	CodeSharedGPU: {text: "no speed-up and no efficiency: {ranks} ranks shared a GPU, so that times say nothing of " +
		"how a solve scales"},
	CodeNoBaseline: {text: "no speed-up and no efficiency: no good row of 1 rank has the same configuration"},
}

// verbs write a value of a condition.
var verbs = map[string]func(c *Condition, v float64) string{
	"":    func(_ *Condition, v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) },
	"0":   func(_ *Condition, v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) },
	"1":   func(_ *Condition, v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) },
	"3":   func(_ *Condition, v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) },
	"%0":  func(_ *Condition, v float64) string { return percent(v, 0) },
	"%1":  func(_ *Condition, v float64) string { return percent(v, 1) },
	"+%1": func(_ *Condition, v float64) string { return signOf(v) + percent(v, 1) },
	"s":   func(_ *Condition, v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) + " s" },
	"us":  func(_ *Condition, v float64) string { return unit.FormatMicros(v) },
	"MiB": func(_ *Condition, v float64) string { return strconv.FormatFloat(v/(1<<20), 'f', 0, 64) + " MiB" },
	// At least 0.1 % above the target, so that one digit shows the difference.
	"above": func(c *Condition, v float64) string { return percent(max(v, c.Values.Get("target")+0.001), 1) },
	// The text of the condition is the unit of the metric.
	"metric": func(c *Condition, v float64) string {
		if c.Text == "us" {
			return unit.FormatMicros(v)
		}
		return strings.TrimSpace(unit.FormatMetric(v) + " " + unit.Symbol(string(c.Text)))
	},
}

func percent(v float64, digits int) string { return strconv.FormatFloat(100*v, 'f', digits, 64) + " %" }

func signOf(v float64) string {
	if v < 0 {
		return ""
	}
	return "+"
}

// Named are the values of a new condition by name.
type Named = map[string]float64

// Remarkf returns a free remark.
func Remarkf(format string, args ...any) Condition {
	return NewCondition(CodeRemark, nil, fmt.Sprintf(format, args...))
}

// NewCondition returns a condition with values by name. A value that JSON cannot represent is left out.
func NewCondition(code Code, values Named, text ...string) Condition {
	c := Condition{Code: code, Values: NewObject(values)}
	c.Values = slices.DeleteFunc(c.Values, func(m Member[float64]) bool {
		return math.IsNaN(m.Value) || math.IsInf(m.Value, 0)
	})
	for _, t := range text {
		c.Text = Text(t)
	}
	return c
}

// OfRank returns the condition with the rank that reported it.
func (c Condition) OfRank(rank int) Condition {
	c.Values = c.Values.With("rank", float64(rank))
	return c
}

// Equal reports whether two conditions are the same in all respects.
func (c Condition) Equal(d Condition) bool {
	return c.Code == d.Code && c.Text == d.Text && slices.Equal(c.Values, d.Values)
}

// Strength returns how strongly the condition disturbs a measurement, relative to the threshold. It disturbs if the
// strength is at least 1.
func (c Condition) Strength() float64 {
	m := meanings[c.Code]
	if m.value == "" {
		return m.strength
	}
	return math.Abs(c.Values.Get(m.value)) / m.limit
}

// Recurs reports whether another measurement would have the condition again, such as an impossible time that the
// program prints.
func (c Condition) Recurs() bool { return meanings[c.Code].recurs }

// kind is the same for all conditions that [Summarise] can describe together.
type kind struct {
	code Code
	text Text
}

func (c Condition) kind() kind { return kind{c.Code, c.Text} }

// Label returns a few words for all conditions with the code, such as "steal", for output.
func (c Condition) Label() string {
	label, _, _ := strings.Cut(meanings[c.Code].text, ":")
	label, _, _ = strings.Cut(label, "[")
	return label
}

// Sentence returns the condition as a sentence, for output.
func (c Condition) Sentence() string { return Summarise([]Condition{c}) }

// Summarise describes several conditions of one Kind in one sentence, for output. A value that differs between
// them is written as a range.
func Summarise(conditions []Condition) string {
	c := &conditions[0]
	m, known := meanings[c.Code]
	if !known {
		m.text = string(c.Code) + "[: {text}]"
		for name := range c.Values.All() {
			m.text += " " + name + "={" + name + "}"
		}
	}
	if !strings.Contains(m.text, "{rank}") {
		m.text = "[rank {rank}: ]" + m.text
	}
	text, _ := expand(m.text, conditions)
	return text
}

// Conditions is what is known about one measurement. Rows may share a list, so no method writes into it.
type Conditions []Condition

// Has reports whether there is a condition with a code.
func (l Conditions) Has(code Code) bool {
	return slices.ContainsFunc(l, func(c Condition) bool { return c.Code == code })
}

// Add adds conditions without repeating any.
func (l *Conditions) Add(more ...Condition) {
	for _, c := range more {
		if !slices.ContainsFunc(*l, c.Equal) {
			*l = append(slices.Clip(*l), c)
		}
	}
}

// Strongest returns the condition that disturbs the measurement most.
func (l Conditions) Strongest() Condition {
	if len(l) > 0 {
		if c := slices.MaxFunc(l, Condition.Compare); c.Strength() >= 1 {
			return c
		}
	}
	return Condition{Code: CodeDisturbed}
}

// Sentences returns the conditions as sentences, for output.
func (l Conditions) Sentences() []string { return lists.Map(l, Condition.Sentence) }

// Footnotes returns a function that describes a condition together with all others of its kind in the rows: a
// footnote that rows share has the range of their values.
func Footnotes(rows []*Row) func(Condition) string {
	all := map[kind][]Condition{}
	for _, r := range rows {
		for _, c := range r.Conditions {
			all[c.kind()] = append(all[c.kind()], c)
		}
	}
	texts := map[kind]string{}
	return func(c Condition) string {
		text, done := texts[c.kind()]
		if !done {
			text = Summarise(all[c.kind()])
			texts[c.kind()] = text
		}
		return text
	}
}

// expand replaces the values in a template. complete is false if one of them is missing.
func expand(template string, conditions []Condition) (text string, complete bool) {
	complete = true
	for template != "" {
		at := strings.IndexAny(template, "[{")
		if at < 0 {
			return text + template, complete
		}
		text += template[:at]
		if template[at] == '[' {
			inner, rest, _ := strings.Cut(template[at+1:], "]")
			if part, all := expand(inner, conditions); all {
				text += part
			}
			template = rest
			continue
		}
		name, rest, _ := strings.Cut(template[at+1:], "}")
		value := spanText(name, conditions)
		complete = complete && value != ""
		text += cmp.Or(value, "?")
		template = rest
	}
	return text, complete
}

// spanText returns the text of {name verb}: a number, or the range of the conditions. It is "" if none has the value.
func spanText(field string, conditions []Condition) string {
	c := &conditions[0]
	if field == "text" {
		return string(c.Text)
	}
	name, verb, _ := strings.Cut(field, " ")
	low, high := math.Inf(1), math.Inf(-1)
	for i := range conditions {
		if v, has := conditions[i].Values.Find(name); has {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return ""
	}
	from, to := verbs[verb](c, low), verbs[verb](c, high)
	if from == to {
		return from
	}
	number, unitOfFrom, _ := strings.Cut(from, " ")
	if _, unitOfTo, _ := strings.Cut(to, " "); unitOfFrom == unitOfTo {
		from = number
	}
	return from + " to " + to
}

// Codes lists all codes in alphabetic order.
func Codes() []Code { return slices.Sorted(maps.Keys(meanings)) }
