package journal

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// Condition is one fact about the measurement of a row, such as CPU time that the hypervisor stole. Programs
// compare its code and its values. A sentence is made of them when the row is shown, and is never read back.
type Condition struct {
	Code   Code    `json:"code"`
	Values Numbers `json:"values,omitempty"`
	Text   Remark  `json:"text,omitempty"` // a name, or a free remark of a bench or program
}

// Code names one kind of condition.
type Code string

// Remark is text for people. Nothing is decided by it.
type Remark string

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
	CodeCleanup     Code = "cleanup"
	CodeOtherPoint  Code = "other-point"
	CodeNotFinite   Code = "not-finite"
	CodeUnit        Code = "unit"
	CodeFast        Code = "faster-than-limit"
	CodeImplausible Code = "implausible"
	CodeCutTable    Code = "cut-table"
	CodeEarlyStop   Code = "early-stop"
	CodeSharedGPU   Code = "shared-gpu"
	CodeNoBaseline  Code = "no-baseline"
	CodeLate        Code = "late-launches"
	CodeGraphStart  Code = "graph-start"
)

// effect is what a condition means for the numbers of its row.
type effect int

const (
	harmless effect = iota
	noisy           // disturbs if it is large: see SettledNoise
	disturbs
	doubtful // the numbers are in doubt, whatever the load was
)

// meaning describes a code. text is the sentence of a condition. In it, {name verb} stands for a value, written
// by one of the verbs below, and {text} for the condition's text. A part in brackets is left out if the condition
// lacks one of its values.
type meaning struct {
	effect effect
	recurs bool // another measurement would have it again
	text   string
}

// meanings has an entry for every code. A code that is not in it, from a newer program, is shown as it is stored.
var meanings = map[Code]meaning{
	CodeRemark:    {text: "{text}"},
	CodeDisturbed: {effect: disturbs, text: "disturbed"},

	CodeSteal:       {effect: disturbs, text: "steal: the hypervisor took {share %1} of this host's cores away"},
	CodeForeign:     {effect: disturbs, text: "load: other programs used {share %1} of this host's cores"},
	CodeWaiting:     {effect: disturbs, text: "load: processes waited for a core in {share %0} of the time"},
	CodeCrowd:       {effect: disturbs, text: "another kernbench[ (process {process})] is measuring on this host"},
	CodeGPUUser:     {effect: disturbs, text: "gpu: {text} used {share %0} of the GPU"},
	CodeGPUSlowed:   {effect: disturbs, text: "gpu: the GPU lowered its clock because of {text}"},
	CodeGPUPowerCap: {text: "power: the GPU reached its power limit, which lowers its clock"},
	CodeCrowded:     {text: "{ranks} ranks share {cores} cores[ of host {text}]"},

	CodeDrift: {effect: disturbs,
		text: "drift: from the first to the second half of the samples, the median changed by {change +%1}"},
	CodeNoise: {effect: noisy,
		text: "noise: the median[ of {launches} launches] is known to {noise above}[, not {target %1}][ (stopped: {text})]"},
	CodeModes: {text: "two modes: {first metric} ({first_share %0} of the samples) and {second metric} " +
		"({second_share %0})"},
	CodeDependence: {text: "dependence: successive samples are correlated, so {samples} of them count as {effective 0} " +
		"independent ones"},
	CodeNoInterval: {text: "{samples} samples: too few for an interval of the median, which takes {needed}"},
	CodeFewSamples: {text: "only {samples} samples of at least {wanted} in {seconds s}"},
	CodeColdCache: {text: "cold cache: a buffer of {buffer_bytes MiB} cannot evict all of the {cache_bytes MiB} " +
		"last-level cache"},
	CodeBatched: {text: "isolated: a call is too short for the clock, so each barrier is followed by {calls} calls"},

	CodeClaim: {effect: doubtful, recurs: true, text: "claim: the program printed {text}={printed}[ for each of {calls} " +
		"calls], which is {claimed_us us}, but [it ran for {ran_us us}][it used {cpu_us us} of processor time] (declare " +
		"simulated: true for times of another machine)"},
	CodeClaimZero: {effect: doubtful, recurs: true,
		text: "claim: the program printed {text}=0, but every call takes some time"},
	CodeStopped: {effect: doubtful, text: "stopped: [{text}, a child process of ]rank {rank} was stopped by a signal " +
		"for about {seconds 1} s during the measurement"},
	CodeSuspended: {effect: doubtful, text: "stopped: the host was suspended for {seconds 1} s during the measurement"},
	CodeStarved: {effect: doubtful, text: "starved: rank {rank} sent nothing for {silent_s s}, while its threads waited " +
		"{waited_s 1} s for a processor"},

	CodeRetry:    {text: "needed a retry: {text}"},
	CodeOutlived: {text: "{processes} processes outlived {text} and were killed"},
	CodeCleanup:  {text: "cleanup {text}"},
	CodeOtherPoint: {text: "the program printed {text}={printed}, but this point has {text}={given}: it may have run " +
		"another point"},
	CodeNotFinite: {text: "{text} and was left out"},
	CodeUnit:      {text: "unit: {text}: left out"},
	CodeFast: {text: "[{text}: ]faster than its limit allows ({share %0} of it): the limit is wrong, or not all of the " +
		"work was done or timed"},

	CodeImplausible: {text: "{text}"},
	CodeCutTable:    {text: "{text}: the rest is missing, and the tool gave no verdict on these rows"},

	CodeEarlyStop: {text: "stopped after {iterations} iterations, as requested, with a relative residual of " +
		"{residual 3}: the time is for these iterations, not for a solution"},
	CodeSharedGPU:  {text: "{ranks} ranks share a GPU: their times say nothing about scaling over GPUs"},
	CodeNoBaseline: {text: "no row of one rank with this configuration and machine"},
	CodeLate: {text: "the host was not ahead of the GPU in {late} of {samples} samples, so times include " +
		"launches"},
	CodeGraphStart: {text: "starting the graphs takes {share %1} of the time"},
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

// NewCondition returns a condition with values by name. A value that JSON cannot represent is left out.
func NewCondition(code Code, values Named, text ...Remark) Condition {
	c := Condition{Code: code, Values: NewObject(values)}
	c.Values = slices.DeleteFunc(c.Values, func(m Member[float64]) bool { return firstNonFinite(m.Value) != nil })
	for _, t := range text {
		c.Text = t
	}
	return c
}

// Equal reports whether two conditions are the same in all respects.
func (c Condition) Equal(d Condition) bool {
	return c.Code == d.Code && c.Text == d.Text && slices.Equal(c.Values, d.Values)
}

// Recurs reports whether another measurement would have the condition again, such as an impossible time that the
// program prints.
func (c Condition) Recurs() bool { return meanings[c.Code].recurs }

// Kind is the same for all conditions that [Summarise] can describe together.
func (c Condition) Kind() string { return string(c.Code) + "\x00" + string(c.Text) }

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
