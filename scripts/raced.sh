#!/usr/bin/env bash
# Lists the packages to test with the race detector: packages whose own code starts
# goroutines, takes locks or uses atomics. Goroutines in tests alone do not count: they stand
# for ranks or callers, and the data that they share belongs to a listed package. A sync.Once
# or a sync.Map alone does not count either, because it is safe by itself. The packages named
# below compute while their calls move data (reading it too early would be a race), share
# plans between simulated ranks, or run real processes.
# `raced.sh whole` lists only the packages that run all their tests with the detector: no test
# is left out by -short or by a build tag.
set -euo pipefail
cd "$(dirname "$0")/.."
{
	echo ./benches/gemmallreduce
	echo ./benches/gemmallreduce/fused
	echo ./cmd/kernbench
	echo ./internal/process/faults
	echo ./internal/solve/krylov
	echo ./solve
	git grep -lE '^[[:space:]]*go (func|[a-z][a-zA-Z.]*\()|\.Go\(|sync\.(Mutex|RWMutex|WaitGroup|Cond|Pool)|atomic\.' -- '*.go' ':!*_test.go' |
		xargs -n1 dirname | sed 's|^|./|'
} | sort -u | if [ "${1-}" = whole ]; then
	while read -r package; do
		git grep -qE 'testing\.Short\(\)|^//go:build.*race' -- ":(glob)$package/*_test.go" || echo "$package"
	done
else
	cat
fi
