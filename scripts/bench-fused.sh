#!/usr/bin/env bash
# Measures how well a matrix product and its all-reduce overlap: which share of the
# shorter one is hidden, with the automatic number of partitions and with fixed numbers.
# Every row times, in turns and on the same cores, each of the two alone, one after the
# other, and overlapped. Each trial uses new processes. Prints every row, and whether
# the automatic number meets the goals:
#
#   - If neither takes more than 4 times as long as the other, at least 60 % of the
#     shorter one is hidden.
#   - Overlapping is never more than 3 % slower than running one after the other.
#
#   scripts/bench-fused.sh [bin/kernbench]
#
# RANKS       number of ranks (4)
# SHAPES      MxNxK, where K is the part of one rank
#             (8192x8192x256,8192x8192x512,8192x8192x2048)
# SPLITS      dimensions to partition, m or n or both (m)
# PARTITIONS  fixed numbers for the curves, measured once ("1,4,8,16,32,64"; empty for none)
# TRIALS      trials of the automatic number (10; a verdict needs at least 10)
# SECONDS_PER_POINT  sampling time per point and trial (4)
# SIMULATE    shape of the simulator's curve in the same figure (512x1024x1024; empty
#             for none)
# OUT         folder of the run (out/bench-fused), with report.html and figures. An
#             interrupted script continues where it stopped
#
# Takes about 9 minutes on 16 cores. Needs a built kernbench; Go is not needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-4}
shapes=${SHAPES:-8192x8192x256,8192x8192x512,8192x8192x2048}
splits=${SPLITS:-m}
partitions=${PARTITIONS-1,4,8,16,32,64}
trials=${TRIALS:-10}
seconds=${SECONDS_PER_POINT:-4}
simulated=${SIMULATE-512x1024x1024}
out=${OUT:-out/bench-fused}
. "$here/scripts/peers.sh"
began=$(date +%s)

for split in ${splits//,/ }; do
	run=$out/auto-$split
	for ((k = 1; k <= trials; k++)); do
		"$bin" run --bench gemm-allreduce --ranks "$ranks" --shape "$shapes" --split "$split" --partitions auto \
			--seconds "$seconds" --trials "$k" --resume --quiet --out "$run" --format csv >"$run.csv" ||
			excuse "trial $k" "$run.csv"
		echo "split $split, trial $k of $trials done after $(($(date +%s) - began)) s" >&2
	done
	curve=$out/curve-$split
	: >"$curve.csv"
	[ -z "$partitions" ] || "$bin" run --bench gemm-allreduce --ranks "$ranks" --shape "$shapes" --split "$split" --partitions "$partitions" \
		--seconds "$seconds" --resume --quiet --out "$curve" --format csv >"$curve.csv" || excuse curves "$curve.csv"
	[ -z "$simulated" ] || for backend in "cpu --dtype f32" "ahbm --dtype f16"; do
		# shellcheck disable=SC2086
		"$bin" run --bench gemm-allreduce --ranks "$ranks" --shape "$simulated" --split "$split" --partitions "${partitions:-1,4}" \
			--seconds 1 --backend $backend --quiet --out "$out/both-$split" >"$out/both-$split.txt" || excuse "$backend" "$out/both-$split.txt"
	done

	awk -F, -v split_="$split" "$median_interval"'
	FNR == 1 { delete col; for (i = 1; i <= NF; i++) { name = $i; sub(/ .*/, "", name); col[name] = i }; next }
	$col["status"] == "ok" {
		key = $col["shape"]; g = $col["gemm_us"]; a = $col["allreduce_us"]; s = $col["sequential_us"]; t = $col["time_us"]
		if (!(key in seen)) { seen[key] = 1; order[++shapes] = key }
		low = (g < a ? g : a); high = (g < a ? a : g)
		if ($col["partitions"] == "auto") {
			n[key]++; ratio[key, n[key]] = t / s; gain[key, n[key]] = 100 * (s - t) / low; near[key, n[key]] = high / low
			gemm[key] += g; red[key] += a; seq[key] += s; ours[key] += t; parts[key] = parts[key] " " $col["parts"]
		} else printf "  %-18s %4s partitions: %8.0f us, %5.1f %% recovered (product %.0f, all-reduce %.0f, one after the other %.0f us)\n", key, $col["partitions"], t, 100 * (s - t) / low, g, a, s
	}
	function sorted(of, key, m,    i, j, x) {
		for (i = 1; i <= m; i++) { x = of[key, i]; for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x }
	}
	function verdict(m, better, worse) { return m < 10 ? "not resolved (fewer than 10 trials)" : better ? "met" : worse ? "not met" : "not resolved" }
	END {
		for (p = 1; p <= shapes; p++) {
			key = order[p]; m = n[key]; if (!m) continue
			e = edge(m); if (!e) e = 1
			printf "%s, split %s: product %.0f us, all-reduce %.0f us, one after the other %.0f us, overlapped %.0f us in%s partitions\n", key, split_, gemm[key]/m, red[key]/m, seq[key]/m, ours[key]/m, parts[key]
			sorted(ratio, key, m); lo = v[e]; hi = v[m + 1 - e]
			printf "  of one after the other: %.3f to %.3f, goal at most 1.03: %s\n", lo, hi, verdict(m, hi <= 1.03, lo > 1.03)
			sorted(near, key, m); far = v[int((m + 1) / 2)]
			sorted(gain, key, m); lo = v[e]; hi = v[m + 1 - e]
			if (far > 4) printf "  recovered %.0f to %.0f %%; the two differ %.1f times, so there is no goal\n", lo, hi, far
			else printf "  recovered %.0f to %.0f %%, goal 60 %% (the two differ %.1f times): %s\n", lo, hi, far, verdict(m, lo >= 60, hi < 60)
		}
	}' "$curve.csv" "$run.csv"
done
echo "$(($(date +%s) - began)) s in all; figures in $out/*/figures, one with both backends in $out/both-*/figures"
