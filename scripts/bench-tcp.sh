#!/usr/bin/env bash
# Holds kernbench's all-reduce between two "hosts" against gloo and Open MPI's
# TCP: all of them over loopback, the same sizes, in turns, so that each trial of
# one side has a trial of the other beside it. Prints time, ratio with interval
# and per cent of the probed loopback's limit for each size, and whether it is
# nowhere slower.
#
#   scripts/bench-tcp.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas, an equal share on each host (2)
# HOSTS    how many hosts the ranks count as being on (2)
# TRIALS   interleaved pairs (10, the least that a verdict rests on)
# SECONDS_PER_SIZE  sampling per size and trial of a peer (0.3)
# SIZES    sizes of kernbench's own side (4:64M:x4, which the peers have fixed)
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
trials=${TRIALS:-10}
seconds=${SECONDS_PER_SIZE:-0.3}
sizes=${SIZES:-4:64M:x4}
wanted=${PEERS:-openmpi-tcp gloo}
out=${OUT:-out/bench-tcp}
build=$here/peers/build
mkdir -p "$build" "$out"

# What Debian calls the packages, for the message about what is missing.
declare -A package=([openmpi-tcp]="openmpi-bin libopenmpi-dev" [gloo]="libgloo-dev g++")

# build_peer builds one peer's program, or fails when its library is not there.
build_peer() {
	local log=$build/$1.log compiler
	case $1 in
	openmpi-tcp)
		compiler=$(command -v mpicc.openmpi) || { [[ $(mpirun --version 2>/dev/null) == *"Open MPI"* ]] && compiler=$(command -v mpicc); } || return 1
		"$compiler" -O3 -march=native "$here/peers/allreduce_mpi.c" -o "$build/allreduce_openmpi" >"$log" 2>&1
		;;
	gloo)
		${CXX:-g++} -O3 -march=native -std=c++17 "$here/peers/allreduce_gloo.cc" -o "$build/allreduce_gloo" -lgloo -lpthread >"$log" 2>&1
		;;
	*)
		echo "PEERS: $1 is none of openmpi-tcp, gloo" >&2
		exit 2
		;;
	esac
}

peers=()
for p in $wanted; do
	if build_peer "$p"; then
		peers+=("$p")
	else
		echo "missing: $p is not installed or does not build (Debian: ${package[$p]}; see $build/$p.log); its side is left out" >&2
	fi
done
if [ ${#peers[@]} -eq 0 ]; then
	echo "no peer can be built: nothing to compare with" >&2
	exit 1
fi

limits=$out/limits.json
[ "$limits" -nt "$bin" ] || "$bin" probe --out "$limits" >"$out/limits.txt"

# one adds the trials of one run up to the k-th. A failed row is in the run's
# table and costs only its own pair.
one() {
	local k=$1 name=$2
	shift 2
	"$bin" run "$@" --trials "$k" --resume --quiet --out "$out/$name" >"$out/$name.txt" ||
		echo "trial $k of $name: rows failed, see $out/$name.txt" >&2
}

for ((k = 1; k <= trials; k++)); do
	echo "trial $k of $trials" >&2
	one "$k" tcp --bench collectives --size "$sizes" --ranks "$ranks" --hosts "$hosts" --bind core --buffers private --probe "$limits"
	for p in "${peers[@]}"; do
		one "$k" "$p" -f "$here/peers/$p.yaml" --np "$ranks" --seconds "$seconds"
	done
done

"$bin" speedup "$out/tcp" "${peers[@]/#/$out/}" --goal 1
