#!/usr/bin/env bash
# Compares the time to solution (set-up of the preconditioner and solve, to the same true residual) with PETSc's, in
# interleaved pairs: ours by --method auto --precond auto, PETSc's cg by BoomerAMG (hypre) and by GAMG. Prints the
# verdict of `kernbench speedup`.
#
#   scripts/bench-petsc.sh [bin/kernbench]
#
# PAIRS    interleaved pairs (10; a verdict needs at least 10)
# LIMIT    seconds after which no further pair starts (2400)
# RANKS    rank counts (1,2)
# DOF      unknowns (1000000)
# OUT      folder of the runs (out/bench-petsc). An interrupted script continues where it stopped
#
# Needs a built kernbench, a C compiler, pkg-config and Debian's petsc-dev.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
pairs=${PAIRS:-10}
limit=${LIMIT:-2400}
ranks=${RANKS:-1,2}
dof=${DOF:-1000000}
out=${OUT:-out/bench-petsc}
. "$here/scripts/peers.sh"
pkg-config --exists PETSc 2>/dev/null || { echo "PETSc is not installed (Debian: petsc-dev, pkg-config)" >&2; exit 1; }
# The systems: problem, dimensions, contrast.
systems=("poisson 2 0" "poisson 3 0" "variable 2 1e6" "anisotropic 2 1000")

# each calls a function for each system. The variables ours and name have the arguments of `run` and the name.
each() {
	local s
	for s in "${systems[@]}"; do
		read -r problem dim contrast <<<"$s"
		ours=(--bench solve-scaling --mode strong --total-dof "$dof" --rhs ones --problem "$problem" --dim "$dim" --contrast "$contrast")
		name=$problem-$dim
		"$@"
	done
}

matrix() {
	"$bin" run "${ours[@]}" --ranks 1 --rtol 0.5 --repeat 1 --write-matrix "$build/$name.mtx" --quiet --out "$out/matrix-$name" >"$out/matrix-$name.txt"
}

pair() { # k
	[ "$SECONDS" -le "$limit" ] || return 0
	echo "pair $1 of $pairs: $name, after $SECONDS s" >&2
	add "$1" "ours-$name" "${ours[@]}" --ranks "$ranks" --bind core --rtol 1e-10 --repeat 1 --method auto --precond auto
	add "$1" "petsc-$name" -f "$here/peers/petsc-solve.yaml" --problem "$problem" --dim "$dim" --np "$ranks"
}

judge() {
	echo "== $name"
	"$bin" speedup "$out/ours-$name" "$out/petsc-$name" --metric time_to_solution_s --except precond --least 1 --goal 2 || worse $?
}

each matrix
for ((k = 1; k <= pairs; k++)); do
	each pair "$k"
done
each judge
exit "$code"
