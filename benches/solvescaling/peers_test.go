package solvescaling

import (
	"os"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/sweep"
)

// The sweep files for PETSc load, their programs exist, and they have the axes that pair their rows with ours.
func TestPETScSweeps(t *testing.T) {
	for name, axes := range map[string][]string{"petsc": {dimAxis, totalAxis, "np"},
		"petsc-solve": {problemAxis, dimAxis, "np"}} {
		b := must.Get(sweep.Load("../../peers/" + name + ".yaml"))(t)
		must.Do(t, b.Validate())
		for _, axis := range axes {
			if _, has := b.Parts[0].Axis(axis); !has {
				t.Errorf("%s: no axis %s", name, axis)
			}
		}
	}
	for _, program := range []string{"petsc_cg.c", "petsc_solve.c"} {
		must.Get(os.Stat("../../peers/" + program))(t)
	}
}
