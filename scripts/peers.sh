# Functions shared by the scripts that measure kernbench, mostly against other programs. To be
# sourced with bin (the kernbench program), here (the project) and out (the folder of runs) set.
# shellcheck shell=bash disable=SC2154
build=$here/peers/build
code=0

# Trials of different builds of kernbench must not be mixed. Runs of another build are moved to
# $out.old.
stamp=$(sha256sum <"$bin")
if [ -d "$out" ] && [ "$(cat "$out/build.sha256" 2>/dev/null)" != "$stamp" ]; then
	echo "$out holds results of another kernbench: moved to $out.old" >&2
	rm -rf "$out.old"
	mv "$out" "$out.old"
fi
mkdir -p "$build" "$out"
echo "$stamp" >"$out/build.sha256"

# add adds trials to a run until it has k of them, so that an interrupted script continues
# where it stopped. A failed row appears in the run's table and costs only its own pair.
add() { # k, folder, arguments of run
	local k=$1 name=$2
	shift 2
	"$bin" run "$@" --trials "$k" --resume --quiet --out "$out/$name" >"$out/$name.txt" || excuse "trial $k of $name" "$out/$name.txt"
}

# excuse lets the script continue after failed rows, but not after an interrupt.
excuse() { # what, table
	local status=$?
	[ "$status" -ne 130 ] || exit 130
	echo "$1: rows failed, see $2" >&2
}

# worse keeps the worst outcome in code: 1 (goal not met) is worse than 3 (not resolved).
worse() { [ "$code" -eq 1 ] || code=$1; }

# probed makes sure that the host's limits have been measured, and sets limits to the file.
probed() {
	limits=$out/limits.json
	[ -s "$limits" ] || "$bin" probe --out "$limits" >"$out/limits.txt"
}

# medians reads lines with a key, a tab and a value. For each key it prints the median,
# minimum, maximum and number of its values, separated by tabs.
medians() {
	LC_ALL=C sort -t $'\t' -k1,1 -k2,2g | awk -F '\t' -v OFS='\t' '
		function flush() { if (n) print key, (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2, v[1], v[n], n; n = 0 }
		$1 != key { flush(); key = $1 }
		{ v[++n] = $2 }
		END { flush() }'
}

# package lists the Debian packages of each peer, for messages about missing ones.
declare -A package=(
	[openmpi]="openmpi-bin libopenmpi-dev" [openmpi-tcp]="openmpi-bin libopenmpi-dev"
	[mpich]="mpich libmpich-dev" [gloo]="libgloo-dev g++"
)

# mpi_compiler finds the compiler of an MPI library: by its full name, or by the plain name if
# no other MPI library is installed.
mpi_compiler() {
	command -v "mpicc.$1" && return
	local version
	version=$(mpirun --version 2>/dev/null) || return 1
	case $1 in
	openmpi) [[ $version == *"Open MPI"* ]] ;;
	mpich) [[ $version == *HYDRA* ]] ;;
	esac && command -v mpicc
}

# build_allreduce builds the program of one peer. It fails if the peer's library is missing.
build_allreduce() {
	local log=$build/$1.log library=${1%-tcp} compiler
	case $library in
	openmpi | mpich)
		compiler=$(mpi_compiler "$library") || return 1
		"$compiler" -O3 -march=native "$here/peers/allreduce_mpi.c" -o "$build/allreduce_$library" >"$log" 2>&1
		;;
	gloo)
		${CXX:-g++} -O3 -march=native -std=c++17 "$here/peers/allreduce_gloo.cc" -o "$build/allreduce_gloo" -lgloo -lpthread >"$log" 2>&1
		;;
	*)
		echo "PEERS: $1 is none of ${!package[*]}" >&2
		exit 2
		;;
	esac
}

# choose_peers sets peers to the arguments whose programs could be built.
choose_peers() {
	peers=()
	local p
	for p in "$@"; do
		if build_allreduce "$p"; then
			peers+=("$p")
		else
			echo "missing: $p is not installed or does not build (Debian: ${package[$p]}; see $build/$p.log); its side is left out" >&2
		fi
	done
	if [ ${#peers[@]} -eq 0 ]; then
		echo "no peer can be built: nothing to compare with" >&2
		exit 1
	fi
}

# For awk: edge(n) returns the index of the sorted value at which the 95 % confidence interval
# of the median of n values begins, from the binomial distribution. For n = 10 it is 2, so the
# interval goes from the 2nd to the 9th value. It returns 0 if n is too small for an interval.
# shellcheck disable=SC2034 # used by the scripts that source this file
median_interval='
function edge(n,    p, tail, i) {
	p = 0.5 ^ n
	for (i = 0; 2 * (tail + p) < 0.05; i++) { tail += p; p *= (n - i) / (i + 1) }
	return i
}'
