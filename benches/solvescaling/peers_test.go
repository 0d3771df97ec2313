package solvescaling

import (
	"os"
	"testing"

	"github.com/kernbench/kernbench/internal/bench/sweep"
)

// PETSc's sweep loads, names a program that is there, and has the axes by which
// its rows are paired with ours.
func TestPETScSweep(t *testing.T) {
	b, err := sweep.Load("../../peers/petsc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	for _, axis := range []string{dimAxis, totalAxis} {
		if _, has := b.Parts[0].Axis(axis); !has {
			t.Errorf("no axis %s", axis)
		}
	}
	if _, err := os.Stat("../../peers/petsc_cg.c"); err != nil {
		t.Error(err)
	}
}
