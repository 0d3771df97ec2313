#!/usr/bin/env bash
# Runs `go test` with the given arguments, flags before packages. The tests start many
# processes at once, and the machine may be shared, so a test may fail because of the load.
# If at most three packages fail, they run once more, one at a time. Packages that pass
# then are reported as UNSTEADY: that is a defect to fix, but not of the change under test.
# Real failures fail again.
set -uo pipefail

flags=()
while [[ ${1-} == -* ]]; do flags+=("$1") && shift; done
said=$(mktemp)
trap 'rm -f "$said"' EXIT

${GO:-go} test "${flags[@]}" "$@" 2>&1 | tee "$said"
rc=${PIPESTATUS[0]}
[ "$rc" -ne 0 ] || exit 0

mapfile -t failed < <(sed -n 's/^FAIL\t\([^ \t]*\)\t.*s$/\1/p' "$said" | sort -u)
if [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt 3 ] || grep -q '\[build failed\]\|\[setup failed\]\|DATA RACE' "$said"; then
	exit "$rc"
fi
echo "once more, alone: ${failed[*]}"
${GO:-go} test "${flags[@]}" -count=1 -p 1 "${failed[@]}" || exit
echo "UNSTEADY: failed beside others, passed alone: ${failed[*]}"
