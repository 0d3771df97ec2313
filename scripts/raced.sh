#!/usr/bin/env bash
# Lists the packages that the race detector is for: those whose own code starts goroutines,
# locks or uses atomics. Where only tests do, goroutines stand for ranks or callers, and what
# they share lies in a package of this list; a sync.Once or a sync.Map alone is safe by itself.
# The named ones go on computing while their calls move data (an early read of what arrives
# is a race), share plans between simulated ranks, or are real processes at work.
# `raced.sh whole` lists those of them whose tests are the same with the detector: none is left out with
# -short or by a build tag.
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
