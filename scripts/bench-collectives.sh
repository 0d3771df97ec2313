#!/usr/bin/env bash
# Compares kernbench's all-reduce with the ones of Open MPI, MPICH and gloo, if they are installed. All sides run the
# same sizes, and their trials alternate, so that trial k of each side is measured at nearly the same time and drift of
# the machine affects all sides equally. Prints, for each size, the times, their ratio with a confidence interval and
# the percentage of this host's limit, and whether the goals are met.
#
#   scripts/bench-collectives.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas (2)
# TRIALS   interleaved pairs of trials (20; a verdict needs at least 10). On a machine
#          whose speed drifts, many short trials are better than few long ones
# SECONDS_PER_SIZE  maximum sampling time per size and trial, for each side (0.1)
# BUFFERS  kinds of buffers to measure: "symmetric private" (both)
# MAX      largest size in bytes (67108864)
# GOALS    required geometric means of the speed-up over the best peer, on symmetric
#          and on private buffers ("3.5 1.8")
# HEAP     1 adds another Open MPI configuration and compares with it too: large
#          temporary buffers stay on the heap instead of being mapped at every call,
#          which is faster (1)
# HALVES   1 also compares bf16 and f16 with f32, at equal numbers of elements (1)
# PEERS    peers to compare with: "openmpi mpich gloo" (all)
# OUT      folder of the runs (out/bench-collectives). An interrupted script continues
#          where it stopped
#
# Needs a built kernbench and, for the peers, a C compiler; Go is not needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-2}
trials=${TRIALS:-20}
seconds=${SECONDS_PER_SIZE:-0.1}
kinds=${BUFFERS:-symmetric private}
for kind in $kinds; do
	case $kind in
	symmetric | private) ;;
	*) echo "BUFFERS: $kind is none of symmetric private" >&2; exit 2 ;;
	esac
done
most=${MAX:-67108864}
read -r goal_symmetric goal_private <<<"${GOALS:-3.5 1.8}"
heap=${HEAP:-1}
halves=${HALVES:-1}
wanted=${PEERS:-openmpi mpich gloo}
out=${OUT:-out/bench-collectives}
. "$here/scripts/peers.sh"
# shellcheck disable=SC2086 # the variable is a list of words
choose_peers $wanted
probed
[[ " ${peers[*]} " == *" openmpi "* ]] || heap=0

for ((k = 1; k <= trials; k++)); do
	echo "trial $k of $trials" >&2
	for buffers in $kinds; do
		add "$k" "$buffers" --bench collectives --size "4:$most:x4" --ranks "$ranks" --bind core --buffers "$buffers" --probe "$limits" --seconds "$seconds"
	done
	for p in "${peers[@]}"; do
		add "$k" "$p" -f "$here/peers/$p.yaml" --np "$ranks" --seconds "$seconds" --max "$most"
	done
	if [ "$heap" = 1 ]; then
		add "$k" openmpi-heap -f "$here/peers/openmpi.yaml" --np "$ranks" --seconds "$seconds" --max "$most" \
			--env MALLOC_MMAP_MAX_=0 --env MALLOC_TRIM_THRESHOLD_=2147483647
	fi
	if [ "$halves" = 1 ]; then
		# bf16 and f16 have 2 bytes per element, f32 has 4, so equal counts mean half the size.
		add "$k" f32 --bench collectives --size "16:$most:x16" --ranks "$ranks" --bind core --dtype f32 --probe "$limits" --seconds "$seconds"
		add "$k" f16 --bench collectives --size "8:$((most / 2)):x16" --ranks "$ranks" --bind core --dtype f16,bf16 --probe "$limits" --seconds "$seconds"
	fi
done

judge() { # folder, goal
	echo "== $1 buffers, against the peers as they are installed"
	"$bin" speedup "$out/$1" "${peers[@]/#/$out/}" --goal "$2" || worse $?
	[ "$heap" = 1 ] || return 0
	echo "== $1 buffers, against the best of these and Open MPI with its buffers on the heap"
	"$bin" speedup "$out/$1" "${peers[@]/#/$out/}" "$out/openmpi-heap" --goal "$2" || worse $?
}
for buffers in $kinds; do
	case $buffers in
	symmetric) judge symmetric "$goal_symmetric" ;;
	private) judge private "$goal_private" ;;
	esac
done
if [ "$halves" = 1 ]; then
	echo "== 16-bit floats against f32, per element: how many times faster (median, least and most of the trials)"
	for run in f32 f16; do "$bin" show "$out/$run" --format csv; done | awk -F, '
		/^bench,/ { for (i = 1; i <= NF; i++) at[$i] = i; next }
		$at["status"] == "ok" {
			width = $at["dtype"] == "f32" ? 4 : 2
			key = $at["num_ranks"] SUBSEP $at["size"] / width SUBSEP $at["trial"]
			if (width == 4) whole[key] = $at["time_us"]
			else half[$at["dtype"] SUBSEP key] = $at["time_us"]
		}
		END {
			for (k in half) {
				split(k, f, SUBSEP)
				w = whole[f[2] SUBSEP f[3] SUBSEP f[4]]
				if (w) printf "%-5s %2d ranks %9d elements\t%s\n", f[1], f[2], f[3], w / half[k]
			}
		}' | medians | awk -F '\t' '{ printf "%s  %.2f (%.2f to %.2f, %d trials)\n", $1, $2, $3, $4, $5 }'
fi
exit $code
