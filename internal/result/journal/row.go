package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Schema is the version of the records that this program writes and reads.
const Schema = 1

// Status is the outcome of one point in one trial.
type Status string

// The statuses. A timeout is a kind of failure; skipped and not executed are none.
const (
	OK          Status = "ok"
	Failed      Status = "failed"
	Timeout     Status = "timeout"
	Skipped     Status = "skipped"
	NotExecuted Status = "not-executed"
)

// Statuses lists all statuses in the order in which summaries show them.
var Statuses = []Status{OK, Failed, Timeout, Skipped, NotExecuted}

// Bad reports whether the status counts as a failure.
func (s Status) Bad() bool { return s == Failed || s == Timeout }

// NotRun reports whether the point has neither a result nor a failure.
func (s Status) NotRun() bool { return s == Skipped || s == NotExecuted }

// Kind is the source of a row's numbers.
type Kind string

// The kinds of row.
const (
	Measured  Kind = "measured"
	Simulated Kind = "simulated"
	Modelled  Kind = "modelled"
)

// Stat summarizes the samples of one metric, in the unit of the metric. CILow and CIHigh are the 95 %
// confidence interval of the median; they are nil if there are too few samples, or too few independent ones.
// Effective is the number of independent samples that would tell as much about the median. Modes is nil unless the
// samples have two modes.
type Stat struct {
	Min    float64  `json:"min"`
	P50    float64  `json:"p50"`
	P90    float64  `json:"p90"`
	P99    float64  `json:"p99"`
	Max    float64  `json:"max"`
	Mean   float64  `json:"mean"`
	CILow  *float64 `json:"ci_low,omitempty"`
	CIHigh *float64 `json:"ci_high,omitempty"`

	Effective *float64     `json:"effective,omitempty"`
	Modes     []stats.Mode `json:"modes,omitempty"`
}

// onlyInterval reports whether nothing but the median and its interval is known, as in results of other tools.
func (s Stat) onlyInterval() bool {
	return s.CILow != nil && s.CIHigh != nil && *s.CIHigh != 0 && s.Min == 0 && s.P90 == 0 && s.P99 == 0 && s.Max == 0 &&
		s.Mean == 0
}

// MarshalJSON leaves out unknown values.
func (s Stat) MarshalJSON() ([]byte, error) {
	type plain Stat // without this method
	if !s.onlyInterval() {
		return json.Marshal(plain(s))
	}
	return json.Marshal(struct {
		P50    float64  `json:"p50,omitempty"`
		CILow  *float64 `json:"ci_low"`
		CIHigh *float64 `json:"ci_high"`
	}{s.P50, s.CILow, s.CIHigh})
}

// NewStat converts a summary, in which NaN means that there is no interval.
func NewStat(m stats.Summary) Stat {
	s := Stat{Min: m.Min, P50: m.P50, P90: m.P90, P99: m.P99, Max: m.Max, Mean: m.Mean, Modes: m.Modes}
	if !math.IsNaN(m.CILow) && !math.IsNaN(m.CIHigh) {
		s.CILow, s.CIHigh = &m.CILow, &m.CIHigh
	}
	if m.Effective > 0 {
		effective := math.Floor(10*m.Effective) / 10
		s.Effective = &effective
	}
	return s
}

// StatNames are the names of a Stat's values in the metric's unit.
var StatNames = []string{"min", "p50", "p90", "p99", "max", "mean", "ci_low", "ci_high"}

// Part returns the value with a name of StatNames, and whether it is known.
func (s Stat) Part(name string) (v float64, has bool) {
	parts := []*float64{&s.Min, &s.P50, &s.P90, &s.P99, &s.Max, &s.Mean, s.CILow, s.CIHigh}
	i := slices.Index(StatNames, name)
	if i < 0 || parts[i] == nil || s.onlyInterval() && *parts[i] == 0 {
		return 0, false
	}
	return *parts[i], true
}

// Stats are the summaries of a row's metrics by name, Numbers are values by name.
type (
	Stats   = Object[Stat]
	Numbers = Object[float64]
)

// Load describes how busy the machine was while a point was measured: the load averages before and after
// it, and the shares of all CPU time in between that were busy or stolen by the hypervisor.
type Load struct {
	Before  float64  `json:"before"`
	After   float64  `json:"after"`
	Busy    float64  `json:"busy"`
	Steal   float64  `json:"steal"`
	Foreign *float64 `json:"foreign,omitempty"` // part of Busy used by other programs; nil if unknown
	Waiting *float64 `json:"waiting,omitempty"` // share of the time that ranks waited for a processor; nil if unknown
}

// RankEnd describes how one rank of a failed program ended.
type RankEnd struct {
	Rank  int    `json:"rank"`
	End   string `json:"end"`
	Doing string `json:"doing,omitempty"` // its activity when it was asked to end
	Said  string `json:"said,omitempty"`  // the most informative line of its output
}

func (e RankEnd) String() string {
	text := fmt.Sprintf("rank %d: %s", e.Rank, e.End)
	if e.Doing != "" {
		text += "; it was " + e.Doing
	}
	if e.Said != "" {
		text += "; its output: " + e.Said
	}
	return text
}

// SharingDetail is the row detail with the number of ranks that shared a GPU.
const SharingDetail = "ranks_per_gpu"

// DeviceDetail is the row detail with the GPU model of all ranks. It is empty if the ranks had different
// models.
const DeviceDetail = "gpu"

// Details of a simulated row that describe the simulated machine.
const (
	TopologyDetail = "topology"        // name of the topology file
	HashDetail     = "topology_sha256" // hash of the topology file
	FabricDetail   = "fabric"          // network model
	KindDetail     = "sip_topology"    // how the SIPs are connected
)

// ValidatedByDetail is the row detail that states how the error of a modelled time was measured, or
// "not validated". Every table of rows shows it.
const ValidatedByDetail = "validated_by"

// UntimedDetail is the detail of rows whose results do not depend on time, such as correctness cells.
// Load cannot disturb them, so they are never measured again because of it.
const UntimedDetail = "untimed"

// MachineDetails returns the names of the details that describe a simulated machine.
func MachineDetails() []string { return []string{FabricDetail, TopologyDetail, HashDetail, KindDetail} }

// Sharing returns how many ranks shared a GPU. It is 0 if each rank had its own GPU or none. Times on a
// shared GPU depend on its memory and not on links, so they are never compared with times of ranks on
// separate GPUs.
func (r *Row) Sharing() int {
	n, err := strconv.Atoi(r.Details[SharingDetail])
	if err != nil || n < 2 {
		return 0
	}
	return n
}

// Row is the result of one point in one trial. Every table, figure and export is made of rows. Rows that
// were read from a file share Env, Options and Units, so callers must copy these before they change them.
type Row struct {
	Schema   int         `json:"schema"`
	Run      string      `json:"run"`
	Bench    string      `json:"bench"`
	Part     string      `json:"part,omitempty"`
	Point    point.Point `json:"point"`     // axis: value, without num_ranks and backend
	NumRanks *int        `json:"num_ranks"` // null if the program starts its own ranks
	Backend  string      `json:"backend"`
	Env      point.Env   `json:"env"` // name: value, or null for unset
	Options  point.Point `json:"options"`
	Trial    int         `json:"trial"` // from 0
	Index    int         `json:"index"` // of the point in declared order; the order of execution may differ

	Status Status `json:"status"`
	Reason Text   `json:"reason,omitempty"`
	Rank   *int   `json:"rank,omitempty"`  // the rank that failed
	Phase  string `json:"phase,omitempty"` // where it failed
	Output string `json:"output,omitempty"`
	// Ranks describes how all ranks of a failed program ended.
	Ranks []RankEnd `json:"ranks,omitempty"`
	// Optional means that a not-executed row is counted and shown but does not fail the run.
	Optional bool `json:"optional,omitempty"`

	Kind    Kind               `json:"kind"`
	Clock   string             `json:"clock,omitempty"`
	Cadence string             `json:"cadence,omitempty"`
	Cache   string             `json:"cache,omitempty"`
	Samples int                `json:"samples"`
	Batch   int                `json:"batch,omitempty"` // calls per sample
	Metrics map[string]float64 `json:"metrics"`
	Units   map[string]string  `json:"units"`
	Stats   Stats              `json:"stats,omitempty"`
	Limits  map[string]float64 `json:"limits,omitempty"`
	// Resolution is the smallest step of a metric, in its unit, where it is known: the clock's resolution per call.
	Resolution map[string]float64 `json:"resolution,omitempty"`

	Skew    *float64          `json:"skew,omitempty"`      // median of (slowest - fastest)/slowest
	Slowest *int              `json:"straggler,omitempty"` // the rank most often last
	Details map[string]string `json:"details,omitempty"`   // facts about the row that the bench recorded

	Sampling     *Sampling     `json:"sampling,omitempty"`
	Quality      Quality       `json:"quality,omitempty"`      // of a measured row; see Disturbed
	Measurements []Measurement `json:"measurements,omitempty"` // all measurements, if there was more than one

	// Conditions is what is known about the measurement. Programs decide by their codes and values.
	Conditions Conditions `json:"conditions,omitempty"`
	Host       string     `json:"host"`
	Load       *Load      `json:"load,omitempty"`
	Time       time.Time  `json:"time"`
	Launch     string     `json:"launch,omitempty"` // folder under logs/
	Raw        string     `json:"raw,omitempty"`    // file under samples/
	// Raws are the sample files of other metrics than time_us, by metric.
	Raws map[string]string `json:"raws,omitempty"`
	// Inside is the file under inside/ with the profile of a simulated kernel.
	Inside  string `json:"inside,omitempty"`
	Key     string `json:"key"`            // identity of the row: equal keys mean equal work
	Task    string `json:"task,omitempty"` // key of the point that gave several rows; equals Key when empty
	Attempt int    `json:"attempt,omitempty"`
	// Inputs is the fingerprint of everything that produced the row. The header maps it to the
	// inputs by name; see Header.InputsOf. Rows of imports have none.
	Inputs string `json:"inputs,omitempty"`

	// Origin says where the row was read from. It is nil for a row that was not read from a journal.
	Origin *Origin `json:"-"`
}

// Origin is the source of a row. Rows of different origins are never trials of one point, unless their run accumulates.
type Origin struct {
	Header *Header // of the run or, if it has several builds, with the machine and environment of the build
	Build  string  // name of the build if the rows of several builds are shown together, else ""
}

// Modes returns the two modes of the samples of a row's metric, or nil if they do not have two.
func Modes(r *Row, metric string) []stats.Mode {
	s, _ := r.Stats.Find(metric)
	return s.Modes
}

// Why returns where and why a row failed, as far as known: "rank 1 in set-up: no memory".
func (r *Row) Why() string {
	where := ""
	if r.Rank != nil {
		where = fmt.Sprintf("rank %d", *r.Rank)
	}
	if r.Phase != "" {
		where = strings.TrimSpace(where + " in " + r.Phase)
	}
	if where != "" && r.Reason != "" {
		return where + ": " + string(r.Reason)
	}
	return where + string(r.Reason)
}

// TaskKey returns the key of the planned point that the row belongs to. --resume looks for this key.
func (r *Row) TaskKey() string { return cmp.Or(r.Task, r.Key) }

// AxisInfo describes an axis, so that a reader without the declaration can sort and format
// its values.
type AxisInfo struct {
	Part string     `json:"part,omitempty"`
	Name string     `json:"name"`
	Kind point.Kind `json:"kind"`

	// AtDefault means that the run has only one value of the axis, its declared default. Tables and
	// progress messages leave such axes out.
	AtDefault bool `json:"at_default,omitempty"`
}

// MetricInfo describes a metric. Better is "lower", "higher" or "" for neither.
type MetricInfo struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Better string `json:"better,omitempty"`
	Main   bool   `json:"main,omitempty"` // the metric that answers how fast the bench is; see dataset.MainMetric

	Meaning string `json:"-"` // description for users; only declarations have it
}

// Header is the first record of a run. It has everything needed to read and repeat the run.
type Header struct {
	Schema  int               `json:"schema"`
	Run     string            `json:"run"`
	Bench   string            `json:"bench"`
	Version string            `json:"bench_version,omitempty"` // of the bench or model
	Time    time.Time         `json:"time"`
	Argv    []string          `json:"argv"`
	Commit  string            `json:"commit,omitempty"` // checked out in the working directory
	Host    hostinfo.Host     `json:"host"`
	Load    float64           `json:"load"`    // load average over the last minute, before the start
	Environ map[string]string `json:"environ"` // variables on an allow-list, and all swept ones
	Axes    []AxisInfo        `json:"axes"`
	Envs    []string          `json:"envs,omitempty"`
	Metrics []MetricInfo      `json:"metrics"`
	Inputs  map[string]string `json:"inputs,omitempty"` // file: SHA-256
	// Fingerprints has the inputs of the planned rows by Row.Inputs.
	Fingerprints map[string]Inputs `json:"fingerprints,omitempty"`
	Backend      string            `json:"backend"`
	Launcher     string            `json:"launcher,omitempty"`
	Bind         string            `json:"bind,omitempty"` // how ranks were pinned to cores
	Seed         uint64            `json:"seed"`
	Trials       int               `json:"trials"` // largest number of trials of any point
	Points       int               `json:"points"`
	// Tasks is the number of points times their trials, or 0 if that is Points times Trials.
	Tasks    int  `json:"tasks,omitempty"`
	Launches int  `json:"launches"`
	Resumed  bool `json:"resumed,omitempty"` // continues an earlier header of the same run
	// Tags and Note are the user's labels of the run, as ParseTags and CheckNote accept them.
	Tags []string `json:"tags,omitempty"`
	Note string   `json:"note,omitempty"`
	// Headline lists the columns of tables, as the bench declares them now. It is not stored.
	Headline []string `json:"-"`
}

// Begin is written before each point, so that a reader can distinguish a point that was
// never reached from one that crashed the whole run.
type Begin struct {
	Run     string    `json:"run"`
	Key     string    `json:"key"`
	Trial   int       `json:"trial"`
	Attempt int       `json:"attempt,omitempty"`
	Point   string    `json:"point,omitempty"` // as text, for progress displays
	Time    time.Time `json:"time"`
}

// Note is a remark about a whole run.
type Note struct {
	Run   string          `json:"run"`
	Text  Text            `json:"text"`
	Time  time.Time       `json:"time"`
	Tuned json.RawMessage `json:"tuned,omitempty"` // result of a tuning study: tune.Result
}

// Label replaces the tags and the note of an existing run.
type Label struct {
	Run  string    `json:"run"`
	Tags []string  `json:"tags"`
	Note string    `json:"note,omitempty"`
	Time time.Time `json:"time"`
}

// End is the last record of a run that ended or was interrupted.
type End struct {
	Run     string         `json:"run"`
	Outcome string         `json:"outcome"` // complete, interrupted, failed
	Counts  map[Status]int `json:"counts"`
	Missing int            `json:"missing,omitempty"` // required rows that were not executed
	Seconds float64        `json:"seconds"`
	Time    time.Time      `json:"time"`
}
