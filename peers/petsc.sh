#!/bin/sh
# Runs petsc_solve.c under Open MPI, and builds it first if necessary: the program of petsc-solve.yaml.
# usage: petsc.sh RANKS ARGUMENTS OF petsc_solve
# Exit status 69 means that the program cannot be built or started here. The last line of output says why.
here=$(cd "$(dirname "$0")" && pwd)
program=$here/build/petsc_solve
if [ ! -x "$program" ] || [ "$here/petsc_solve.c" -nt "$program" ]; then
	compiler=$(command -v mpicc.openmpi || command -v mpicc) || { echo "no mpicc (Debian: libopenmpi-dev)" >&2; exit 69; }
	pkg-config --exists PETSc 2>/dev/null || { echo "PETSc is not installed (Debian: petsc-dev, pkg-config)" >&2; exit 69; }
	mkdir -p "$here/build"
	# shellcheck disable=SC2046 # the flags are separate words
	"$compiler" -O3 -march=native $(pkg-config --cflags PETSc) "$here/petsc_solve.c" -o "$program.$$" $(pkg-config --libs PETSc) -lm >"$here/build/petsc_solve.log" 2>&1 ||
		{ echo "petsc_solve.c does not build, see $here/build/petsc_solve.log" >&2; exit 69; }
	mv "$program.$$" "$program"
fi
# Remove the variables of a launcher that started kernbench: mpirun would take itself for one of its ranks.
for name in $(env | sed -n 's/^\(\(OMPI\|PMIX\|PMI\|SLURM\)_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$name"; done
ranks=$1
shift
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
exec "$here/mpi.sh" openmpi "$ranks" "$program" "$@"
