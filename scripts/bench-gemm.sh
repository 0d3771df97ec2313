#!/usr/bin/env bash
# Compares kernbench's matrix products with OpenBLAS, called from C. Both run the same
# shapes, and their trials alternate, so that drift of the machine affects both equally.
# Prints the ratio of the times with its confidence interval for each point, and whether
# the goals are met: faster up to 64 rows, at least 0.9 times as fast above, and bf16 at
# least 1.6 times as fast as f32. Takes about 10 minutes on 2 idle cores, more than half
# of it for 4096.
#
#   scripts/bench-gemm.sh [bin/kernbench]
#
# SMALL     edges of cubes that must be faster, with one thread (4,8,16,32,48,64)
# LARGE     edges of cubes that must be at least 0.9 times as fast, in groups. Both sides
#           measure a group before the next one starts, so that they see the same speed
#           of the machine ("128,512,1024 2048 4096")
# HALF      edges of cubes for bf16, in groups ("512,1024 2048")
# TYPES     element types: "f32 f64" (both)
# THREADS   numbers of threads; each gets its own processes ("1 2")
# TRIALS    interleaved pairs of trials (10; a verdict needs at least 10)
# SECONDS_PER_POINT  sampling time per point and trial, at least one product (0.1)
# CORETYPE  processor type that OpenBLAS should assume (SkylakeX)
# OUT       folder of the runs (out/bench-gemm). An interrupted script continues where
#           it stopped
#
# Needs a built kernbench, a C compiler and libopenblas.so.0 (Debian:
# libopenblas0-pthread); Go is not needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
small=${SMALL-4,8,16,32,48,64}
large=${LARGE-128,512,1024 2048 4096}
half=${HALF-512,1024 2048}
types=${TYPES:-f32 f64}
threads=${THREADS:-1 2}
trials=${TRIALS:-10}
seconds=${SECONDS_PER_POINT:-0.1}
core=${CORETYPE:-SkylakeX}
out=${OUT:-out/bench-gemm}
. "$here/scripts/peers.sh"
${CC:-cc} -O3 "$here/peers/gemm_cblas.c" -o "$build/gemm_cblas" -l:libopenblas.so.0 -lm ||
	{ echo "gemm_cblas does not build: it needs a C compiler and libopenblas.so.0 (Debian: libopenblas0-pthread)" >&2; exit 1; }
began=$(date +%s)

# cubes converts edges to shapes: 8,16 becomes 8x8x8,16x16x16.
cubes() { sed -E 's/([0-9]+)/\1x\1x\1/g' <<<"$1"; }

# folder names the folder of one side's runs, such as ours-512_1024-f32-t2.
folder() { echo "$1-${2//,/_}-$3-t$4"; } # side, edges, type, threads

# ours adds a trial of kernbench.
ours() { # k, side, edges, type, threads
	add "$1" "$(folder "$2" "$3" "$4" "$5")" --bench gemm --shape "$(cubes "$3")" --dtype "$4" --threads "$5" \
		--provider builtin --seconds "$seconds"
}

# pair adds a trial of both sides.
pair() { # k, edges, type, threads
	ours "$1" ours "$2" "$3" "$4"
	add "$1" "$(folder openblas "$2" "$3" "$4")" -f "$here/peers/openblas.yaml" --shape "$(cubes "$2")" --dtype "$3" --threads "$4" \
		--axis "seconds=$seconds" --env "OPENBLAS_CORETYPE=$core"
}

for ((k = 1; k <= trials; k++)); do
	for d in $types; do
		[ -z "$small" ] || pair "$k" "$small" "$d" 1
	done
	for t in $threads; do
		for edges in $large; do
			for d in $types; do pair "$k" "$edges" "$d" "$t"; done
		done
		for edges in $half; do
			for d in f32 bf16; do ours "$k" half "$edges" "$d" "$t"; done
		done
	done
	echo "trial $k of $trials done after $(($(date +%s) - began)) s" >&2
done

# judge prints a table. The script exits with the worst outcome of all tables.
judge() { # title, least, folders, more arguments
	local title=$1 least=$2 ours=$3 peer=$4
	shift 4
	[ -d "$out/$ours" ] && [ -d "$out/$peer" ] || return 0
	echo "== $title"
	"$bin" speedup "$out/$ours" "$out/$peer" --least "$least" --goal "$least" "$@" || worse $?
}

# against compares two sides.
against() { # least, edges, type, threads
	judge "$3, $4 thread(s), $2: at least $1" "$1" "$(folder ours "$2" "$3" "$4")" "$(folder openblas "$2" "$3" "$4")"
}
for d in $types; do
	[ -z "$small" ] || against 1 "$small" "$d" 1
done
for t in $threads; do
	for d in $types; do
		for edges in $large; do against 0.9 "$edges" "$d" "$t"; done
	done
	for edges in $half; do
		judge "bf16 against f32, $t thread(s), $edges: at least 1.6" 1.6 "$(folder half "$edges" bf16 "$t")" "$(folder half "$edges" f32 "$t")" --except dtype
	done
done
echo "$(($(date +%s) - began)) s in all"
exit $code
