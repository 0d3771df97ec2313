#!/usr/bin/env bash
# What calling MPI from kernbench costs over calling it from C: the all-reduce of
# `kernbench run --bench collectives --backend mpi` and of peers/allreduce_mpi.c
# by the same library, the same sizes, in turns, so that each trial of one side
# has a trial of the other beside it. Prints both times and the median of the
# differences with its interval for each size, and whether the goal is met.
#
#   scripts/bench-mpi.sh [bin/kernbench]
#
# RANKS    number of ranks (2)
# TRIALS   interleaved pairs (20; the least that a verdict rests on is 10). Many short
#          ones beat few long ones on a machine whose speed wanders
# SECONDS_PER_SIZE  most sampling per size and trial, of both sides (0.1)
# MAX      largest size in bytes; sizes go from 4 by factors of 4 (1048576)
# GOAL     the most that a call may cost over C's, in microseconds (1.5), up to
# GOAL_MAX bytes (4096): above, both sides spend their time in the library alike,
#          and what is left is noise of the machine, which is only printed
# PEERS    which libraries, of "openmpi mpich" (both)
# OUT      where the runs are kept (out/bench-mpi); a run that was interrupted
#          goes on where it stopped
#
# Exit status: 0 the goal is met, 1 it is not, 3 not resolved. It needs a built
# kernbench, a C compiler, the libraries' headers (Debian: libopenmpi-dev,
# libmpich-dev) and jq; no Go.
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

# one adds the trials of one run up to the k-th. A failed row costs only its pair.
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

# times lists size, trial and time of the good rows.
times() {
	"$bin" show "$out/$1" --format jsonl | jq -r 'select(.status == "ok") | [.point.size, .trial, .metrics.time_us] | @tsv'
}

# differences pairs the two sides by size and trial.
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
