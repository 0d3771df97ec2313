#!/usr/bin/env bash
# Holds kernbench's matrix products against OpenBLAS from C: the same shapes in
# turns, so that each trial of one side has a trial of the other beside it.
# Prints the ratio of the times with its interval for each point, and whether
# the goals are met: faster up to 64 rows, at least 0.9 times as fast above, and
# bf16 at least 1.6 times as fast as f32. About 6 minutes on 2 idle cores.
#
#   scripts/bench-gemm.sh [bin/kernbench]
#
# SMALL     cubes that must be faster (8,16,32,64)
# LARGE     cubes that must be 0.9 times as fast (128,512,1024,2048)
# HUGE      cubes that take too long for as many trials (4096)
# HALF      cubes for bf16 (512,1024,2048)
# TYPES     of "f32 f64" (both)
# THREADS   numbers of threads, each in processes of its own ("1 2")
# TRIALS    interleaved pairs (10, the least that a verdict rests on)
# HUGE_TRIALS  of the huge ones (2, which give no verdict; 10 take 8 minutes more)
# SECONDS_PER_POINT  sampling per point and trial (0.2)
# CORETYPE  what OpenBLAS is told to be (SkylakeX)
# OUT       where the runs are kept (out/bench-gemm); a run that was interrupted
#           goes on where it stopped
#
# It needs a built kernbench, a C compiler and libopenblas.so.0 (Debian:
# libopenblas0-pthread); no Go.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
small=${SMALL-8,16,32,64}
large=${LARGE-128,512,1024,2048}
huge=${HUGE-4096}
half=${HALF-512,1024,2048}
types=${TYPES:-f32 f64}
threads=${THREADS:-1 2}
trials=${TRIALS:-10}
huge_trials=${HUGE_TRIALS:-2}
seconds=${SECONDS_PER_POINT:-0.2}
core=${CORETYPE:-SkylakeX}
out=${OUT:-out/bench-gemm}
. "$here/scripts/peers.sh"
${CC:-cc} -O3 "$here/peers/gemm_cblas.c" -o "$build/gemm_cblas" -l:libopenblas.so.0 -lm ||
	{ echo "gemm_cblas does not build: it needs a C compiler and libopenblas.so.0 (Debian: libopenblas0-pthread)" >&2; exit 1; }
began=$(date +%s)

# cubes makes shapes of edges: 8,16 is 8x8x8,16x16x16.
cubes() { sed -E 's/([0-9]+)/\1x\1x\1/g' <<<"$1"; }

# pair measures both sides of one kind of points.
pair() { # k, name, edges, type, threads
	[ -n "$3" ] || return 0
	add "$1" "ours-$2-$4-t$5" --bench gemm --shape "$(cubes "$3")" --dtype "$4" --threads "$5" --provider builtin --seconds "$seconds"
	add "$1" "openblas-$2-$4-t$5" -f "$here/peers/openblas.yaml" --shape "$(cubes "$3")" --dtype "$4" --threads "$5" \
		--axis "seconds=$seconds" --env "OPENBLAS_CORETYPE=$core"
}

for ((k = 1; k <= trials; k++)); do
	for t in $threads; do
		for d in $types; do
			pair "$k" small "$small" "$d" "$t"
			pair "$k" large "$large" "$d" "$t"
			[ "$k" -gt "$huge_trials" ] || pair "$k" huge "$huge" "$d" "$t"
		done
		[ -z "$half" ] || for d in f32 bf16; do
			add "$k" "half-$d-t$t" --bench gemm --shape "$(cubes "$half")" --dtype "$d" --threads "$t" --provider builtin --seconds "$seconds"
		done
	done
	echo "trial $k of $trials done after $(($(date +%s) - began)) s" >&2
done

# judge prints a table; the worst outcome is the script's.
judge() { # title, least, folders, more arguments
	local title=$1 least=$2 ours=$3 peer=$4
	shift 4
	[ -d "$out/$ours" ] && [ -d "$out/$peer" ] || return 0
	echo "== $title"
	"$bin" speedup "$out/$ours" "$out/$peer" --least "$least" --goal "$least" "$@" || worse $?
}
for t in $threads; do
	for d in $types; do
		judge "$d, $t thread(s), up to 64" 1 "ours-small-$d-t$t" "openblas-small-$d-t$t"
		judge "$d, $t thread(s), above" 0.9 "ours-large-$d-t$t" "openblas-large-$d-t$t"
		judge "$d, $t thread(s), huge ($huge_trials pairs)" 0.9 "ours-huge-$d-t$t" "openblas-huge-$d-t$t"
	done
	judge "bf16 against f32, $t thread(s)" 1.6 "half-bf16-t$t" "half-f32-t$t" --except dtype
done
echo "$(($(date +%s) - began)) s in all"
exit $code
