package solvescaling

import (
	"strings"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/precondition"
)

// solverOf returns the solver of a row: method and preconditioner.
func solverOf(r *journal.Row) string {
	if chosen := r.Details[chosenDetail]; chosen != "" {
		return auto + ": " + chosen
	}
	return solverName(dataset.Text(r, methodAxis), dataset.Text(r, precondAxis)) + settingsOf(r)
}

// solverName names a method with a preconditioner.
func solverName(method, precond string) string {
	if precond == precondition.None {
		return method
	}
	return method + " + " + precond
}

// settingsOf lists the multigrid settings of a row that are not the defaults.
func settingsOf(r *journal.Row) string {
	var words []string
	for _, axis := range multigridOf(r.Point).Changed(false) {
		words = append(words, axis+" "+dataset.Text(r, axis))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
