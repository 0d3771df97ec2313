#!/usr/bin/env bash
# Measures which share of this host's limit the all-reduce reaches. The speed of a shared
# machine changes from minute to minute, so each trial is compared with a probe of the
# limits made just before it. Prints the median, minimum and maximum of each share over
# the trials, and whether the goal is met.
#
#   scripts/bench-limits.sh [bin/kernbench]
#
# RANKS    rank counts, separated by commas (2)
# TRIALS   number of probes, each followed by a run of every point (10)
# SECONDS_PER_SIZE  maximum sampling time per size and trial (0.1)
# MIN, MAX smallest and largest size in bytes (1048576, 67108864)
# GOAL     percentage of the limit that every median should reach (70)
# OUT      folder of the runs (out/bench-limits). An interrupted script continues where
#          it stopped
#
# Needs a built kernbench; neither Go nor a peer is needed.
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
ranks=${RANKS:-2}
trials=${TRIALS:-10}
seconds=${SECONDS_PER_SIZE:-0.1}
least=${MIN:-1048576}
most=${MAX:-67108864}
goal=${GOAL:-70}
out=${OUT:-out/bench-limits}
. "$here/scripts/peers.sh"

for ((k = 1; k <= trials; k++)); do
	echo "trial $k of $trials" >&2
	limits=$out/limits-$k.json
	[ -s "$limits" ] || "$bin" probe --cores "$ranks" --out "$limits" >"$out/limits-$k.txt"
	add 1 "rows-$k" --bench collectives --size "$least:$most:x4" --ranks "$ranks" --bind core --buffers symmetric,private --probe "$limits" --seconds "$seconds"
done

echo "share of the limit in percent: median, least and most of the trials"
for ((k = 1; k <= trials; k++)); do "$bin" show "$out/rows-$k" --format csv; done | awk -F, '
	/^bench,/ { for (i = 1; i <= NF; i++) at[$i] = i; next }
	$at["status"] == "ok" { printf "%-9s %2d ranks %9d bytes\t%s\n", $at["buffers"], $at["num_ranks"], $at["size"], $at["pct_of_limit"] }' |
	medians | awk -F '\t' -v goal="$goal" '
	{ printf "%s  %4.0f (%.0f to %.0f, %d trials)%s\n", $1, $2, $3, $4, $5, $2 < goal ? "  not met" : "" }
	$2 < goal { short++ }
	END {
		if (!NR) short = "no row to judge by"
		else if (short) short = "not met at " short " of " NR " points"
		printf "at least %d %%: %s\n", goal, short ? short : "met"
		exit short != ""
	}'
