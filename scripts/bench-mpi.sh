#!/usr/bin/env bash
# Measures how much longer an MPI call takes from kernbench than from C. It compares the all-reduce of `kernbench run
# --bench collectives --backend mpi` with the all-reduce of peers/allreduce_mpi.c, which uses the same library. Both run
# the same sizes, and their trials alternate, so that drift of the machine affects both equally. Prints both times and
# the median difference with its confidence interval for each size, and whether the goal is met.
#
#   scripts/bench-mpi.sh [bin/kernbench]
#
# RANKS    number of ranks (2)
# TRIALS   interleaved pairs of trials (20; a verdict needs at least 10). On a machine
#          whose speed drifts, many short trials are better than few long ones
# SECONDS_PER_SIZE  maximum sampling time per size and trial, for each side (0.1)
# MAX      largest size in bytes; sizes start at 4 and grow by factors of 4 (1048576)
# GOAL     largest allowed difference per call in microseconds (1.5)
# GOAL_MAX largest size in bytes for which GOAL is checked (4096). Larger calls spend
#          nearly all their time in the library, so that their difference is mostly
#          noise; it is only printed
# PEERS    libraries to measure: "openmpi mpich" (both)
# OUT      folder of the runs (out/bench-mpi). An interrupted script continues where it
#          stopped
#
# Exit status: 0 if the goal is met, 1 if it is not, 3 if the data cannot tell. Needs a
# built kernbench, a C compiler, the libraries' headers (Debian: libopenmpi-dev,
# libmpich-dev) and jq; Go is not needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-2}
trials=${TRIALS:-20}
seconds=${SECONDS_PER_SIZE:-0.1}
max=${MAX:-1048576}
goal=${GOAL:-1.5}
goal_max=${GOAL_MAX:-4096}
wanted=${PEERS:-openmpi mpich}
out=${OUT:-out/bench-mpi}
. "$here/scripts/peers.sh"

bind="--bind-to core"
[ "$ranks" -le "$(nproc)" ] || bind="--bind-to none --oversubscribe"
declare -A launcher=(
	[openmpi]="mpirun.openmpi --allow-run-as-root $bind"
	[mpich]="mpiexec.hydra$([ "$ranks" -gt "$(nproc)" ] || echo " -bind-to core")"
)

for p in $wanted; do
	"mpicc.$p" -O3 -march=native "$here/peers/allreduce_mpi.c" -o "$build/allreduce_$p" ||
		{ echo "$p: no compiler of that library (Debian: libopenmpi-dev, libmpich-dev)" >&2; exit 1; }
done

# one adds trials to a run until it has k of them. A failed row costs only its own pair.
one() {
	local k=$1 name=$2
	shift 2
	"$here/peers/alone.sh" "$bin" run "$@" --trials "$k" --resume --quiet --out "$out/$name" >"$out/$name.txt" ||
		excuse "trial $k of $name" "$out/$name.txt"
}

for ((k = 1; k <= trials; k++)); do
	echo "trial $k of $trials" >&2
	for p in $wanted; do
		one "$k" "$p" --bench collectives --backend mpi --launcher "${launcher[$p]}" --size "4:$max:x4" --ranks "$ranks" --seconds "$seconds"
		one "$k" "$p-c" -f "$here/peers/$p.yaml" --np "$ranks" --seconds "$seconds" --max "$max"
	done
done

# times prints size, trial and time of each good row.
times() {
	"$bin" show "$out/$1" --format jsonl | jq -r 'select(.status == "ok") | [.point.size, .trial, .metrics.time_us] | @tsv'
}

# differences pairs the rows of both sides by size and trial.
differences() {
	sort -k1,1n -k4,4g | awk -v goal="$goal" -v upto="$goal_max" "$median_interval"'
	function close_size(   lo, verdict) {
		if (n == 0) return
		lo = edge(n)
		verdict = ""
		if (size <= upto) {
			if (n < 10 || lo == 0) { verdict = "not resolved: fewer than 10 pairs"; open = 1 }
			else if (d[n - lo + 1] < goal) verdict = "below " goal
			else if (d[lo] >= goal) { verdict = "NOT below " goal; bad = 1 }
			else { verdict = "not resolved"; open = 1 }
		}
		lo = lo > 0 ? lo : 1
		printf "%9d  %10.3f  %10.3f  %+8.3f  [%+.3f, %+.3f]  %5d  %s\n", size, c / n, ours / n, (d[int((n + 1) / 2)] + d[int((n + 2) / 2)]) / 2, d[lo], d[n - lo + 1], n, verdict
	}
	BEGIN { printf "%9s  %10s  %10s  %8s  %s\n", "size", "C (us)", "ours (us)", "more", "interval, pairs" }
	$1 != size { close_size(); size = $1; n = 0; c = 0; ours = 0 }
	{ n++; c += $2; ours += $3; d[n] = $4 }
	END { close_size(); exit bad ? 1 : open ? 3 : 0 }'
}

for p in $wanted; do
	echo "== $p, $ranks ranks: $("$bin" show "$out/$p" --format jsonl | jq -r '.details.library // empty' | sort -u | head -1)"
	join -t $'\t' -j 1 <(times "$p-c" | awk '{print $1 "/" $2 "\t" $3}' | sort -k1,1) <(times "$p" | awk '{print $1 "/" $2 "\t" $3}' | sort -k1,1) |
		awk '{ split($1, at, "/"); print at[1], $2, $3, $3 - $2 }' | differences || worse $?
done
exit $code
