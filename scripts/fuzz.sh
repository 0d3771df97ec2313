#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other.
set -euo pipefail
time=${1:-60s}
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
	for target in $(grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | sed 's/^func //'); do
		echo "== $target ($(dirname "$file"))"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$(dirname "$file")"
	done
done
