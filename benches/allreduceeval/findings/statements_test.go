package findings

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// checked returns a row of the correctness matrix. cells are its outcomes, such as "8Ki=ok, 8Ki+1=failed".
func checked(backend, algorithm string, status journal.Status, reason, cells string) journal.Row {
	ranks := 2
	return journal.Row{Bench: "allreduce-eval", Part: matrix.Correctness, Backend: backend, NumRanks: &ranks,
		Status: status, Reason: journal.Text(reason), Details: map[string]string{"cells": cells},
		Point: point.Point{{Name: "algorithm", Value: point.StringValue(algorithm)},
			{Name: "sizes", Value: point.StringValue(matrix.Smoke)}}}
}

// timedRow returns a row of one launch.
func timedRow(backend, algorithm string, size int64, us float64, kind journal.Kind) journal.Row {
	c := cellOfRun{algorithm: algorithm, size: size, launches: []launchOfRun{{us: us, noise: 0.01}}}
	r := c.rows()[0]
	r.Backend, r.Kind = backend, kind
	if kind == journal.Simulated {
		r.Stats = journal.Stats{}
	}
	return r
}

// Statements about rows whose shape once led to a wrong sentence.
func TestStatements(t *testing.T) {
	const measured, simulated = journal.Measured, journal.Simulated
	for _, c := range []struct {
		name         string
		rows         []journal.Row
		title        string
		wants, lacks string
	}{
		{"rows without a backend", []journal.Row{timedRow("", "ring", 1<<20, 10, measured)}, "Coverage gaps",
			"several hosts", "backends other than"},
		{"a backend that offers only auto", []journal.Row{checked("own", "auto", journal.OK, "", "8Ki=ok")}, "Coverage gaps",
			"times: none were taken", "--algorithm"},
		{"a reason that has the size", []journal.Row{
			checked("cpu", "ring", journal.Failed, "size 8Ki+1: element 3", "8Ki=ok, 8Ki+1=failed")}, "In short",
			"First: algorithm=ring sizes=smoke num_ranks=2: size 8Ki+1: element 3", "size 8Ki+1: size 8Ki+1"},
		{"a row that timed out", []journal.Row{checked("cpu", "ring", journal.Timeout, "timeout after 2 m", "")}, "In short",
			"First: algorithm=ring sizes=smoke num_ranks=2: timeout after 2 m", "size 0"},
		{"an algorithm with a time at one of two sizes", []journal.Row{
			timedRow("cpu", "ring", 1<<10, 10, simulated), timedRow("cpu", "tree", 1<<10, 20, simulated),
			timedRow("cpu", "ring", 1<<20, 30, simulated)}, "In short",
			"not resolved at 1Mi (tree was not timed at every size and setting)", "tree did not run"},
		{"exact times off their line", []journal.Row{
			timedRow("ahbm", "ring", 1<<10, 10, simulated), timedRow("ahbm", "ring", 1<<14, 40, simulated),
			timedRow("ahbm", "ring", 1<<16, 41, simulated), timedRow("ahbm", "ring", 1<<20, 42, simulated)},
			"Fits: time = alpha + bytes / beta", "too few sizes", "noise"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range Sections(dataset.All(c.rows), nil) {
				if s.Title != c.title {
					continue
				}
				text := s.Text + texts(s.Sentences)
				for _, line := range s.Table {
					text += "\n" + strings.Join(line, " | ")
				}
				if !strings.Contains(text, c.wants) || strings.Contains(text, c.lacks) {
					t.Errorf("want %q and not %q:\n%s", c.wants, c.lacks, text)
				}
				return
			}
			t.Errorf("no section %q", c.title)
		})
	}
}

// The text of a grid's cell counts the cells that have its mark.
func TestGridMarks(t *testing.T) {
	var cells []cell
	for i := range 54 {
		status := journal.NotExecuted
		if i < 18 {
			status = journal.OK
		}
		cells = append(cells, cell{status: status, required: true})
	}
	if got := gridCell(cells); got.Status != journal.NotExecuted || got.Text != "36 of 54 not run" {
		t.Errorf("%+v", got)
	}
	cells[0].status = journal.Failed
	if got := gridCell(cells); got.Status != journal.Failed || got.Text != "1 of 54 failed" {
		t.Errorf("%+v", got)
	}
}
