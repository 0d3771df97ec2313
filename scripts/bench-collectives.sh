#!/usr/bin/env bash
# Holds kernbench's all-reduce against Open MPI, MPICH and gloo, as far as they
# are installed: the same sizes, in turns, so that each trial of one side has a
# trial of the other beside it. Prints time, ratio with interval and per cent of
# this host's limit for each size, and whether the goals are met.
#
#   scripts/bench-collectives.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas (2)
# TRIALS   interleaved pairs (10, the least that a verdict rests on)
# SECONDS_PER_SIZE  sampling per size and trial of a peer (0.3)
# SIZES    sizes of kernbench's own side (4:64M:x4, which the peers have fixed)
# PEERS    which peers, of "openmpi mpich gloo" (all)
# OUT      where the runs are kept (out/bench-collectives); a run that was
#          interrupted goes on where it stopped
#
# It needs a built kernbench, and for the peers a C compiler; no Go.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-2}
trials=${TRIALS:-10}
seconds=${SECONDS_PER_SIZE:-0.3}
sizes=${SIZES:-4:64M:x4}
wanted=${PEERS:-openmpi mpich gloo}
out=${OUT:-out/bench-collectives}
build=$here/peers/build
mkdir -p "$build" "$out"

# What Debian calls the packages, for the message about what is missing.
declare -A package=([openmpi]="openmpi-bin libopenmpi-dev" [mpich]="mpich libmpich-dev" [gloo]="libgloo-dev g++")

# is_plain_mpi tells whether plain mpirun is that library's, as where only one is
# installed.
is_plain_mpi() {
	local version
	version=$(mpirun --version 2>/dev/null) || return 1
	case $1 in
	openmpi) [[ $version == *"Open MPI"* ]] ;;
	mpich) [[ $version == *HYDRA* ]] ;;
	esac
}

# build_peer builds one peer's program, or fails when its library is not there.
build_peer() {
	local log=$build/$1.log compiler
	case $1 in
	openmpi | mpich)
		compiler=$(command -v "mpicc.$1") || { is_plain_mpi "$1" && compiler=$(command -v mpicc); } || return 1
		"$compiler" -O3 -march=native "$here/peers/allreduce_mpi.c" -o "$build/allreduce_$1" >"$log" 2>&1
		;;
	gloo)
		${CXX:-g++} -O3 -march=native -std=c++17 "$here/peers/allreduce_gloo.cc" -o "$build/allreduce_gloo" -lgloo -lpthread >"$log" 2>&1
		;;
	*)
		echo "PEERS: $1 is none of openmpi, mpich, gloo" >&2
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
	for buffers in symmetric private; do
		one "$k" "$buffers" --bench collectives --size "$sizes" --ranks "$ranks" --bind core --buffers "$buffers" --probe "$limits"
	done
	for p in "${peers[@]}"; do
		one "$k" "$p" -f "$here/peers/$p.yaml" --np "$ranks" --seconds "$seconds"
	done
done

code=0
judge() { # folder, goal
	"$bin" speedup "$out/$1" "${peers[@]/#/$out/}" --goal "$2" || { local c=$?; [ $code -eq 1 ] || code=$c; }
}
echo "== symmetric buffers"
judge symmetric 3.5
echo "== private buffers"
judge private 1.8
exit $code
