#!/usr/bin/env bash
# Compares the time to solution (set-up of the preconditioner and solve, to the same true
# residual) with PETSc's, in interleaved pairs. For each system, a first round on the largest
# number of ranks finds the best solver of each side: ours by --method auto --precond auto,
# PETSc's among BoomerAMG (hypre) and GAMG. The pairs then alternate between the two. Prints a
# Markdown table for docs/results and writes it to OUT/table.md.
#
#   scripts/bench-petsc.sh [bin/kernbench]
#
# PAIRS    interleaved pairs (10; a verdict needs at least 10)
# LIMIT    seconds after which no further pair starts (700). The table then has fewer pairs. Ten
#          pairs of all systems take about 17 minutes on two cores of 2.1 GHz
# SYSTEMS  "2d 3d variable anisotropic" (all)
# RANKS    rank counts ("1 2")
# DOF      unknowns (1000000)
# OUT      folder of the runs (out/bench-petsc). An interrupted script continues where it stopped
#
# Needs a built kernbench, a C compiler, pkg-config and Debian's petsc-dev.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
pairs=${PAIRS:-10}
limit=${LIMIT:-700}
systems=${SYSTEMS:-2d 3d variable anisotropic}
ranks=${RANKS:-1 2}
dof=${DOF:-1000000}
out=${OUT:-out/bench-petsc}
. "$here/scripts/peers.sh"
export KERNBENCH_PETSC=$here/peers/petsc.sh
pkg-config --exists PETSc 2>/dev/null || { echo "PETSc is not installed (Debian: petsc-dev, pkg-config)" >&2; exit 1; }

# system sets the variable arguments: the flags of `run` for a system.
system() {
	case $1 in
	2d) arguments=(--problem poisson --dim 2) ;;
	3d) arguments=(--problem poisson --dim 3) ;;
	variable) arguments=(--problem variable --contrast 1e6) ;;
	anisotropic) arguments=(--problem anisotropic --contrast 1000) ;;
	*) echo "SYSTEMS: no $1" >&2 && exit 2 ;;
	esac
}

# solve adds trials to a run until it has k.
solve() { # k, folder, ranks, arguments of run
	local k=$1 name=$2 np=$3
	shift 3
	add "$k" "$name" --bench solve-scaling --mode strong --total-dof "$dof" --ranks "$np" --bind core --rhs ones --rtol 1e-10 --repeat 1 \
		"${arguments[@]}" "$@"
}

# numbers prints the named columns of the good rows of a run, separated by blanks.
numbers() {
	local run=$1
	shift
	"$bin" show "$out/$run" --format csv 2>/dev/null | awk -F, -v names="$*" '
		NR == 1 { n = split(names, want, " "); for (i = 1; i <= NF; i++) col[$i] = i; next }
		$col["status"] == "ok" { line = ""; for (i = 1; i <= n; i++) line = line (i > 1 ? " " : "") $col[want[i]]; print line }'
}

# choose finds the best solver of each side for a system, and keeps it in a file: method,
# preconditioner and peer.
choose() { # system
	local file=$out/best-$1 run=choice-$1 chosen best
	[ ! -s "$file" ] || return 0
	echo "choosing for $1, after $SECONDS s" >&2
	solve 1 "$run" "${ranks##* }" --method auto --precond auto --peer none,petsc:hypre,petsc:gamg
	chosen=$("$bin" show "$out/$run" --format jsonl | sed -n 's/.*"chosen":"\([^"]*\)".*/\1/p' | tail -1)
	best=$(numbers "$run" peer precond_setup_s solve_time_s | awk '$1 != "none" && (!name || $2 + $3 < least) { name = $1; least = $2 + $3 } END { print name }')
	if [ -z "$chosen" ] || [ -z "$best" ]; then
		echo "$1: one side did not solve it, see $out/$run.txt" >&2
		return 1
	fi
	case $chosen in
	*" + "*) echo "${chosen%% + *} ${chosen##* + } $best" ;;
	*) echo "$chosen none $best" ;;
	esac >"$file"
}

# table prints a line for each system and number of ranks, and the geometric mean of the ratios.
table() {
	echo "| system | ranks | ours | iterations | seconds | PETSc | iterations | seconds | times as fast (95 %) | pairs | at least 1 |"
	echo "|---|---|---|---|---|---|---|---|---|---|---|"
	for s in $systems; do
		for np in $ranks; do
			[ -s "$out/best-$s" ] || continue
			read -r method precond peer <"$out/best-$s"
			{ numbers "ours-$s-$np" trial iterations precond_setup_s solve_time_s rel_residual | sed 's/^/ours /'
			  numbers "petsc-$s-$np" trial iterations precond_setup_s solve_time_s rel_residual | sed 's/^/petsc /'; } |
				awk -v s="$s" -v np="$np" -v ours="$method + $precond" -v peer="${peer#petsc:}" "$median_interval"'
				function sorted(v, n,    a, x, j) { for (a = 2; a <= n; a++) { x = v[a]; for (j = a - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x } }
				function median(v, n) { return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 }
				{ t[$1, $2] = $4 + $5; it[$1] = $3; if ($2 + 0 > last) last = $2 + 0; if ($6 + 0 > worst[$1]) worst[$1] = $6 + 0 }
				END { for (k = 0; k <= last; k++) if ((("ours", k) in t) && (("petsc", k) in t)) { n++; a[n] = t["ours", k]; b[n] = t["petsc", k]; r[n] = b[n] / a[n] }
					if (!n) { printf "| %s | %s | %s | | | cg + %s | | | no pair | 0 | |\n", s, np, ours, peer; exit }
					sorted(a, n); sorted(b, n); sorted(r, n); e = edge(n); lo = r[e ? e : 1]; hi = r[e ? n + 1 - e : n]
					verdict = n < 10 ? "not resolved" : lo >= 1 ? "met" : hi < 1 ? "not met" : "not resolved"
					printf "| %s | %s | %s | %d | %.2f | cg + %s | %d | %.2f | %.2f (%.2f to %.2f) | %d | %s |\n", s, np, ours, it["ours"], median(a, n), peer, it["petsc"], median(b, n), median(r, n), lo, hi, n, verdict
					if (worst["ours"] > 10 * worst["petsc"] || worst["petsc"] > 10 * worst["ours"]) printf "| | | true residual %.1e | | | true residual %.1e | | | | | |\n", worst["ours"], worst["petsc"] }'
		done
	done | tee "$out/lines.md"
	awk -F '|' '$10 ~ /\(/ { split($10, w, " "); sum += log(w[1]); n++; if (!least || w[1] < least) least = w[1] }
		END { if (n) printf "\nGeometric mean of %d ratios: %.2f (goal 2). Smallest: %.2f (goal 1).\n", n, exp(sum / n), least }' "$out/lines.md"
}

finish() { table | tee "$out/table.md"; }
trap 'finish; exit 130' INT TERM

SECONDS=0
for s in $systems; do
	system "$s"
	choose "$s" || worse 3
done
for ((k = 1; k <= pairs; k++)); do
	for s in $systems; do
		system "$s"
		for np in $ranks; do
			[ -s "$out/best-$s" ] || continue
			if [ "$SECONDS" -gt "$limit" ]; then
				echo "$limit seconds are over in pair $k (LIMIT)" >&2
				break 3
			fi
			echo "pair $k of $pairs: $s on $np ranks, after $SECONDS s" >&2
			read -r method precond peer <"$out/best-$s"
			solve "$k" "ours-$s-$np" "$np" --method "$method" --precond "$precond"
			solve "$k" "petsc-$s-$np" "$np" --method auto --precond auto --peer "$peer"
		done
	done
done
trap - INT TERM
finish
exit "$code"
