#!/usr/bin/env bash
# Holds kernbench's matrix products against OpenBLAS from C: the same shapes in
# turns, so that each trial of one side has a trial of the other beside it.
# Prints the ratio of the rates with its interval for each point, and whether
# the goals are met; and bf16 against f32 from 512 rows on.
#
#   scripts/bench-gemm.sh [bin/kernbench]
#
# SHAPES    MxNxK, separated by commas
# TYPES     of f32,f64 (both)
# THREADS   numbers of threads (1,2)
# TRIALS    interleaved pairs (10, the least that a verdict rests on)
# CORETYPE  what OpenBLAS is told to be (SkylakeX)
# OUT       where the runs are kept (out/bench-gemm)
#
# It needs a built kernbench, a C compiler and libopenblas.so.0 (Debian:
# libopenblas0-pthread); no Go.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
shapes=${SHAPES:-8x8x8,16x16x16,32x32x32,64x64x64,512x512x512,1024x1024x1024,2048x2048x2048,4096x4096x4096}
types=${TYPES:-f32,f64}
threads=${THREADS:-1,2}
trials=${TRIALS:-10}
core=${CORETYPE:-SkylakeX}
out=${OUT:-out/bench-gemm}
mkdir -p "$here/peers/build" "$out"
${CC:-cc} -O3 "$here/peers/gemm_cblas.c" -o "$here/peers/build/gemm_cblas" -l:libopenblas.so.0 -lm ||
	{ echo "gemm_cblas does not build: it needs a C compiler and libopenblas.so.0 (Debian: libopenblas0-pthread)" >&2; exit 1; }

for ((i = 1; i <= trials; i++)); do
	"$bin" run --bench gemm --axis "shape=$shapes" --axis "dtype=$types,bf16" --axis "threads=$threads" \
		--quiet --format csv --out "$out/ours$i" >"$out/ours$i.csv"
	"$bin" run -f "$here/peers/openblas.yaml" --axis "shape=$shapes" --axis "dtype=$types" --axis "threads=$threads" \
		--env "OPENBLAS_CORETYPE=$core" --quiet --format csv --out "$out/peer$i" >"$out/peer$i.csv"
	echo "trial $i of $trials done" >&2
done

# Times by point from every file, then ratios by trial. The least and the
# greatest ratio but one bound the median with 98 % when there are ten.
awk -F, '
FNR == 1 { for (i = 1; i <= NF; i++) col[$i] = i; next }
$col["status"] == "ok" {
	file = FILENAME; sub(/.*\//, "", file)
	side = file ~ /^ours/ ? "ours" : "peer"
	match(file, /[0-9]+/); trial = substr(file, RSTART, RLENGTH)
	key = $col["shape"] " " $col["dtype"] " " $col["threads"]
	if (!(key in seen)) { seen[key] = 1; order[++points] = key }
	time[side, key, trial] = $col["time_us"]
}
function report(key, mine, other, goal, what,    n, i, j, t, x, r) {
	n = 0
	for (t = 1; t <= trials; t++)
		if (((mine SUBSEP t) in time) && ((other SUBSEP t) in time)) r[++n] = time[other, t] / time[mine, t]
	if (n == 0) return
	for (i = 2; i <= n; i++) { x = r[i]; for (j = i - 1; j >= 1 && r[j] > x; j--) r[j + 1] = r[j]; r[j + 1] = x }
	i = (n > 5 ? int(n / 5) : 1)
	mid = (r[int((n + 1) / 2)] + r[int(n / 2) + 1]) / 2
	printf "%-28s %-10s %6.2f  %6.2f to %6.2f  goal %.2f: %s\n", key, what, mid, r[i], r[n + 1 - i], goal,
		(r[i] >= goal ? "met" : (r[n + 1 - i] < goal ? "not met" : "not resolved"))
}
END {
	printf "%-28s %-10s %6s  %s\n", "shape type threads", "against", "ratio", "interval"
	for (p = 1; p <= points; p++) {
		split(order[p], f, " "); split(f[1], d, "x")
		if (f[2] == "bf16" && d[1] < 512) continue
		if (f[2] == "bf16") report(order[p], "ours" SUBSEP order[p], "ours" SUBSEP f[1] " f32 " f[3], 1.6, "f32")
		else report(order[p], "ours" SUBSEP order[p], "peer" SUBSEP order[p], d[1] <= 64 ? 1 : 0.9, "openblas")
	}
}' trials="$trials" "$out"/ours*.csv "$out"/peer*.csv
