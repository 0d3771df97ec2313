#!/usr/bin/env bash
# Measures the overhead of kernbench itself: how much it adds to a sample, and how many
# launches per second it makes, compared with the shell loop that people write instead.
# The numbers go to a dated file in docs/results. Usage: scripts/bench.sh bin/kernbench
set -euo pipefail
bin=$(realpath "${1:-bin/kernbench}")
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo "== cost of the harness per sample"
"$bin" run --bench harness --quiet --out "$out/harness"

now() { date +%s.%N; }
rate() { awk -v n="$1" -v a="$2" -v b="$3" 'BEGIN { printf "%.0f", n / (b - a) }'; }

# The loop logs each launch to a file, as one would for a real program.
shell_loop() {
	for ((i = 0; i < 200; i++)); do
		LAUNCH_RATE_DUMMY=$((i % 10)) /bin/true >"$out/log.$i.out" 2>"$out/log.$i.err"
	done
}

echo "== launches per second: 200 launches of a program that does nothing"
printf '%-8s %12s %12s\n' round "shell loop" kernbench
for round in 1 2 3 4 5; do
	a=$(now); shell_loop; b=$(now)
	shell=$(rate 200 "$a" "$b")
	a=$(now); "$bin" run -f "$here/peers/launch-rate.yaml" --quiet --format csv --out "$out/rate$round" >/dev/null; b=$(now)
	printf '%-8s %12s %12s\n' "$round" "$shell" "$(rate 200 "$a" "$b")"
done
