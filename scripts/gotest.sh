#!/usr/bin/env bash
# Runs `go test` with the arguments given, flags before packages. The tests start real
# processes, many at once, on machines that others use too: up to three packages that
# failed are run once more, alone, and said to be unsteady if they pass. What is wrong
# fails again; what is unsteady is a defect to mend, but not of the change under test.
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
