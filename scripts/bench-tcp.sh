#!/usr/bin/env bash
# Compares kernbench's all-reduce between two "hosts" with gloo and with Open MPI over
# TCP. All of them use the loopback interface of this machine. They run the same sizes,
# and their trials alternate, so that drift of the machine affects all sides equally.
# Out-of-place and in-place calls are compared separately, as far as the peers have them.
# Prints, for each size, the times, their ratio with a confidence interval and the
# percentage of the probed limit of loopback, and whether kernbench is nowhere slower.
#
#   scripts/bench-tcp.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas; each host gets an equal share (2)
# HOSTS    number of hosts that the ranks pretend to be on (2)
# TRIALS   interleaved pairs of trials (20; a verdict needs at least 10). On a machine
#          whose speed drifts, many short trials are better than few long ones
# SECONDS_PER_SIZE  maximum sampling time per size and trial, for each side (0.1)
# MAX      largest size in bytes (67108864)
# PEERS    peers to compare with: "openmpi-tcp gloo" (both)
# OUT      folder of the runs (out/bench-tcp). An interrupted script continues where it
#          stopped
#
# Needs a built kernbench and, for the peers, a C and a C++ compiler; Go is not needed.
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
# shellcheck disable=SC2086 # the variable is a list of words
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
