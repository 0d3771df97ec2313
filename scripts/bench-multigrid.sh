#!/usr/bin/env bash
# Counts the iterations of cg with multigrid on problems of growing size, and prints them as
# the Markdown table of docs/results, with the sentence about them that docs/solve-scaling.md
# repeats. A test compares the two. Only iterations are counted, so the machine may be busy.
#
#   scripts/bench-multigrid.sh [bin/kernbench]
#
# SIZES    numbers of unknowns (100000,1000000,10000000; the largest needs about 10 GB)
# VARIABLE_SIZES  of the problem with jumps (100000,1000000,4000000: with more, double precision cannot reach the
#          tolerance)
# SYSTEMS  "poisson poisson-3d anisotropic variable" (all)
# RANKS    number of ranks (1)
# OUT      folder of the runs (out/bench-multigrid). An interrupted script continues where it
#          stopped
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
# shellcheck disable=SC2034 # peers.sh uses it
here=$(cd "$(dirname "$0")/.." && pwd)
sizes=${SIZES:-100000,1000000,10000000}
variable_sizes=${VARIABLE_SIZES:-100000,1000000,4000000}
systems=${SYSTEMS:-poisson poisson-3d anisotropic variable}
ranks=${RANKS:-1}
out=${OUT:-out/bench-multigrid}
. "$here/scripts/peers.sh"

# count runs one problem with the given preconditioners.
count() { # folder, preconditioners, arguments of run
	local name=$1 precond=$2
	shift 2
	echo "$name" >&2
	"$bin" run --bench solve-scaling --mode strong --ranks "$ranks" --rtol 1e-10 --rhs ones --repeat 1 --total-dof "$sizes" \
		--precond "$precond" "$@" --resume --quiet --out "$out/$name" >"$out/$name.txt" || excuse "$name" "$out/$name.txt"
}

for name in $systems; do
	case $name in
	poisson) count poisson gmg,amg --problem poisson ;;
	poisson-3d) count poisson-3d gmg,amg --problem poisson --dim 3 ;;
	anisotropic) count anisotropic gmg,amg --problem anisotropic --contrast 1000 ;;
	variable) sizes=$variable_sizes count variable amg,amg-f32,amg-bf16 --problem variable --contrast 1e6 ;;
	*) echo "SYSTEMS: no $name" >&2 && exit 2 ;;
	esac
done

table=$out/table.md
{
	echo "| problem | | unknowns | iterations | growth | operator complexity | |"
	echo "|---|---|---|---|---|---|---|"
	for name in $systems; do
		"$bin" show "$out/$name" --format csv | awk -F, -v name="$name" '
			NR == 1 { for (i = 1; i <= NF; i++) col[$i] = i; next }
			$col["status"] != "ok" { next }
			{ p = $col["precond"]; if (!(p in seen)) { seen[p] = 1; order[++n] = p }
			  m[p]++; u = $col["total-dof"] + 0; its = $col["iterations"] + 0; c = sprintf("%.2f", $col["operator_complexity"])
			  k = m[p]; dof[p, k] = u; it[p, k] = its; cx[p, k] = c }
			END { for (j = 1; j <= n; j++) { p = order[j]; s = ""; t = ""; w = ""; low = high = it[p, 1]
				for (k = 1; k <= m[p]; k++) { s = s (k > 1 ? ", " : "") sprintf("%.0e", dof[p, k]); t = t (k > 1 ? ", " : "") it[p, k]; w = w (k > 1 ? ", " : "") cx[p, k]
					if (it[p, k] > high) high = it[p, k]; if (it[p, k] < low) low = it[p, k] }
				printf "| %s | %s | %s | %s | %.2f | %s | %s |\n", name, p, s, t, high / low, w, high / low <= 1.3 ? "within 1.3" : "above 1.3" } }'
	done
} >"$table"
cat "$table"
echo
awk -F' *[|] *' 'NR > 2 { n = split($4, size, ", "); for (k = 1; k <= n; k++) { u = size[k] + 0; if (!low || u < low) low = u; if (u > high) high = u }
	n = split($5, count, ", "); for (k = 1; k <= n; k++) if (count[k] + 0 > most[$3]) most[$3] = count[k] + 0
	if ($6 + 0 > growth[$3]) growth[$3] = $6 + 0 }
	END { printf "From %.0e to %.0e unknowns, `gmg` takes at most %d iterations (largest growth %.2f), and `amg` at most %d (%.2f).\n",
		low, high, most["gmg"], growth["gmg"], most["amg"], growth["amg"] }' "$table"
for name in $systems; do
	"$bin" show "$out/$name" --format jsonl | sed -n "s/.*\"status\":\"failed\".*\"reason\":\"\([^\"]*\)\".*/$name: \1/p"
done
exit "$code"
