#!/usr/bin/env bash
# Compares kernbench's matrix products with OpenBLAS (f32, f64) and oneDNN (bf16, i8),
# called from C. All run the same shapes, and their trials alternate, so that drift of the
# machine affects all equally. Prints the ratio of the times with its confidence interval
# for each point, and whether the goals are met: faster than OpenBLAS up to 64 rows, at
# least 0.9 times as fast above, and at least as fast as oneDNN with B stored by rows.
# oneDNN with a B packed before the timing, as frameworks do with weights, is compared
# with ours packed in the same way (on processors with AMX), without a goal. Takes about
# 20 minutes on 2 idle cores, half of it for 4096.
#
#   scripts/bench-gemm.sh [bin/kernbench]
#
# SMALL     edges of cubes that must be faster, with one thread (4,8,16,32,48,64)
# LARGE     edges of cubes that must be at least 0.9 times as fast, in groups. Both sides
#           measure a group before the next one starts, so that they see the same speed
#           of the machine ("128,512,1024 2048 4096")
# NARROW    edges of cubes for bf16 and i8, in groups ("512,1024 2048 4096")
# TYPES     element types: "f32 f64" (both)
# THREADS   numbers of threads; each gets its own processes ("1 2")
# TRIALS    interleaved pairs of trials (10; a verdict needs at least 10)
# SECONDS_PER_POINT  sampling time per point and trial, at least one product (0.1)
# CORETYPE  processor type that OpenBLAS should assume (SkylakeX)
# OUT       folder of the runs (out/bench-gemm). An interrupted script continues where
#           it stopped
#
# Needs a built kernbench, a C compiler, libopenblas.so.0 and, unless NARROW is empty,
# oneDNN (Debian: libopenblas0-pthread, libdnnl2); Go is not needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
small=${SMALL-4,8,16,32,48,64}
large=${LARGE-128,512,1024 2048 4096}
narrow=${NARROW-512,1024 2048 4096}
types=${TYPES:-f32 f64}
threads=${THREADS:-1 2}
trials=${TRIALS:-10}
seconds=${SECONDS_PER_POINT:-0.1}
core=${CORETYPE:-SkylakeX}
out=${OUT:-out/bench-gemm}
. "$here/scripts/peers.sh"
${CC:-cc} -O3 "$here/peers/gemm_cblas.c" -o "$build/gemm_cblas" -l:libopenblas.so.0 -lm ||
	{ echo "gemm_cblas does not build: it needs a C compiler and libopenblas.so.0 (Debian: libopenblas0-pthread)" >&2; exit 1; }
[ -z "$narrow" ] || ${CC:-cc} -O3 "$here/peers/gemm_onednn.c" -o "$build/gemm_onednn" -ldl -lm
began=$(date +%s)

# cubes converts edges to shapes: 8,16 becomes 8x8x8,16x16x16.
cubes() { sed -E 's/([0-9]+)/\1x\1x\1/g' <<<"$1"; }

# folder names the folder of one side's runs, such as ours-512_1024-f32-t2.
folder() { echo "$1-${2//,/_}-$3-t$4"; } # side, edges, type, threads

# ours adds a trial of kernbench.
ours() { # k, provider, edges, type, threads
	add "$1" "$(folder "$2" "$3" "$4" "$5")" --bench gemm --shape "$(cubes "$3")" --dtype "$4" --threads "$5" \
		--provider "$2" --seconds "$seconds"
}

# onednn adds a trial of oneDNN.
onednn() { # k, packed or unpacked, edges, type, threads
	add "$1" "$(folder "onednn-$2" "$3" "$4" "$5")" -f "$here/peers/onednn.yaml" --shape "$(cubes "$3")" --dtype "$4" \
		--threads "$5" --axis "weights=$2" --axis "seconds=$seconds"
}

# has_packed succeeds if this kernbench can keep B packed, which needs AMX.
has_packed=
"$bin" list --all | grep -q builtin-packed && has_packed=yes

# pair adds a trial of both sides.
pair() { # k, edges, type, threads
	ours "$1" builtin "$2" "$3" "$4"
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
		for edges in $narrow; do
			for d in bf16 i8; do
				ours "$k" builtin "$edges" "$d" "$t"
				onednn "$k" unpacked "$edges" "$d" "$t"
				[ -z "$has_packed" ] || ours "$k" builtin-packed "$edges" "$d" "$t"
				onednn "$k" packed "$edges" "$d" "$t"
			done
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
	judge "$3, $4 thread(s), $2: at least $1" "$1" "$(folder builtin "$2" "$3" "$4")" "$(folder openblas "$2" "$3" "$4")"
}
for d in $types; do
	[ -z "$small" ] || against 1 "$small" "$d" 1
done
for t in $threads; do
	for d in $types; do
		for edges in $large; do against 0.9 "$edges" "$d" "$t"; done
	done
	for edges in $narrow; do
		for d in bf16 i8; do
			judge "$d against oneDNN, $t thread(s), $edges: at least 1" 1 "$(folder builtin "$edges" "$d" "$t")" \
				"$(folder onednn-unpacked "$edges" "$d" "$t")"
			judge "$d with a packed B against oneDNN's, $t thread(s), $edges: no goal" 0.01 \
				"$(folder builtin-packed "$edges" "$d" "$t")" "$(folder onednn-packed "$edges" "$d" "$t")"
		done
	done
done
echo "$(($(date +%s) - began)) s in all"
exit $code
