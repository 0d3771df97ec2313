#!/usr/bin/env bash
# Compares kernbench's conjugate gradients with PETSc's CG + Jacobi: the time of one
# iteration of the same solve, with alternating trials. Then checks weak scaling, the
# partitioners and the memory use, each against a goal. PARTS="nrhs precision" measures
# several right-hand sides and lower precision. Prints ratios with their confidence
# intervals, and whether the goals are met. bench-petsc.sh compares the time to solution.
#
#   scripts/bench-solve.sh [bin/kernbench]
#
# RANKS    rank counts of the comparison with PETSc (1,2)
# TRIALS   interleaved pairs of trials (10; a verdict needs at least 10)
# DOF      unknowns of the comparison, of nrhs and of precision (1000000: 1000x1000 and 100x100x100)
# STOP     iterations after which a solve of the comparison and of weak scaling may stop
#          (100), because only the time of one iteration is compared. Both sides test for
#          convergence after each iteration. 0 lets them converge, which takes more than
#          a thousand iterations in 2-D
# RTOL     relative tolerance of the convergence test (1e-6)
# WEAK     rank counts of weak scaling with 1M unknowns per rank (1,2)
# PIPELINED  rank counts at which cg-pipelined is compared with cg, with 10,000 unknowns
#          per rank (2; use 16 on a machine with at least 16 cores)
# PARTS    parts to run: "petsc weak pipelined partition memory nrhs precision" (all)
# PAIRS    interleaved pairs of the parts nrhs and precision (3, unless TRIALS is set)
# OUT      folder of the runs (out/bench-solve). An interrupted script continues where it
#          stopped
#
# Needs a built kernbench and, for PETSc, a C compiler, pkg-config and Debian's petsc-dev,
# which root installs automatically; Go is not needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-1,2}
trials=${TRIALS:-10}
dof=${DOF:-1000000}
stop=${STOP:-100}
rtol=${RTOL:-1e-6}
weak=${WEAK:-1,2}
pipelined=${PIPELINED:-2}
parts=${PARTS:-petsc weak pipelined partition memory nrhs precision}
pairs=${PAIRS:-${TRIALS:-3}}
out=${OUT:-out/bench-solve}
. "$here/scripts/peers.sh"
wanted() { [[ " $parts " == *" $1 "* ]]; }

# one runs kernbench quietly. Failed rows appear in the run's table.
one() {
	local name=$1
	shift
	"$bin" run "$@" --quiet --out "$out/$name" >"$out/$name.txt" || excuse "$name" "$out/$name.txt"
}

# numbers prints the named columns of a run's good rows.
numbers() {
	local run=$1
	shift
	"$bin" show "$out/$run" --format csv | awk -F, -v names="$*" '
		NR == 1 { n = split(names, want, " "); for (i = 1; i <= NF; i++) col[$i] = i; next }
		$col["status"] == "ok" { line = ""; for (i = 1; i <= n; i++) line = line (i > 1 ? " " : "") $col[want[i]]; print line }'
}

install_petsc() {
	if ! pkg-config --exists PETSc 2>/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends petsc-dev >/dev/null
	fi
}

build_petsc() {
	install_petsc
	local compiler
	compiler=$(command -v mpicc.openmpi || command -v mpicc) || return 1
	# shellcheck disable=SC2046 # the flags are separate words
	"$compiler" -O3 -march=native $(pkg-config --cflags PETSc) "$here/peers/petsc_cg.c" -o "$build/petsc_cg" $(pkg-config --libs PETSc) -lm
}

if wanted petsc; then
	build_petsc || { echo "PETSc is not installed or petsc_cg does not build (Debian: petsc-dev, gcc, pkg-config)" >&2; exit 1; }
	for ((k = 1; k <= trials; k++)); do
		echo "trial $k of $trials" >&2
		one petsc -f "$here/peers/petsc.yaml" --total-dof "$dof" --np "$ranks" --rtol "$rtol" --stop-after "$stop" --repeat 1 --trials "$k" --resume
		for storage in plain compressed; do
			one "$storage" --bench solve-scaling --mode strong --total-dof "$dof" --dim 2,3 --ranks "$ranks" --bind core --precond jacobi --rhs ones \
				--storage "$storage" --rtol "$rtol" --stop-after "$stop" --repeat 1 --trials "$k" --resume
		done
	done
	echo "== an iteration of CG + Jacobi against PETSc, every value stored as a double"
	"$bin" speedup "$out/plain" "$out/petsc" --least 1.3 --goal 1.3 || worse $?
	echo "== with the matrix compressed without loss"
	"$bin" speedup "$out/compressed" "$out/petsc" --least 1.6 --goal 1.6 || worse $?
fi

if wanted weak; then
	for ((k = 1; k <= trials; k++)); do
		one weak --bench solve-scaling --mode weak --dof-per-rank 1000000 --ranks "$weak" --bind core --storage plain --rtol "$rtol" --stop-after "$stop" --repeat 3 --trials "$k" --resume
	done
	# The limit set by memory bandwidth is measured with the solver's own sweeps over its
	# data, on all cores at once and without communication. The triad benchmark gives the
	# same limit only if the last-level cache holds the same share of one rank's problem as
	# of all ranks' problems, so its value is printed but not judged.
	echo "== weak scaling at 1M unknowns per rank: an iteration against what the memory of the cores allows (goal 0.90)"
	numbers weak num_ranks time_us triad_typical_gbps alone_us trial | awk "$median_interval"'
		{ t[$1, $5] = $2; b[$1, $5] = $3; own[$1, $5] = $4; if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 }; if ($5 > last) last = $5 }
		function interval(m,    a, x, j, e) {
			for (a = 2; a <= m; a++) { x = r[a]; for (j = a - 1; j >= 1 && r[j] > x; j--) r[j + 1] = r[j]; r[j + 1] = x }
			e = edge(m); lo = r[e ? e : 1]; hi = r[e ? m + 1 - e : m]
			return sprintf("%.2f (%.2f to %.2f, %d trials)", (r[int((m + 1) / 2)] + r[int(m / 2) + 1]) / 2, lo, hi, m) }
		END { for (i = 1; i <= n; i++) { p = order[i]; if (p == 1) continue
			m = 0; for (k = 0; k <= last; k++) if ((p, k) in t) r[++m] = own[p, k] / t[p, k]
			text = interval(m); verdict = m < 10 ? "not resolved" : lo >= 0.9 ? "met" : hi < 0.9 ? "not met" : "not resolved"
			printf "%3d ranks: %s: %s\n", p, text, verdict
			if (verdict == "not met") bad = 1; else if (verdict == "not resolved" && !bad) bad = 3
			m = 0; for (k = 0; k <= last; k++) if (((p, k) in t) && ((1, k) in t)) r[++m] = (t[1, k] / t[p, k]) / (b[p, k] / b[1, k] / p)
			if (m) printf "           by triad, from 1 rank on: %s\n", interval(m) } exit bad }' || worse $?
fi

if wanted pipelined; then
	for ((k = 1; k <= trials; k++)); do
		for method in cg cg-pipelined; do
			one "$method" --bench solve-scaling --mode weak --dof-per-rank 10000 --ranks "$pipelined" --bind core --method "$method" --rtol 1e-10 --repeat 5 --trials "$k" --resume
		done
	done
	echo "== an iteration of cg-pipelined against cg at 10,000 unknowns per rank (goal: no slower)"
	"$bin" speedup "$out/cg-pipelined" "$out/cg" --except method --least 1 --goal 1 || worse $?
fi

# A tolerance of one half ends the solve after a few iterations, because this part only
# measures the set-up.
setup=(--bench solve-scaling --mode strong --rtol 0.5 --repeat 1)

if wanted partition; then
	for dim in 2 3; do
		one "cut$dim" "${setup[@]}" --total-dof 1000000 --dim "$dim" --ranks 4,8,16 --partitioner multilevel,metis --bind none
		echo "== multilevel over METIS at 1M vertices, $dim-D: edge cut, volume (goal at most 1.10), seconds of each"
		numbers "cut$dim" num_ranks partitioner edge_cut comm_volume partition_s | awk '
			{ cut[$1, $2] = $3; vol[$1, $2] = $4; t[$1, $2] = $5; p[$1] = 1 }
			END { for (k in p) { a = cut[k, "multilevel"] / cut[k, "metis"]; b = vol[k, "multilevel"] / vol[k, "metis"]
				printf "%3d parts: cut %.3f volume %.3f, %.2f s and %.2f s: %s\n", k, a, b, t[k, "multilevel"], t[k, "metis"], a <= 1.1 && b <= 1.1 ? "met" : "not met"
				if (a > 1.1 || b > 1.1) bad = 1 } exit bad }' || worse 1
	done
	one rcb "${setup[@]}" --total-dof 1000000 --problem poisson,mesh --ranks 8 --partitioner coordinate --bind none
	echo "== coordinate bisection of 1M points into 8 parts (goal under 0.5 s)"
	numbers rcb problem partition_s | awk '{ printf "%s: %.3f s: %s\n", $1, $2, $2 < 0.5 ? "met" : "not met"; if ($2 >= 0.5) bad = 1 } END { exit bad }' || worse 1
fi

if wanted memory; then
	one memory "${setup[@]}" --total-dof 1000000 --dim 2 --ranks 1 --storage plain,compressed
	one memory3 "${setup[@]}" --total-dof 1000000 --dim 3 --stencil 7,27 --ranks 1 --storage plain,compressed
	echo "== peak memory above the baseline per unknown, CG (goal at most 1.3 times 104, 128 and 368 bytes)"
	{ numbers memory stencil storage memory_bytes_per_dof; numbers memory3 stencil storage memory_bytes_per_dof; } | awk '
		BEGIN { goal[0] = 104; goal[7] = 128; goal[27] = 368 }
		{ r = $3 / goal[$1]; printf "%2d points, %s: %.0f bytes, %.2f: %s\n", $1 ? $1 : 5, $2, $3, r, r <= 1.3 ? "met" : "not met"; if (r > 1.3) bad = 1 } END { exit bad }' || worse 1
fi
# ratios prints the median over the trials of a column in rows with one value of an axis, divided by the same
# column with another value, with its confidence interval, and whether the interval meets a goal. With few trials the
# interval is the whole range. LEAST=1 means that the goal is the least ratio instead of the largest.
ratios() { # run, title, axis, value above, value below, column, goal
	local run=$1 title=$2 axis=$3 above=$4 below=$5 column=$6 goal=$7
	numbers "$run" trial "$axis" "$column" | awk -v title="$title" -v a="$above" -v b="$below" -v goal="$goal" -v least="${LEAST:-0}" "$median_interval"'
		{ v[$1, $2] = $3; if ($1 > last) last = $1 }
		END { for (k = 0; k <= last; k++) if (((k, a) in v) && ((k, b) in v) && v[k, b] > 0) r[++m] = v[k, a] / v[k, b]
			if (!m) { printf "%-34s no pair\n", title; exit 3 }
			for (i = 2; i <= m; i++) { x = r[i]; for (j = i - 1; j >= 1 && r[j] > x; j--) r[j + 1] = r[j]; r[j + 1] = x }
			e = edge(m); lo = r[e ? e : 1]; hi = r[e ? m + 1 - e : m]
			good = least ? lo >= goal : hi <= goal; bad = least ? hi < goal : lo > goal
			verdict = good ? "met" : bad ? "not met" : "not resolved"
			printf "%-34s %.2f (%.2f to %.2f, %d pairs), goal %s %s: %s\n", title, (r[int((m + 1) / 2)] + r[int(m / 2) + 1]) / 2, lo, hi, m, least ? "at least" : "at most", goal, verdict
			exit good ? 0 : bad ? 1 : 3 }' || worse $?
}

million=(--bench solve-scaling --mode strong --total-dof "$dof" --ranks 1 --bind core --storage plain)

if wanted nrhs; then
	for ((k = 1; k <= pairs; k++)); do
		one nrhs5 "${million[@]}" --dim 2 --nrhs 1,16 --stop-after 20 --repeat 1 --trials "$k" --resume
		one nrhs7 "${million[@]}" --dim 3 --stencil 7 --nrhs 1,16 --stop-after 20 --repeat 1 --trials "$k" --resume
		one nrhs27 "${million[@]}" --dim 3 --stencil 27 --nrhs 1,16 --stop-after 20 --repeat 1 --trials "$k" --resume
	done
	# 16 columns move 16 times the vectors and once the matrix. The goals are 1.2 times that model for an iteration with
	# 11 vectors. One column may fit into the last-level cache where 16 do not, so the share of triad counts too: the
	# bytes of the model take at most 1.2 times as long as in a triad.
	echo "== a block iteration with 16 right-hand sides, over an iteration with one"
	ratios nrhs5 "5-point stencil" nrhs 16 1 time_us 11.6
	ratios nrhs7 "7-point stencil" nrhs 16 1 time_us 10.2
	ratios nrhs27 "27-point stencil" nrhs 16 1 time_us 5.0
	for run in nrhs5 nrhs7 nrhs27; do
		numbers "$run" nrhs time_us bytes_model triad_fraction | awk -v run="$run" '{ printf "  %s, nrhs %s: %.2f ms, %.0f MB by the model, %.0f %% of triad%s\n", run, $1, $2 / 1e3, $3 / 1e6, 100 * $4, $1 == 16 ? ", goal at least 83 %: " ($4 * 1.2 >= 1 ? "met" : "not met") : "" }'
	done
fi

if wanted precision; then
	for ((k = 1; k <= pairs; k++)); do
		one precision "${million[@]}" --dim 3 --precision f64,f32-matrix,f32 --repeat 1 --trials "$k" --resume
	done
	echo "== lower precision in 3-D, over f64"
	LEAST=1 ratios precision "f32, time to solution" precision f64 f32 solve_time_s 1.3
	LEAST=1 ratios precision "f32-matrix, time of an iteration" precision f64 f32-matrix time_us 1.1
	numbers precision precision iterations time_us solve_time_s reliable_updates | awk '{ printf "  %s: %d iterations of %.2f ms, %.2f s\n", $1, $2, $3 / 1e3, $4 }'
fi
exit $code
