package solvescaling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/system"
)

const (
	exportName = "results/" + figureName + ".json"
	// exportSchema is the version of the export. Increase it when a field changes its meaning, so that older readers do
	// not misread the file.
	exportSchema = 1
)

// document is the export: one row per configuration, in the order in which they were first run. docs/solve-scaling.md
// lists the fields.
type document struct {
	SchemaVersion int     `json:"schema_version"`
	Benchmark     string  `json:"benchmark"`
	Rows          []entry `json:"rows"`
}

// entry is one row: the configuration, every metric by name, and the phases. Unknown values are null, with a reason.
type entry map[string]any

// phase is the time of a phase in an iteration, in microseconds.
type phase struct {
	Mean    *float64 `json:"mean_us"`
	Slowest *float64 `json:"slowest_us"`
}

// exports writes every row, including the skipped ones with their reasons.
func exports(rows dataset.Set) ([]bench.File, error) {
	doc := document{SchemaVersion: exportSchema, Benchmark: figureName, Rows: []entry{}}
	for i := range rows {
		doc.Rows = append(doc.Rows, entryOf(rows[i]))
	}
	data, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", exportName, err)
	}
	return []bench.File{{Name: exportName, Data: append(data, '\n')}}, nil
}

// entryOf returns the entry of a row. Every field is present in every entry, with null for a value that the row does
// not have.
func entryOf(r *journal.Row) entry {
	e := entry{
		"key": r.Key, "run_id": r.Run, "trial": r.Trial, "status": r.Status, "reason": r.Reason,
		"mode": dataset.Text(r, modeAxis), "world_size": dataset.Ranks(r), "partitioner": dataset.Text(r, partitionerAxis),
		"objective": dataset.Text(r, objectiveAxis), "weights": dataset.Text(r, weightsAxis),
		"null_space": r.Details[nullSpaceDetail],
		"method":     dataset.Text(r, methodAxis), "preconditioner": dataset.Text(r, precondAxis),
		"problem": r.Details["problem"],
		"grid":    r.Details["grid"], "library": r.Details["library"],
		"matrix": dataset.Text(r, matrixOption), "rhs": dataset.Text(r, rhsAxis), "storage": dataset.Text(r, storageAxis),
		"converged_after": r.Details[convergedDetail],
		"peer":            "none", "precision": cmp.Or(dataset.Text(r, precisionAxis), system.Double),
		"dtype": "f64", "seed": r.Details["seed"], "solved": r.Status == journal.OK && !stopped(r),
		"threads": r.Details[threadsDetail], "cpu": r.Details[cpuDetail], "version": r.Details[versionDetail],
		"gpu": r.Details[gpuDetail], "ranks_per_gpu": r.Sharing(),
		"backend": r.Backend, "env": r.Env, "host": r.Host, "time": r.Time.UTC().Format("2006-01-02T15:04:05Z"),
		"verdict": r.Details[verdictDetail], "efficiency_doubt": r.Details[doubtDetail],
		"baseline": r.Details[baselineDetail], "slow_rank": slowText(r), "stats": r.Stats,
		"history": factsOf[[]residual](r, historyDetail), "warnings": r.Conditions.Sentences(),
	}
	for _, option := range []string{rtolOption, maxIterOption, stopOption, restartOption, repeatOption} {
		v, _ := r.Options.Get(option)
		e[strings.ReplaceAll(option, "-", "_")] = v.Float()
	}
	e["time_us"] = known64(r, "time_us")
	for _, m := range metrics {
		e[m.name] = known64(r, m.name)
	}
	phases := map[string]phase{}
	for p := range krylov.NumPhases {
		phases[p.String()] = phase{known64(r, meanOf(p)), known64(r, slowestOf(p))}
		delete(e, meanOf(p))
		delete(e, slowestOf(p))
	}
	e["phases"] = phases
	if _, ok := r.Metrics["efficiency"]; !ok {
		e["efficiency_reason"] = "the row failed"
		without, _ := lists.First(r.Conditions, func(c journal.Condition) bool {
			return c.Code == journal.CodeNoBaseline || c.Code == journal.CodeSharedGPU
		})
		switch {
		case r.Status == journal.Skipped || r.Status == journal.NotExecuted:
			e["efficiency_reason"] = "the row was not run"
		case without.Code != "":
			e["efficiency_reason"] = without.Sentence()
		case r.Status == journal.OK:
			e["efficiency_reason"] = "a solve was stopped without a solution"
		}
	}
	return e
}

// slowText explains why a rank was slow, or returns "" if none was.
func slowText(r *journal.Row) string {
	if slow := factsOf[*slowRank](r, slowRankDetail); slow != nil {
		return slow.String()
	}
	return ""
}

// known64 returns a metric, or nil if the row has none.
func known64(r *journal.Row, name string) *float64 {
	if v, ok := r.Metrics[name]; ok {
		return &v
	}
	return nil
}
