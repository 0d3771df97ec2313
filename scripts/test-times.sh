#!/usr/bin/env bash
# Runs `make test` and prints two tables in Markdown: the packages and the tests that take longest.
# The processor time of a package includes the processes that its tests start, but not compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
out=out/times
rm -rf "$out" && mkdir -p "$out"
export TIMES=$PWD/$out/packages
rc=0
TIMEFORMAT='%R %U %S'
{ time make --no-print-directory test JSON='-json -count=1' TIMED="$PWD/scripts/timed.sh" >"$out/log" 2>&1; } 2>"$out/all" || rc=$?
echo "On $(date -u +%F), $(git describe --always --dirty), $(nproc) cores: $(awk '{
	printf "%.1f minutes, of the processor %.1f minutes\n", $1 / 60, ($2 + $3) / 60 }' "$out/all")"
echo
echo '| package | seconds | processor |'
echo '|---|---|---|'
awk -v root="$PWD" '{ sub(root "/?", "./", $1); all += $3 + $4; printf "| %s | %.0f | %.0f |\n", $1, $2, $3 + $4 }
	END { printf "| all tests | | %.0f |\n", all }' "$TIMES" | sort -t'|' -k4 -rn | awk 'NR <= 21'
echo
echo '| test | seconds |'
echo '|---|---|'
grep '^{' "$out/log" | jq -Rr 'fromjson? | select(.Test and .Elapsed and (.Test | contains("/") | not)) |
	[.Elapsed, (.Package | sub("^github.com/kernbench/kernbench/"; "")) + " " + .Test] | @tsv' |
	sort -rn | awk -F'\t' 'NR <= 20 { printf "| %s | %.0f |\n", $2, $1 }'
grep '^{' "$out/log" | jq -Rr 'fromjson? | select(.Action == "fail") | "FAIL \(.Package) \(.Test // "")"' >&2
exit $rc
