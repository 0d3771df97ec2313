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

// Schema is the version of the records this program writes. Readers accept
// every version up to it; docs/journal-schema.md says what changed in each.
const Schema = 1

// Status is what became of one point in one trial.
type Status string

// Passed, failed, skipped and not executed are different things; a time-out is
// a failure that says which.
const (
	OK          Status = "ok"
	Failed      Status = "failed"
	Timeout     Status = "timeout"
	Skipped     Status = "skipped"
	NotExecuted Status = "not-executed"
)

// Statuses are all of them, in the order in which people want to know of them.
var Statuses = []Status{OK, Failed, Timeout, Skipped, NotExecuted}

// Bad reports whether the status counts as a failure.
func (s Status) Bad() bool { return s == Failed || s == Timeout }

// NotRun reports whether the status says that there was nothing to see: neither a
// result nor a failure.
func (s Status) NotRun() bool { return s == Skipped || s == NotExecuted }

// Kind says where a row's numbers come from.
type Kind string

// The three sources of a number.
const (
	Measured  Kind = "measured"
	Simulated Kind = "simulated"
	Modelled  Kind = "modelled"
)

// Stat is the spread of one metric over its samples. The interval is the 95 %
// confidence interval of the median; it is absent when there are too few
// samples for one.
type Stat struct {
	Min    float64  `json:"min"`
	P50    float64  `json:"p50"`
	P90    float64  `json:"p90"`
	P99    float64  `json:"p99"`
	Max    float64  `json:"max"`
	Mean   float64  `json:"mean"`
	CILow  *float64 `json:"ci_low,omitempty"`
	CIHigh *float64 `json:"ci_high,omitempty"`
}

// NewStat returns a summary as rows store it: without an interval where there is
// none.
func NewStat(m stats.Summary) Stat {
	s := Stat{Min: m.Min, P50: m.P50, P90: m.P90, P99: m.P99, Max: m.Max, Mean: m.Mean}
	if !math.IsNaN(m.CILow) && !math.IsNaN(m.CIHigh) {
		s.CILow, s.CIHigh = &m.CILow, &m.CIHigh
	}
	return s
}

// StatNames are the parts of a spread.
var StatNames = []string{"min", "p50", "p90", "p99", "max", "mean", "ci_low", "ci_high"}

// Part is one of them, if the spread has it.
func (s Stat) Part(name string) (v float64, has bool) {
	parts := []*float64{&s.Min, &s.P50, &s.P90, &s.P99, &s.Max, &s.Mean, s.CILow, s.CIHigh}
	if i := slices.Index(StatNames, name); i >= 0 && parts[i] != nil {
		return *parts[i], true
	}
	return 0, false
}

// Stats are the summaries of a row's metrics by name, Numbers are values by name.
type (
	Stats   = Object[Stat]
	Numbers = Object[float64]
)

// Load is how busy the machine was around a point: load averages, and the
// share of all CPU time that was in use or stolen by the hypervisor meanwhile.
type Load struct {
	Before  float64  `json:"before"`
	After   float64  `json:"after"`
	Busy    float64  `json:"busy"`
	Steal   float64  `json:"steal"`
	Foreign *float64 `json:"foreign,omitempty"` // of Busy, what other programs used; nil: not known
	Crowd   string   `json:"crowd,omitempty"`   // that another kernbench was measuring
}

// RankEnd is how one rank of a failed program ended.
type RankEnd struct {
	Rank  int    `json:"rank"`
	End   string `json:"end"`
	Doing string `json:"doing,omitempty"` // what it was at when it was told to end
	Said  string `json:"said,omitempty"`
}

func (e RankEnd) String() string {
	text := fmt.Sprintf("rank %d: %s", e.Rank, e.End)
	if e.Doing != "" {
		text += "; it was " + e.Doing
	}
	if e.Said != "" {
		text += "; it said: " + e.Said
	}
	return text
}

// SharingDetail is the detail of a row that says how many ranks shared a GPU.
const SharingDetail = "ranks_per_gpu"

// DeviceDetail is the detail of a row that says which kind of GPU all its ranks had; empty
// where they had different ones.
const DeviceDetail = "gpu"

// Details of a simulated row that say what it was made on.
const (
	TopologyDetail = "topology"        // the name of the file
	HashDetail     = "topology_sha256" // of the file
	FabricDetail   = "fabric"          // how messages move
	KindDetail     = "sip_topology"    // who is whose neighbour
)

// MachineDetails are their names.
func MachineDetails() []string { return []string{FabricDetail, TopologyDetail, HashDetail, KindDetail} }

// Sharing is how many ranks shared a GPU, 0 where each had its own, or none. Then the
// row's times are those of one GPU's memory: they say nothing of a link, and are never
// compared with times that do.
func (r *Row) Sharing() int {
	n, err := strconv.Atoi(r.Details[SharingDetail])
	if err != nil || n < 2 {
		return 0
	}
	return n
}

// Row is one point in one trial: the unit of every table, figure and export. Rows that were read
// share their environment, options and units: who changes these copies them first.
type Row struct {
	Schema   int         `json:"schema"`
	Run      string      `json:"run"`
	Bench    string      `json:"bench"`
	Part     string      `json:"part,omitempty"`
	Point    point.Point `json:"point"`     // axis: value, without num_ranks and backend
	NumRanks *int        `json:"num_ranks"` // null when the program starts its own
	Backend  string      `json:"backend"`
	Env      point.Env   `json:"env"` // name: value, or null for unset
	Options  point.Point `json:"options"`
	Trial    int         `json:"trial"` // from 0
	Index    int         `json:"index"` // the point's place in the declared order, whatever the order of execution

	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`
	Rank   *int   `json:"rank,omitempty"`  // the rank that failed
	Phase  string `json:"phase,omitempty"` // where it failed
	Output string `json:"output,omitempty"`
	// Ranks are the ends of all ranks of a program that failed.
	Ranks []RankEnd `json:"ranks,omitempty"`
	// Optional marks a not-executed row that the run may do without: it is
	// counted and shown, but it is no failure.
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
	Skew    *float64           `json:"skew,omitempty"`      // median of (slowest - fastest)/slowest
	Slowest *int               `json:"straggler,omitempty"` // the rank most often last
	Details map[string]string  `json:"details,omitempty"`   // what the bench says about the row in words

	Sampling     *Sampling     `json:"sampling,omitempty"`
	Quality      Quality       `json:"quality,omitempty"`      // of a measured row; see Disturbed
	Measurements []Measurement `json:"measurements,omitempty"` // all of them, if there was more than one

	Warnings []string  `json:"warnings,omitempty"`
	Host     string    `json:"host"`
	Load     *Load     `json:"load,omitempty"`
	Time     time.Time `json:"time"`
	Launch   string    `json:"launch,omitempty"` // folder under logs/
	Raw      string    `json:"raw,omitempty"`    // file under samples/
	// Raws are those of metrics that were sampled apart from time_us.
	Raws map[string]string `json:"raws,omitempty"`
	// file under inside/: package profile's record of a simulated kernel
	Inside  string `json:"inside,omitempty"`
	Key     string `json:"key"`            // identity of the row: same key, same work
	Task    string `json:"task,omitempty"` // key of the point that gave several rows; equals Key when empty
	Attempt int    `json:"attempt,omitempty"`
}

// Why is where a row failed and for what reason, as far as it says: "rank 1 in set-up: no memory".
func (r *Row) Why() string {
	where := ""
	if r.Rank != nil {
		where = fmt.Sprintf("rank %d", *r.Rank)
	}
	if r.Phase != "" {
		where = strings.TrimSpace(where + " in " + r.Phase)
	}
	if where != "" && r.Reason != "" {
		return where + ": " + r.Reason
	}
	return where + r.Reason
}

// TaskKey is the identity for --resume: that of the planned point behind the
// row.
func (r *Row) TaskKey() string {
	return cmp.Or(r.Task, r.Key)
}

// AxisInfo describes a column of the rows, so that a reader without the
// declaration can order and format it.
type AxisInfo struct {
	Part string     `json:"part,omitempty"`
	Name string     `json:"name"`
	Kind point.Kind `json:"kind"`
}

// MetricInfo describes a metric. Better is "lower", "higher" or "" when it is
// neither.
type MetricInfo struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Better string `json:"better,omitempty"`
}

// Header opens a run: everything needed to read its rows and to repeat it.
type Header struct {
	Schema   int               `json:"schema"`
	Run      string            `json:"run"`
	Bench    string            `json:"bench"`
	Version  string            `json:"bench_version,omitempty"` // of the bench or model
	Time     time.Time         `json:"time"`
	Argv     []string          `json:"argv"`
	Host     hostinfo.Host     `json:"host"`
	Load     float64           `json:"load"`    // load average over the last minute, before the start
	Environ  map[string]string `json:"environ"` // by allow-list; swept variables always
	Axes     []AxisInfo        `json:"axes"`
	Envs     []string          `json:"envs,omitempty"`
	Metrics  []MetricInfo      `json:"metrics"`
	Inputs   map[string]string `json:"inputs,omitempty"` // file: SHA-256
	Backend  string            `json:"backend"`
	Launcher string            `json:"launcher,omitempty"`
	Seed     uint64            `json:"seed"`
	Trials   int               `json:"trials"`
	Points   int               `json:"points"`
	Launches int               `json:"launches"`
	Resumed  bool              `json:"resumed,omitempty"` // continues an earlier header of the same run
}

// Begin precedes each point, so that a reader can tell a point that was never
// reached from one that took everything down with it.
type Begin struct {
	Run     string    `json:"run"`
	Key     string    `json:"key"`
	Trial   int       `json:"trial"`
	Attempt int       `json:"attempt,omitempty"`
	Point   string    `json:"point,omitempty"` // in words, for who watches
	Time    time.Time `json:"time"`
}

// Note is something to know about a run that belongs to no single row.
type Note struct {
	Run   string          `json:"run"`
	Text  string          `json:"text"`
	Time  time.Time       `json:"time"`
	Tuned json.RawMessage `json:"tuned,omitempty"` // what a study found, package tune's Result
}

// End closes a run that came to its end or was interrupted.
type End struct {
	Run     string         `json:"run"`
	Outcome string         `json:"outcome"` // complete, interrupted, failed
	Counts  map[Status]int `json:"counts"`
	Missing int            `json:"missing,omitempty"` // of these, not executed although required
	Seconds float64        `json:"seconds"`
	Time    time.Time      `json:"time"`
}
