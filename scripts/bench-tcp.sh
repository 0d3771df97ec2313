#!/usr/bin/env bash
# Holds kernbench's all-reduce between two "hosts" against gloo and Open MPI's
# TCP: all of them over loopback, the same sizes, in turns, so that each trial of
# one side has a trial of the other beside it. Out of place and in place are held
# apart, as the peers have them. Prints time, ratio with interval and per cent of
# the probed loopback's limit for each size, and whether it is nowhere slower.
#
#   scripts/bench-tcp.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas, an equal share on each host (2)
# HOSTS    how many hosts the ranks count as being on (2)
# TRIALS   interleaved pairs (20; the least that a verdict rests on is 10). Many short
#          ones beat few long ones on a machine whose speed wanders
# SECONDS_PER_SIZE  most sampling per size and trial, of both sides (0.1)
# MAX      the largest size in bytes (67108864)
# PEERS    which peers, of "openmpi-tcp gloo" (both)
# OUT      where the runs are kept (out/bench-tcp); a run that was interrupted
#          goes on where it stopped
#
# It needs a built kernbench, and for the peers a C and a C++ compiler; no Go.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-2}
hosts=${HOSTS:-2}
trials=${TRIALS:-20}
seconds=${SECONDS_PER_SIZE:-0.1}
most=${MAX:-67108864}
wanted=${PEERS:-openmpi-tcp gloo}
out=${OUT:-out/bench-tcp}
. "$here/scripts/peers.sh"
# shellcheck disable=SC2086 # a list of words
choose_peers $wanted
probed

for ((k = 1; k <= trials; k++)); do
	echo "trial $k of $trials" >&2
	add "$k" tcp --bench collectives --size "4:$most:x4" --ranks "$ranks" --hosts "$hosts" --inplace false,true --bind core --buffers private --probe "$limits" --seconds "$seconds"
	for p in "${peers[@]}"; do
		add "$k" "$p" -f "$here/peers/$p.yaml" --np "$ranks" --seconds "$seconds" --max "$most"
	done
done

"$bin" speedup "$out/tcp" "${peers[@]/#/$out/}" --goal 1
