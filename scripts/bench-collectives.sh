#!/usr/bin/env bash
# Holds kernbench's all-reduce against Open MPI, MPICH and gloo, as far as they
# are installed: the same sizes, in turns, so that each trial of one side has a
# trial of the other beside it. Prints time, ratio with interval and per cent of
# this host's limit for each size, and whether the goals are met.
#
#   scripts/bench-collectives.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas (2)
# TRIALS   interleaved pairs (20; the least that a verdict rests on is 10). Many short
#          ones beat few long ones on a machine whose speed wanders
# SECONDS_PER_SIZE  most sampling per size and trial, of both sides (0.1)
# BUFFERS  which buffers of "symmetric private" (both)
# MAX      the largest size in bytes (67108864)
# GOALS    how many times faster than the best peer the geometric means should be,
#          on symmetric and on private buffers ("3.5 1.8")
# HEAP     1 adds Open MPI with its large temporary buffers kept on the heap instead
#          of mapped anew at every call, which is faster, and judges against it too (1)
# HALVES   1 adds bf16 and f16 against f32, at equal numbers of elements (1)
# PEERS    which peers, of "openmpi mpich gloo" (all)
# OUT      where the runs are kept (out/bench-collectives); a run that was
#          interrupted goes on where it stopped
#
# It needs a built kernbench, and for the peers a C compiler; no Go.
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
# shellcheck disable=SC2086 # a list of words
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
		# 4 bytes an element or 2: the sizes of equal counts are half as large.
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
